package models

import (
	"errors"
	"fmt"
	"slices"

	"github.com/quire/quire/models/arch"
)

// arrange makes the tensors of the config from the tensors of the file: it splits tensors that hold several parts or
// all experts, and reorders rows of q and k so that halves of a head are rotated. It leaves tensors that do not fit the
// config to Validate.
func arrange(c *Checkpoint) error {
	if err := errors.Join(joinMXFP4(c), joinLatentUp(c)); err != nil {
		return err
	}
	wholes := map[string]bool{}
	for want := range c.Config.Tensors() {
		if w := want.Within; w != nil && c.tensors[w.Name] != nil {
			whole := c.tensors[w.Name]
			_, width := whole.matrix()
			if shape := append([]int{w.Rows}, want.Shape[1:]...); !slices.Equal(whole.shape, shape) {
				return fmt.Errorf("tensor %s has shape %v, but the config implies %v", whole.name, whole.shape, shape)
			}
			if width%whole.blockLen != 0 && (w.First*width%whole.blockLen != 0 || w.Heads > 1) {
				return fmt.Errorf("tensor %s: %w", whole.name,
					arch.Unsupported("", "cutting blocks of %s", whole.stored))
			}
			c.tensors[want.Name] = whole.rows(w.First, want.Shape[0])
			if w.Heads > 1 {
				c.tensors[want.Name] = whole.picked(want.Shape, func(row int) int { return w.Row(row, want.Shape[0]) })
			}
			wholes[w.Name] = true
		}
		if all := c.tensors[want.GGUF]; want.Experts > 0 && all != nil && len(all.shape) == len(want.Shape)+1 &&
			all.shape[0] == want.Experts {
			one := all.rows(want.Expert, 1)
			one.shape = one.shape[1:]
			c.tensors[want.Name] = one
			wholes[want.GGUF] = true
		}
		if f := want.Fused; f != nil && c.tensors[f.Name] != nil {
			one, err := c.tensors[f.Name].expert(want)
			if err != nil {
				return err
			}
			c.tensors[want.Name] = one
			wholes[f.Name] = true
		}
		t := c.tensors[want.Name]
		if stored := c.Config.StoredRow(want); stored != nil && t != nil && len(t.shape) > 0 &&
			t.shape[0] == want.Shape[0] {
			if _, width := t.matrix(); width%t.blockLen != 0 {
				return fmt.Errorf("tensor %q has rows of %d in blocks of %s: %w", want.GGUF, width, t.stored,
					arch.Unsupported("", "reordering them"))
			}
			c.tensors[want.Name] = t.picked(t.shape, stored)
			continue
		}
		if !c.Config.Stored.Interleaved || want.Part != arch.Q && want.Part != arch.K || t == nil || t.decode == nil ||
			len(c.Config.Ropes) == 0 || len(t.shape) == 0 || t.shape[0]%c.Config.HeadDim != 0 {
			continue
		}
		if len(t.shape) == 1 && t.blockLen > 1 {
			return fmt.Errorf("tensor %q is a bias in blocks of %s: %w", want.GGUF, t.stored,
				arch.Unsupported("", "reordering it"))
		}
		t.deinterleave(c.Config.HeadDim, c.Config.RopeDims(arch.FullRope))
	}
	for name := range wholes {
		delete(c.tensors, name)
	}
	return nil
}
