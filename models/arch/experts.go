package arch

import (
	"fmt"
	"slices"
)

// Experts is a mixture: a token goes through the feed-forwards of some experts, which a router chooses, and the result
// is their sum by shares. The zero value is one feed-forward for all tokens.
type Experts struct {
	Count  int // 0: no mixture
	Chosen int // for each token, those with the largest scores
	Size   int // width of an expert's feed-forward
	// Renormalize makes the shares of the chosen add up to 1. A share is the softmax of the scores of all experts, or
	// where Sigmoid says so the sigmoid of its own. SumEps is added to their sum before. Scale, if not 0, is what they
	// are multiplied by then.
	Renormalize, Sigmoid bool
	SumEps, Scale        float64
	// Choice says that experts are chosen by their shares plus a number of each, which no share has.
	Choice bool
	// Groups is in how many groups of consecutive experts they are, if not 0, and a token chooses among ChosenGroups of
	// them: those with the largest share, or sum of the two largest where Choice says so.
	Groups, ChosenGroups int
	// Bias says that the router has a bias, and each layer of an expert.
	Bias bool
	// Shared is the width of a feed-forward that all tokens go through beside their experts; 0: none. SharedGate says
	// that the sigmoid of a score of its own is its share; else that is 1.
	Shared     int
	SharedGate bool
	// Apart says that the shared feed-forward and the experts are two sides, as in Gemma 4. The experts and the router
	// read hidden states through norms of their own. What either side makes goes through a norm of its own, and the
	// norm behind the feed-forward takes the sum. Scores are divided by the square root of the hidden size, and shares
	// are multiplied at last by a number of each expert.
	Apart bool
	// Fused says how a checkpoint has gates and ups of all experts in one tensor, where it does.
	Fused Fused
}

// ChosenExpertNames are the names in which the mixtures of DeepSeek and GLM differ from Qwen's: of the number of each
// expert that only its choice counts, and of the shared experts.
var ChosenExpertNames = Names{
	RouterChoice: {HF: "mlp.gate.e_score_correction_bias", GGUF: "exp_probs_b.bias"},
	SharedGate:   {HF: "mlp.shared_experts.gate_proj", GGUF: "ffn_gate_shexp"},
	SharedUp:     {HF: "mlp.shared_experts.up_proj", GGUF: "ffn_up_shexp"},
	SharedDown:   {HF: "mlp.shared_experts.down_proj", GGUF: "ffn_down_shexp"},
}

// ChosenSumEps is what DeepSeek V3 and GLM add to the sum of shares.
const ChosenSumEps = 1e-20

// Fused is how the tensors of all experts lie: [experts, rows, inputs], gates and ups in one. Their names in Hugging
// Face's checkpoints are those of ExpertsGateUp and ExpertsDown, of biases with "_bias" behind.
type Fused string

// The ways: each expert has tensors of its own; gates and ups take turns, and rows are inputs; all gates come before
// all ups; they do so in a GGUF file, under its own name.
const (
	NotFused    Fused = ""
	FusedTurns  Fused = "turns"
	FusedHalves Fused = "halves"
	FusedInGGUF Fused = "gguf"
)

// fusedGGUF is the tensor of a layer's gates and ups in GGUF files, where they are one.
const fusedGGUF = "blk.%d.ffn_gate_up_exps"

// FusedIn is where a tensor of one expert is in one of all experts: [experts, Rows, inputs] has it as rows First,
// First+Step and so on. Transposed ones are [experts, inputs, Rows].
type FusedIn struct {
	Name              string
	First, Step, Rows int
	Transposed        bool
}

// FusedShape is that of the tensor of all experts, where there is one.
func (t Tensor) FusedShape() []int {
	shape := slices.Clone(t.Shape)
	if shape[0] = t.Fused.Rows; t.Fused.Transposed {
		slices.Reverse(shape)
	}
	return append([]int{t.Experts}, shape...)
}

// in is where a part of an expert is that has so many rows, as matrix or as bias; nil where it is a tensor of its own.
func (f Fused) in(part Part, bias bool, rows int, name func(part Part) string) *FusedIn {
	if f == NotFused || f == FusedInGGUF && part == ExpertDown {
		return nil
	}
	in := &FusedIn{Step: 1, Rows: rows, Transposed: f == FusedTurns && !bias}
	if part == ExpertDown {
		in.Name = name(ExpertsDown)
	} else {
		in.Name, in.Rows = name(ExpertsGateUp), 2*rows
	}
	switch {
	case f != FusedTurns && part == ExpertUp:
		in.First = rows
	case f == FusedTurns && part != ExpertDown:
		in.Step = 2
		if part == ExpertUp {
			in.First = 1
		}
	}
	if bias {
		in.Name += "_bias"
	}
	return in
}

