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

// ForRows returns an error if rows cannot each have the adapter: if it can only be folded into the weights of its base,
// or has other weights than this base.
func (a *Adapter) ForRows(base *models.Checkpoint) error {
	for _, name := range a.Tensors() {
		if m := a.matrices[name]; m.magnitude != nil {
			return setting.Errorf("adapter %s: tensor %q is of DoRA (use_dora), which rows cannot have: fold the "+
				"adapter into the weights with `merge-adapter`", a.Place, m.a.Name)
		}
	}
	if err := a.checkCopies(base); err != nil {
		return fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return nil
}

// checkCopies returns an error unless the base's own matrices in the adapter's file equal the base's.
func (a *Adapter) checkCopies(base *models.Checkpoint) error {
	for name, t := range a.copies {
		if base.Config.TieEmbeddings && name == arch.NameHead {
			name = arch.NameEmbedding
		}
		if base.Encoding(name) == models.Random { // of a plan
			continue
		}
		if err := isCopy(t, base, name); err != nil {
			return err
		}
	}
	return nil
}

// MergeInto folds the adapter into the weights of its base as they are read: see [models.Checkpoint.Add].
func (a *Adapter) MergeInto(base *models.Checkpoint) error {
	list, err := a.addends(base)
	if err == nil {
		err = base.Add(list, a.identity())
	}
	if err != nil {
		return fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return nil
}

// Merged returns a checkpoint of the matrices of the base that the adapter changes, with the adapter folded in: see
// [models.Checkpoint.Sums]. The adapter may be closed then.
func (a *Adapter) Merged(base *models.Checkpoint) (*models.Checkpoint, error) {
	list, err := a.addends(base)
	var sums *models.Checkpoint
	if err == nil {
		sums, err = base.Sums(list, a.identity())
	}
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return sums, nil
}

func (a *Adapter) identity() string { return "merged adapter " + a.Digest }

func (a *Adapter) addends(base *models.Checkpoint) (list []models.Addend, err error) {
	if err := a.checkCopies(base); err != nil {
		return nil, err
	}
	if base.Config.TieEmbeddings && (a.Adapts(arch.NameEmbedding) || a.Adapts(arch.NameHead)) {
		return nil, setting.Errorf("it changes embeddings or the output matrix, which are one matrix of this base: " +
			"neither can change alone; give the adapter with `adapter` instead")
	}
	for _, name := range a.Tensors() {
		low, _, err := a.Read(name)
		if err != nil {
			return nil, err
		}
		list = append(list, models.Addend{Tensor: name, Rank: low.Rank, Scale: low.Scale, A: low.A, B: low.B,
			Magnitude: low.Magnitude})
	}
	return list, nil
}

// copyRows is how many rows are compared at once: matrices of embeddings are large.
const copyRows = 96

// isCopy returns an error unless a tensor of the adapter has the numbers of the base's tensor of a name.
func isCopy(t *safetensors.Tensor, base *models.Checkpoint, name string) error {
	rows, rest := t.Dims[0], *t
	for first := 0; first < rows; first += copyRows {
		n := min(copyRows, rows-first)
		flat, err := base.ReadRows(name, dtypes.Float32, models.Span{From: first, N: n})
		if err != nil {
			return err
		}
		rest.Data = t.Data[len(t.Data)/rows*first:]
		err = mapped.Guard(func() error {
			if mine := numbers(&rest, n*t.Dims[1]); !slices.Equal(mine, flat.([]float32)) {
				return fmt.Errorf("tensor %q differs from the base's %s: whole matrices of adapters are not supported",
					t.Name, name)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
