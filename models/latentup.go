package models

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// joinLatentUp joins the two halves of a matrix of latent attention, as GGUF files have them since April 2025: the half
// that computes keys from latents, transposed, and the half that computes values.
func joinLatentUp(c *Checkpoint) error {
	for want := range c.Config.Tensors() {
		if want.Part != arch.LatentUp {
			continue
		}
		nameOf := func(part arch.Part) string {
			return fmt.Sprintf("blk.%d.%s.weight", want.Layer, c.Config.Names[part].GGUF)
		}
		k, v := c.tensors[nameOf(arch.LatentKeys)], c.tensors[nameOf(arch.LatentValues)]
		if k == nil || v == nil {
			continue
		}
		heads, m := c.Config.NumHeads, c.Config.Layers[want.Layer].Latent
		for _, half := range []struct {
			name   string
			tensor *tensor
			shape  []int
		}{{nameOf(arch.LatentKeys), k, []int{heads, m.Rank, m.KeyDim}},
			{nameOf(arch.LatentValues), v, []int{heads, m.ValueDim, m.Rank}}} {
			if !slices.Equal(half.tensor.shape, half.shape) {
				return fmt.Errorf("tensor %s has shape %v, but the config implies %v", half.name, half.tensor.shape,
					half.shape)
			}
			delete(c.tensors, half.name)
		}
		if c.tensors[want.Name] == nil { // some files have the whole matrix, too
			c.tensors[want.Name] = latentUp(k, v, m, want.Shape)
		}
	}
	return nil
}

// latentUp returns a tensor whose rows are, for each head, the columns of k followed by the rows of v. It is decoded
// one head at a time.
func latentUp(k, v *tensor, m arch.Latent, shape []int) *tensor {
	t, values, heads := *k, *v, k.shape[0]
	keySize, valueSize := m.Rank*m.KeyDim, m.Rank*m.ValueDim
	t.shape, t.native, t.format, t.unpack = shape, dtypes.InvalidDType, blocks.Format{}, nil
	t.unit, t.blockLen = keySize+valueSize, keySize+valueSize
	t.blockBytes, values.blockBytes = len(k.data)/heads, len(v.data)/heads
	t.companions, t.inStep = []*tensor{&values}, true
	t.release = func() { k.release(); v.release() }
	if k.decode == nil || v.decode == nil {
		t.decode = nil
		return &t
	}
	t.decode = func(dst []float32, first int) {
		stored := make([]float32, keySize)
		for head := first / t.unit; len(dst) > 0; head++ {
			k.decode(stored, head*keySize)
			for i, x := range stored {
				dst[i%m.KeyDim*m.Rank+i/m.KeyDim] = x
			}
			v.decode(dst[keySize:t.unit], head*valueSize)
			dst = dst[t.unit:]
		}
	}
	return &t
}