func (e Experts) check(layer int) error {
	switch {
	case e.Count == 0 && !e.Apart:
		return nil
	case e.Count < 1 || e.Count > 1<<14 || e.Chosen < 1 || e.Chosen > e.Count:
		return fmt.Errorf("layer %d takes %d of %d experts", layer, e.Chosen, e.Count)
	case e.Size < 1 || e.Size > maxDimension:
		return fmt.Errorf("the experts of layer %d are %d wide; it must be between 1 and %d", layer, e.Size,
			maxDimension)
	case !(e.Scale >= 0 && e.Scale <= 1e6):
		return fmt.Errorf("shares of the experts of layer %d are multiplied by %g; it must be between 0 and 1e6", layer,
			e.Scale)
	case e.Groups != 0 && (e.Groups < 1 || e.Count%e.Groups != 0 || e.ChosenGroups < 1 || e.ChosenGroups > e.Groups ||
		e.ChosenGroups*(e.Count/e.Groups) < e.Chosen || e.Choice && e.Count/e.Groups < 2):
		return fmt.Errorf("layer %d takes %d of %d experts from %d of %d groups", layer, e.Chosen, e.Count,
			e.ChosenGroups, e.Groups)
	case e.Apart && (e.Shared == 0 || e.SharedGate || e.Bias):
		return fmt.Errorf("layer %d has experts apart from a feed-forward that it does not have", layer)
	case e.Shared < 0 || e.Shared > maxDimension:
		return fmt.Errorf("the shared expert of layer %d is %d wide; it must be between 0 and %d", layer, e.Shared,
			maxDimension)
	}
	return nil
}

// SparseExperts gives the layers a mixture but those that decoder_sparse_step and mlp_only_layers leave with one
// feed-forward.
func (j *JSON) SparseExperts(c *Config, e Experts) {
	step, only := max(1, j.Int("decoder_sparse_step", 1)), []int{}
	j.Decode("mlp_only_layers", &only)
	for i := range c.Layers {
		if (i+1)%step == 0 && e.Count > 0 && !slices.Contains(only, i) {
			c.Layers[i].Experts = e
		}
	}
}

// ExpertPrefix begins the names of the arrays of expert number n of a layer, behind the layer's: "experts.n.".
const ExpertPrefix = "experts."

// Experts reads the mixture of a GGUF file, of the decoder's shares, into the layers that have no feed-forward of their
// own, and checks that the file has as many experts.
func (m *Metadata) Experts(c *Config, renormalize bool) error {
	return m.mixture(c, Experts{Renormalize: renormalize, Shared: m.Int("expert_shared_feed_forward_length", 0)})
}

// ExpertsApart is Experts of a mixture beside a feed-forward of each layer; e has what is the decoder's own.
func (m *Metadata) ExpertsApart(c *Config, e Experts) error { return m.mixture(c, e) }

// RouterKeys are those of GGUF files that say how experts are chosen and weighed, which [Metadata.RoutedExperts] reads.
var RouterKeys = []string{"leading_dense_block_count", "expert_gating_func", "expert_shared_count",
	"expert_weights_norm", "expert_weights_scale", "expert_group_count", "expert_group_used_count"}

// Values of expert_gating_func: what makes shares of scores.
const (
	gatingSoftmax = 1
	gatingSigmoid = 2
)

// Sigmoids reads whether shares are sigmoids of scores, or their softmax; absent is what a file without the key means.
func (m *Metadata) Sigmoids(absent bool) (bool, error) {
	const key = "expert_gating_func"
	if !m.Has(key) {
		return absent, nil
	}
	switch n := m.Int(key, 0); n {
	case gatingSoftmax:
		return false, nil
	case gatingSigmoid:
		return true, nil
	default:
		return false, Unsupported("1 (softmax) and 2 (sigmoid) are", "expert_gating_func %d", n)
	}
}

// OnlySigmoids refuses a file whose shares are no sigmoids.
func (m *Metadata) OnlySigmoids(c *Config) error {
	if sigmoids, err := m.Sigmoids(true); err != nil || sigmoids {
		return err
	}
	return Unsupported("2 (sigmoid) is", "expert_gating_func %d of a %s", gatingSoftmax, c.Architecture)
}

