package arch

import (
	"fmt"
	"slices"
)

// Experts is a mixture: a token goes through the feed-forwards of some experts, which a router chooses, and the result
// is their sum by shares. The zero value is one feed-forward for all tokens.
type Experts struct {
	Count  int // 0: no mixture
	Chosen int // experts of each token: the ones with the largest scores
	Size   int // width of an expert's feed-forward
	// Renormalize makes the shares of the chosen add up to 1. A share is the softmax over the scores of all experts or,
	// if Sigmoid is set, the sigmoid of the expert's own score. SumEps is added to their sum first. If Scale is not 0,
	// the shares are then multiplied by it.
	Renormalize, Sigmoid bool
	SumEps, Scale        float64
	// Choice reports whether experts are chosen by their shares plus a number of each expert, which is not part of the
	// share.
	Choice bool
	// Groups, if not 0, is the number of groups of consecutive experts. A token chooses among the experts of
	// ChosenGroups groups: the groups with the largest share or, if Choice is set, with the largest sum of two shares.
	Groups, ChosenGroups int
	// Bias reports whether the router and each layer of an expert have a bias.
	Bias bool
	// Shared is the width of a feed-forward that all tokens go through in addition to their experts; 0: none. If
	// SharedGate is set, its share is the sigmoid of a score of its own; otherwise its share is 1.
	Shared     int
	SharedGate bool
	// Apart reports whether the shared feed-forward and the experts are two sides, as in Gemma 4. The experts and the
	// router read hidden states through norms of their own. The result of each side goes through a norm of its own, and
	// the norm after the feed-forward takes the sum. Scores are divided by the square root of the hidden size, and
	// shares are finally multiplied by a number of each expert.
	Apart bool
	// Fused describes how a checkpoint has the gates and ups of all experts in one tensor, if it does.
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
// Face's checkpoints are the names of ExpertsGateUp and ExpertsDown; names of biases end in "_bias".
type Fused string

// The ways: each expert has tensors of its own; gates and ups take turns, and rows are inputs; all gates come before
// all ups; they do so in a GGUF file, under its own name.
const (
	NotFused    Fused = ""
	FusedTurns  Fused = "turns"
	FusedHalves Fused = "halves"
	FusedInGGUF Fused = "gguf"
)

// fusedGGUF is the tensor of a layer's gates and ups in GGUF files, if they are one.
const fusedGGUF = "blk.%d.ffn_gate_up_exps"

// FusedIn is the position of one expert's tensor in a tensor of all experts: in [experts, Rows, inputs] it is the rows
// First, First+Step and so on. Transposed ones are [experts, inputs, Rows].
type FusedIn struct {
	Name              string
	First, Step, Rows int
	Transposed        bool
}

// FusedShape is the shape of the tensor of all experts, if there is one.
func (t Tensor) FusedShape() []int {
	shape := slices.Clone(t.Shape)
	if shape[0] = t.Fused.Rows; t.Fused.Transposed {
		slices.Reverse(shape)
	}
	return append([]int{t.Experts}, shape...)
}

// in returns the position of an expert's part with so many rows, a matrix or a bias; nil if the part is a tensor of its
// own.
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
