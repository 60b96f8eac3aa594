package feature

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
)

// scoring has the likeliest tokens that rows ask for.
type scoring struct {
	Tops    *Node // i32[S]: how many of the likeliest tokens with each sampled token
	Prompts *Node // i32[R]: how many with each of the prompt, and one; 0: the prompt is not scored
}

// scoringOf is the host's input for it.
type scoringOf[Ints any] struct {
	Tops    Ints // i32[A]
	Prompts Ints // i32[A]
	Ahead   Ints // i32[H]: Prompts of prompts that run ahead
}

// scoreFeature provides the likeliest tokens at sampled tokens and at prompt tokens. It changes no logits: [Scores]
// computes its results.
type scoreFeature struct {
	idle
	Sizes
}

func (f scoreFeature) begin(g *Graph, st *State) {
	if f.Features.Has(TopLogprobs) {
		st.Scoring.Tops = zeros(g, dtypes.Int32, f.Slots)
	}
	if f.Features.Has(PromptLogprobs) {
		st.Scoring.Prompts = zeros(g, dtypes.Int32, f.Rows())
	}
}

func (f scoreFeature) bytes() (n int64) {
	if f.Features.Has(TopLogprobs) {
		n += 4 * int64(f.Slots)
	}
	if f.Features.Has(PromptLogprobs) {
		n += 4 * int64(f.Rows())
	}
	return n
}

func (f scoreFeature) ask(all *Asked) {
	in := &all.Scoring
	if f.Features.Has(TopLogprobs) {
		in.Tops = make([]int32, f.WaitingLen())
	}
	if f.Features.Has(PromptLogprobs) {
		in.Prompts, in.Ahead = make([]int32, f.WaitingLen()), make([]int32, f.AheadLen())
	}
}

func (f scoreFeature) set(all *Asked, i int, _ Row, e schedule.Entry) {
	in := &all.Scoring
	if in.Tops != nil {
		in.Tops[i] = int32(e.Request.Tops)
	}
	if in.Prompts != nil {
		in.Prompts[i] = int32(e.Request.Score)
	}
}

func (f scoreFeature) setAhead(in *Asked, i int, p schedule.Prompt) {
	if in.Scoring.Ahead != nil {
		in.Scoring.Ahead[i] = int32(p.Score)
	}
}

func (f scoreFeature) admit(st *State, in Input, a Admission) {
	s, requested := &st.Scoring, in.Asked.Scoring
	if s.Tops != nil {
		s.Tops = control.ScatterSet(s.Tops, a.slots(f.Slots), requested.Tops)
	}
	if s.Prompts != nil {
		s.Prompts = control.ScatterSet(s.Prompts, a.slots(f.Rows()), requested.Prompts)
		s.Prompts = control.ScatterSet(s.Prompts, chosen(a.AheadRows, a.Ahead, f.Rows()), requested.Ahead)
	}
}
