package arch

import "fmt"

// deltaTensors returns the tensors of a layer's gated delta net. Each device has all of them.
func deltaTensors(c *Config, number int, names Names) (list []Tensor) {
	l := c.Layers[number]
	add := func(part Part, array, suffix string, shape ...int) {
		list = append(list, Tensor{Name: fmt.Sprintf("model.layers.%d.%s%s", number, names[part].HF, suffix),
			GGUF: fmt.Sprintf("blk.%d.%s%s", number, names[part].GGUF, suffix), Part: part, Shape: shape,
			Array: fmt.Sprintf("layers.%d.%s", number, array)})
	}
	const in = "delta_in.weight"
	add(DeltaQ, in, ".weight", l.Delta.KeyHeads*l.Delta.KeyDim, c.HiddenSize)
	add(DeltaK, in, ".weight", l.Delta.KeyHeads*l.Delta.KeyDim, c.HiddenSize)
	add(DeltaV, in, ".weight", l.Delta.Values(), c.HiddenSize)
	add(DeltaGate, in, ".weight", l.Delta.Values(), c.HiddenSize)
	add(DeltaLearn, in, ".weight", l.Delta.ValueHeads, c.HiddenSize)
	add(DeltaStep, in, ".weight", l.Delta.ValueHeads, c.HiddenSize)
	add(ConvTaps, string(ConvTaps)+".weight", ".weight", l.Delta.Channels(), l.Taps)
	add(DeltaDecay, string(DeltaDecay), "", l.Delta.ValueHeads)
	add(DeltaBias, string(DeltaBias), "", l.Delta.ValueHeads)
	add(DeltaNorm, string(DeltaNorm), ".weight", l.Delta.ValueDim)
	add(DeltaOut, string(DeltaOut)+".weight", ".weight", c.HiddenSize, l.Delta.Values())
	return list
}

// StoredRow returns the positions of a tensor's rows in a checkpoint with a tiled net. It returns nil if they are in
// order.
func (c *Config) StoredRow(t Tensor) func(row int) int {
	d, first, each := c.Layers[t.Layer].Delta, 0, 1
	if !d.Tiled {
		return nil
	}
	switch t.Part {
	case DeltaV, DeltaGate:
		each = d.ValueDim
	case DeltaLearn, DeltaStep, DeltaDecay, DeltaBias:
	case ConvTaps:
		first, each = d.Channels()-d.Values(), d.ValueDim
	default:
		return nil
	}
	return func(row int) int {
		if row < first {
			return row
		}
		return first + d.stored((row-first)/each)*each + (row-first)%each
	}
}

// mambaTensors returns the tensors of a Mamba-2 layer. Each device has all of them.
func mambaTensors(c *Config, number int, names Names) (list []Tensor) {
	l := c.Layers[number]
	add := func(part Part, array, suffix string, shape ...int) {
		list = append(list, Tensor{Name: fmt.Sprintf("model.layers.%d.%s%s", number, names[part].HF, suffix),
			GGUF: fmt.Sprintf("blk.%d.%s%s", number, names[part].GGUF, suffix), Part: part, Shape: shape,
			Array: fmt.Sprintf("layers.%d.%s", number, array)})
	}
	linear := func(part Part, out, in int) {
		add(part, string(part)+weightSuffix, weightSuffix, out, in)
		if l.Mamba.Bias {
			add(part, string(part)+biasSuffix, biasSuffix, out)
		}
	}
	linear(MambaIn, l.Mamba.Inputs(), c.HiddenSize)
	add(ConvTaps, string(ConvTaps)+weightSuffix, weightSuffix, l.Mamba.Channels(), l.Taps)
	if l.Mamba.TapsBias {
		add(ConvBias, string(ConvBias), biasSuffix, l.Mamba.Channels())
	}
	for _, part := range []Part{MambaDecay, MambaStep, MambaSkip} {
		add(part, string(part), "", l.Mamba.Heads)
	}
	add(MambaNorm, string(MambaNorm), weightSuffix, l.Mamba.Inner())
	linear(MambaOut, c.HiddenSize, l.Mamba.Inner())
	return list
}

// expertTensors returns the tensors of a layer's router, its experts and the shared one. A GGUF file has each part of
// all experts in one tensor.
func expertTensors(c *Config, number int, names Names) []Tensor {
	layer, e := c.Layers[number], c.Layers[number].Experts
	name := func(part Part) string { return fmt.Sprintf("model.layers.%d.%s", number, names[part].HF) }
	array := fmt.Sprintf("layers.%d.", number)
	var list []Tensor
	add := func(part Part, member, suffix string, expert, axis int, over Split, shape ...int) {
		t := Tensor{Name: name(part) + suffix, GGUF: fmt.Sprintf("blk.%d.%s%s", number, names[part].GGUF, suffix),
			Part: part, Shape: shape, Array: array + member + suffix, Axis: axis, Over: over}
		if expert >= 0 {
			t.Name, t.Expert, t.Experts = fmt.Sprintf(t.Name, expert), expert, e.Count
			t.Array = fmt.Sprintf("%s%s%d.%s%s", array, ExpertPrefix, expert, member, suffix)
			t.Fused = e.Fused.in(part, suffix == biasSuffix, shape[0], name)
			if t.Fused != nil && e.Fused == FusedInGGUF {
				t.Fused.Name = fmt.Sprintf(fusedGGUF, number) + suffix
			}
		}
		list = append(list, t)
	}
	layers := func(part Part, member string, expert int, over Split, out, in int) {
		add(part, member, weightSuffix, expert, 0, over, out, in)
		if e.Bias {
			add(part, member, biasSuffix, expert, 0, over, out)
		}
	}
	const one = -1 // no number of an expert
	layers(Router, string(Router), one, Whole, e.Count, c.HiddenSize)
	if e.Choice {
		add(RouterChoice, string(RouterChoice), "", one, 0, Whole, e.Count)
	}
	if e.SharedGate {
		layers(SharedScore, string(Router), one, Whole, 1, c.HiddenSize)
	}
	for n := range e.Count {
		up := "up"
		if layer.Gated {
			up = "gate_up"
			layers(ExpertGate, up, n, ByIntermediate, e.Size, c.HiddenSize)
		}
		layers(ExpertUp, up, n, ByIntermediate, e.Size, c.HiddenSize)
		add(ExpertDown, "down", weightSuffix, n, 1, ByIntermediate, c.HiddenSize, e.Size)
		if e.Bias { // added to the sum of what devices have: one of them has it
			add(ExpertDown, "down", biasSuffix, n, 0, OnOne, c.HiddenSize)
		}
	}
	if e.Shared > 0 {
		up := "shared_up"
		if layer.Gated {
			up = "shared_gate_up"
			add(SharedGate, up, weightSuffix, one, 0, ByIntermediate, e.Shared, c.HiddenSize)
		}
		add(SharedUp, up, weightSuffix, one, 0, ByIntermediate, e.Shared, c.HiddenSize)
		add(SharedDown, string(SharedDown), weightSuffix, one, 1, ByIntermediate, c.HiddenSize, e.Shared)
	}
	return list
}
