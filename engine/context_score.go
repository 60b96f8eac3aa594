package engine

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/tree"
)

// Score runs what waits, and returns how likely the tokens are to come next: log softmax(logits)[token], natural
// logarithms, the first given the context, each other given those before it too. The context stays as it is.
//
// It returns [ErrEmptyPrompt] for an empty context, whose next token nothing is said about, [ErrPromptTooLong],
// [ErrInvalidRequest], pagetable.ErrOutOfPages, and [ErrNotANumber].
func (c *Context) Score(ctx context.Context, tokens []int32) (logprobs []float32, err error) {
	e, r := c.e, c.row
	defer lockContexts(c)()
	err = e.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		if err := e.checkTokens(tokens); err != nil {
			return err
		}
		if len(r.tokens) == 0 {
			return ErrEmptyPrompt
		}
		return e.checkLen(len(r.tokens) + len(tokens))
	})
	if err == nil {
		err = e.flush(ctx, []*contextRow{r})
	}
	if err != nil || len(tokens) == 0 {
		return nil, err
	}
	return e.scoreTokens(ctx, r, tokens)
}

// scoreTokens runs the last token of the context and all but the last of tokens in a row that is given up afterwards, a
// step between two calls of a run.
func (e *Engine) scoreTokens(ctx context.Context, r *contextRow, tokens []int32) ([]float32, error) {
	e.contexts.scoring.Lock()
	defer e.contexts.scoring.Unlock()
	pageSize, base := e.plan.PageSize, e.begin(r.done-1)
	before := r.done - 1 - base // what runs again because states are those of pages' ends
	scratch := &contextRow{row: e.graphs.ScoreRow()}
	at := scratch.row - e.graphs.FirstContext()
	err := e.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		end := ceilDiv(base+before+len(tokens), pageSize)
		if err := e.enough(end-base/pageSize, 0, "scoring tokens"); err != nil {
			return err
		}
		scratch.reserved = end
		e.contexts.rows[at] = scratch
		return e.fork(r, scratch, base, false)
	})
	if err != nil {
		return nil, err
	}
	run := slices.Concat(r.tokens[base:r.done], tokens)
	logprobs := make([]float32, 0, len(run)-1)
	for err == nil && len(logprobs) < len(run)-1 {
		err = e.operation(ctx, func() error {
			from := len(logprobs)
			n := min(e.plan.PrefillTokens, len(run)-1-from)
			some, err := e.scoreStep(scratch, base+from, run[from:from+n], run[from+1:from+n+1])
			logprobs = append(logprobs, some...)
			return err
		})
	}
	end := e.operation(context.Background(), func() error {
		if scratch.lost {
			return nil
		}
		return e.releaseContexts(scratch)
	})
	if err = errors.Join(err, end); err != nil {
		return nil, err
	}
	logprobs = logprobs[before:]
	for i, l := range logprobs {
		if math.IsNaN(float64(l)) || math.IsInf(float64(l), 1) {
			return nil, fmt.Errorf("%w: scoring token %d", ErrNotANumber, i)
		}
	}
	return logprobs, nil
}

// scoreStep runs tokens of a row from a position on, and returns how likely the next ones are.
func (e *Engine) scoreStep(r *contextRow, from int, tokens, next []int32) ([]float32, error) {
	if err := r.usable(); err != nil {
		return nil, err
	}
	p, n := e.program(device.Score), len(tokens)
	in := tree.Make[device.ScoreInput](e.graphs.StepTokens())
	in.Row, in.From, in.Count = int32(r.row), int32(from), int32(n)
	copy(in.Tokens, tokens)
	copy(in.Next, next)
	got, err := execute[device.ScoreOutput](e, p, tree.Arrays(&in))
	e.contexts.grow(r, ceilDiv(from+n, e.plan.PageSize))
	r.tokens, r.done = append(r.tokens, tokens...), from+n
	var did *device.VerbsOutput
	if err == nil {
		did = &device.VerbsOutput{Status: got.Status, EndFree: got.EndFree, Pages: got.Pages}
	}
	if err := e.settleContexts(p, did, err); err != nil {
		return nil, err
	}
	return got.Logprobs[:n], nil
}
