package models

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// arrange makes the tensors of the config from those of the file: parts of tensors that hold several, experts of those
// that hold all, and rows of q and k in the order in which halves of a head are rotated.
// What does not fit the config is left to Validate.
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

// rows returns rows of a tensor as a tensor.
func (t *tensor) rows(first, n int) *tensor {
	if t.packed != nil {
		return t.cut(first, n)
	}
	part := *t
	_, width := t.matrix()
	part.shape = append([]int{n}, t.shape[1:]...)
	r := t.place(first*width, (first+n)*width)
	part.data, part.offset = t.data[r.From:r.To], t.offset+r.From
	if t.inStep {
		part.companions = make([]*tensor, len(t.companions))
		for i, b := range t.companions {
			of, in := *b, t.companionRange(b, r)
			of.data, of.offset = b.data[in.From:in.To], b.offset+in.From
			part.companions[i] = &of
		}
	}
	if decode := t.decode; decode != nil {
		part.decode = func(dst []float32, from int) { decode(dst, first*width+from) }
	}
	if unpack := t.unpack; unpack != nil {
		part.unpack = func(to *blocks.Rows, from int) { unpack(to, first*width+from) }
	}
	return &part
}

// picked returns the rows with these numbers as a tensor.
func (t *tensor) picked(shape []int, stored func(row int) int) *tensor {
	if t.packed != nil {
		part := t.cut(0, shape[0])
		part.reorder(stored)
		return part
	}
	part := *t
	part.shape, part.native, part.scattered = shape, dtypes.InvalidDType, true
	_, width := part.matrix()
	part.unit = width
	if decode := t.decode; decode != nil {
		part.decode = func(dst []float32, from int) {
			for row := from / width; len(dst) > 0; row++ {
				decode(dst[:width], stored(row)*width)
				dst = dst[width:]
			}
		}
	}
	if unpack := t.unpack; unpack != nil { // blocks of one row, or of a part of one
		part.unpack = func(to *blocks.Rows, from int) { unpack(to, stored(from/width)*width+from%width) }
	}
	return &part
}

// deinterleave makes decode return the rows of a q or k projection (or the elements of its bias) in Hugging Face
// order: among the first `turned` rows of a head, row half*turned/2+i, half 0 or 1, is stored as row 2*i+half.
func (t *tensor) deinterleave(headDim, turned int) {
	stored := t.decode
	row := 1
	for _, d := range t.shape[1:] {
		row *= d
	}
	storedRow := func(r int) int {
		inHead := r % headDim
		if inHead >= turned {
			return r
		}
		return r - inHead + 2*(inHead%(turned/2)) + inHead/(turned/2)
	}
	if t.packed != nil {
		t.reorder(storedRow)
		return
	}
	t.native, t.unit, t.group = dtypes.InvalidDType, row, headDim
	t.decode = func(dst []float32, first int) {
		for r := first / row; len(dst) > 0; r++ {
			stored(dst[:row], storedRow(r)*row)
			dst = dst[row:]
		}
	}
	if unpack := t.unpack; unpack != nil { // blocks of one row, or of a part of one
		t.unpack = func(to *blocks.Rows, first int) { unpack(to, storedRow(first/row)*row+first%row) }
	}
}