// RoutedExperts is Experts of a file that says how experts are chosen and weighed. e has what is the decoder's own, and
// what the file does not say.
func (m *Metadata) RoutedExperts(c *Config, e Experts) error {
	e.Renormalize = m.Bool("expert_weights_norm", e.Renormalize)
	e.Scale = m.Float("expert_weights_scale", 1)
	e.Groups, e.ChosenGroups = m.Int("expert_group_count", e.Groups), m.Int("expert_group_used_count", e.ChosenGroups)
	if e.Size = m.Int("expert_feed_forward_length", 0); e.Size <= maxDimension {
		e.Shared = e.Size * min(m.Int("expert_shared_count", 0), maxDimension)
	}
	if err := m.mixture(c, e); err != nil {
		return err
	}
	dense := m.Int("leading_dense_block_count", 0)
	for i, l := range c.Layers {
		if sparse := l.Experts.Count > 0; sparse == (i < dense) {
			return fmt.Errorf("leading_dense_block_count is %d, but layer %d has %s", dense, i,
				map[bool]string{true: "experts", false: "none"}[sparse])
		}
	}
	return nil
}

// mixture reads the sizes of a mixture, and which layers have it.
func (m *Metadata) mixture(c *Config, e Experts) error {
	e.Count, e.Chosen = m.required("expert_count"), m.required("expert_used_count")
	if e.Size = m.Int("expert_feed_forward_length", 0); e.Size == 0 {
		e.Size = c.IntermediateSize
	}
	names, choice := LlamaNames.With(c.Names), e.Choice
	for i := range c.Layers {
		tensor := func(part Part) string { return fmt.Sprintf("blk.%d.%s", i, names[part].GGUF) }
		dense := m.HasTensor(tensor(Up) + weightSuffix)
		if e.Apart { // the shared feed-forward has its names
			dense = !m.HasTensor(tensor(Router) + weightSuffix)
		}
		if dense {
			continue
		}
		if old := tensor(Up) + ".0.weight"; m.HasTensor(old) {
			return Unsupported("convert the model again with a llama.cpp of April 2024 or later",
				"tensor %s, a file with a tensor for each expert,", old)
		}
		e.Fused = NotFused
		all := []string{tensor(ExpertGate), tensor(ExpertUp), tensor(ExpertDown)}
		if fused := fmt.Sprintf(fusedGGUF, i); m.HasTensor(fused + weightSuffix) {
			e.Fused, all = FusedInGGUF, []string{fused, tensor(ExpertDown)}
		}
		for _, name := range all {
			name += weightSuffix
			t := m.File.Tensor(name)
			if t == nil {
				return fmt.Errorf("tensor %s is missing", name)
			}
			if len(t.Dims) != 3 || t.Dims[0] != e.Count {
				return fmt.Errorf("tensor %s has shape %v, but expert_count is %d", name, t.Dims, e.Count)
			}
		}
		if e.Apart {
			e.Shared = c.OfLayer(i).IntermediateSize
		}
		e.SharedGate = e.Shared > 0 && m.HasTensor(tensor(SharedScore)+weightSuffix)
		e.Choice = choice || m.HasTensor(tensor(RouterChoice))
		c.Layers[i].Experts = e
	}
	if !slices.ContainsFunc(c.Layers, func(l Layer) bool { return l.Experts.Count > 0 }) {
		return fmt.Errorf("no layer has experts, but expert_count is %d", e.Count)
	}
	return nil
}

// expertTensors are the router of a layer, its experts and the shared one. A GGUF file has each part of all experts in
// one tensor.
func (c *Config) expertTensors(number int, names Names) []Tensor {
	layer, e := c.Layers[number], c.Layers[number].Experts
	name := func(part Part) string { return fmt.Sprintf("model.layers.%d.%s", number, names[part].HF) }
	array := fmt.Sprintf("layers.%d.", number)
	var list []Tensor
	add := func(part Part, of, suffix string, expert, axis int, over Split, shape ...int) {
		t := Tensor{Name: name(part) + suffix, GGUF: fmt.Sprintf("blk.%d.%s%s", number, names[part].GGUF, suffix),
			Part: part, Shape: shape, Array: array + of + suffix, Axis: axis, Over: over}
		if expert >= 0 {
			t.Name, t.Expert, t.Experts = fmt.Sprintf(t.Name, expert), expert, e.Count
			t.Array = fmt.Sprintf("%s%s%d.%s%s", array, ExpertPrefix, expert, of, suffix)
			t.Fused = e.Fused.in(part, suffix == biasSuffix, shape[0], name)
			if t.Fused != nil && e.Fused == FusedInGGUF {
				t.Fused.Name = fmt.Sprintf(fusedGGUF, number) + suffix
			}
		}
		list = append(list, t)
	}
	layers := func(part Part, of string, expert int, over Split, out, in int) {
		add(part, of, weightSuffix, expert, 0, over, out, in)
		if e.Bias {
			add(part, of, biasSuffix, expert, 0, over, out)
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
