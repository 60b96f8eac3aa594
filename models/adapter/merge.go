package adapter

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/internal/mapped"
	"github.com/quire/quire/models/safetensors"
)

// ForRows returns an error if the adapter can be folded into the weights of its base alone: rows cannot each have it.
func (a *Adapter) ForRows() error {
	for _, name := range a.Tensors() {
		m, what := a.matrices[name], ""
		switch {
		case m.magnitude != nil:
			what = "of DoRA (use_dora)"
		case m.Part == arch.Embedding:
			what = "of embeddings"
		case m.Part == arch.Head:
			what = "of the output matrix"
		default:
			continue
		}
		return setting.Errorf("adapter %s: tensor %q is %s, which rows cannot have: fold the adapter into the weights "+
			"with `merge-adapter`", a.Place, m.a.Name, what)
	}
	return nil
}

// MergeInto folds the adapter into the weights of its base as they are read: see [models.Checkpoint.Add].
func (a *Adapter) MergeInto(base *models.Checkpoint) error {
	var list []models.Addend
	for name, t := range a.copies {
		if err := isCopy(t, base, name); err != nil {
			return fmt.Errorf("adapter %s: %w", a.Place, err)
		}
	}
	for _, name := range a.Tensors() {
		low, _, err := a.Read(name)
		if err != nil {
			return err
		}
		list = append(list, models.Addend{Tensor: name, Rank: low.Rank, Scale: low.Scale, A: low.A, B: low.B,
			Magnitude: low.Magnitude})
	}
	if err := base.Add(list, "merged adapter "+a.Digest); err != nil {
		return fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return nil
}

// isCopy returns an error unless a tensor of the adapter has the numbers of the base's tensor of a name.
func isCopy(t *safetensors.Tensor, base *models.Checkpoint, name string) error {
	flat, err := base.Read(name, dtypes.Float32)
	if err != nil {
		return err
	}
	return mapped.Guard(func() error {
		if mine := numbers(t, len(flat.([]float32))); !slices.Equal(mine, flat.([]float32)) {
			return fmt.Errorf("tensor %q differs from the base's %s: whole matrices of adapters are not supported",
				t.Name, name)
		}
		return nil
	})
}
