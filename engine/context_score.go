package engine

import (
	"context"
	"fmt"
	"math"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/tree"
)

// Score runs what waits, and returns how likely the tokens are to come next: log softmax(logits)[token], natural
// logarithms, the first given the context, each other given those before it too. The context stays as it is.
//
// It returns [ErrEmptyPrompt] for an empty context, whose next token nothing is said about, [ErrPromptTooLong],
// [ErrInvalidRequest], pagetable.ErrOutOfPages, and [ErrNotANumber].
func (c *Context) Score(ctx context.Context, tokens []int32) (logprobs []float32, err error) {
	err = c.do(func(r *contextRow) error {
		if err := c.e.checkTokens(tokens); err != nil {
			return err
		}
		if len(r.tokens) == 0 {
			return ErrEmptyPrompt
		}
		if err := c.e.checkLen(len(r.tokens) + len(tokens)); err != nil {
			return err
		}
		if err := c.e.flush(ctx, []*contextRow{r}); err != nil || len(tokens) == 0 {
			return err
		}
		logprobs, err = c.e.scoreTokens(ctx, r, tokens)
		return err
	})
	return logprobs, err
}

// scoreTokens runs the last token of the context and all but the last of tokens in a row that is given up afterwards.
func (e *Engine) scoreTokens(ctx context.Context, r *contextRow, tokens []int32) ([]float32, error) {
	p, pageSize := e.programs[device.Score], e.plan.PageSize
	base := r.done - 1
	end := ceilDiv(base+len(tokens), pageSize)
	if err := e.enough(end-base/pageSize, e.freePages(), "scoring tokens"); err != nil {
		return nil, err
	}
	scratch := &contextRow{row: e.plan.scratchRow()}
	if err := e.fork(r, scratch, base, false); err != nil {
		return nil, err
	}
	run := append([]int32{r.tokens[base]}, tokens...)
	logprobs := make([]float32, 0, len(tokens))
	for len(logprobs) < len(tokens) && ctx.Err() == nil {
		at := len(logprobs)
		n := min(e.plan.PrefillTokens, len(tokens)-at)
		in := tree.Make[device.ScoreInput](e.graphs.StepTokens())
		in.Row, in.From, in.Count = int32(scratch.row), int32(base+at), int32(n)
		copy(in.Tokens, run[at:at+n])
		copy(in.Next, tokens[at:at+n])
		got, err := execute[device.ScoreOutput](e, p, tree.Arrays(&in))
		e.contexts.grow(scratch, ceilDiv(base+at+n, pageSize))
		var did *device.VerbsOutput
		if err == nil {
			did = &device.VerbsOutput{Status: got.Status, EndFree: got.EndFree, Pages: got.Pages}
		}
		if err := e.settleContexts(p, did, err); err != nil {
			return nil, err
		}
		logprobs = append(logprobs, got.Logprobs[:n]...)
	}
	e.contexts.cut(scratch, 0)
	err := e.contextVerbs(func(in *device.VerbsInput) { in.Release[scratch.row] = true })
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	for i, l := range logprobs {
		if math.IsNaN(float64(l)) || math.IsInf(float64(l), 1) {
			return nil, fmt.Errorf("%w: scoring token %d", ErrNotANumber, i)
		}
	}
	return logprobs, nil
}
