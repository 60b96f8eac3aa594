package contexts

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/ops/tree"
)

// Score runs what waits, and returns how likely the tokens are to come next: log softmax(logits)[token], natural
// logarithms, the first given the context, each other one given the tokens before it, too. The context stays as it is.
//
// It returns [admit.ErrEmptyPrompt] for an empty context, which has no next token, [admit.ErrPromptTooLong],
// [admit.ErrInvalidRequest], pagetable.ErrOutOfPages, and [admit.ErrNotANumber].
func (c *Context) Score(ctx context.Context, tokens []int32) (logprobs []float32, err error) {
	s, r := c.set, c.row
	defer lockContexts(c)()
	err = s.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		if err := s.checker.CheckTokens(tokens); err != nil {
			return err
		}
		if len(r.tokens) == 0 {
			return admit.ErrEmptyPrompt
		}
		return s.checkLen(len(r.tokens) + len(tokens))
	})
	if err == nil {
		err = s.flush(ctx, []*contextRow{r})
	}
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	return s.scoreTokens(ctx, r, tokens)
}

// scoreTokens runs the last token of the context and all but the last of tokens in a row that is released afterwards,
// one step between two calls of a run.
func (s *Contexts) scoreTokens(ctx context.Context, r *contextRow, tokens []int32) ([]float32, error) {
	s.scoring.Lock()
	defer s.scoring.Unlock()
	pageSize, base := s.table.pageSize, s.table.begin(r.done-1)
	before := r.done - 1 - base // what runs again because pages have the states of their ends
	scratch := &contextRow{row: s.table.core.Graphs().ScoreRow()}
	at := scratch.row - s.table.first
	err := s.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		end := ceilDiv(base+before+len(tokens), pageSize)
		if err := s.table.enough(end-base/pageSize, 0, "scoring tokens"); err != nil {
			return err
		}
		scratch.reserved = end
		s.table.rows[at] = scratch
		return s.table.fork(r, scratch, base, false)
	})
	if err != nil {
		return nil, err
	}
	run := slices.Concat(r.tokens[base:r.done], tokens)
	logprobs := make([]float32, 0, len(run)-1)
	for err == nil && len(logprobs) < len(run)-1 {
		err = s.operation(ctx, func() error {
			from := len(logprobs)
			n := min(s.table.sizes.PrefillTokens, len(run)-1-from)
			some, err := s.scoreStep(scratch, base+from, run[from:from+n], run[from+1:from+n+1])
			logprobs = append(logprobs, some...)
			return err
		})
	}
	end := s.operation(context.Background(), func() error {
		if scratch.lost {
			return nil
		}
		return s.table.releaseContexts(scratch)
	})
	if err = errors.Join(err, end); err != nil {
		return nil, err
	}
	logprobs = logprobs[before:]
	for i, l := range logprobs {
		if math.IsNaN(float64(l)) || math.IsInf(float64(l), 1) {
			return nil, fmt.Errorf("%w: scoring token %d", admit.ErrNotANumber, i)
		}
	}
	return logprobs, nil
}

// scoreStep runs tokens of a row from a position on, and returns how likely the next ones are.
func (s *Contexts) scoreStep(r *contextRow, from int, tokens, next []int32) ([]float32, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	p, n := s.table.core.Program(device.Score), len(tokens)
	in := tree.Make[device.ScoreInput](s.table.core.Graphs().StepTokens())
	in.Row, in.From, in.Count = int32(r.row), int32(from), int32(n)
	copy(in.Tokens, tokens)
	copy(in.Next, next)
	got, err := core.Execute[device.ScoreOutput](s.table.core, p, tree.Arrays(&in))
	s.table.grow(r, ceilDiv(from+n, s.table.pageSize))
	r.tokens, r.done = append(r.tokens, tokens...), from+n
	var did *device.VerbsOutput
	if err == nil {
		did = &device.VerbsOutput{Status: got.Status, EndFree: got.EndFree, Pages: got.Pages}
	}
	if err := s.table.settle(p, did, err); err != nil {
		return nil, err
	}
	return got.Logprobs[:n], nil
}
