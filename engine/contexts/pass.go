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

// Pass is one run of the model over tokens that follow a context, with positions and masks of the caller's: for
// attention sinks, windows, and prompts whose parts do not see each other.
type Pass struct {
	Tokens []int32
	// Positions are what rotary embeddings turn queries and keys of the tokens by, from 0 and below MaxModelLen. The
	// cache has the keys as they are turned. nil: the tokens' places in the context.
	Positions []int32
	// Sees reports whether the token at a place of the context, counted from 0, sees an earlier place. Windows of
	// layers stay as they are. nil: it sees all. A token always sees itself.
	Sees func(token, place int) bool
	// Logits are the tokens of the pass, by their index in Tokens, after which logits are returned. nil: the last one.
	Logits []int
}

// Forward runs what waits, then the tokens of a pass, and appends them to the context. It returns the logits of each
// token of the vocabulary to come next, for each of the tokens that Pass.Logits lists.
//
// From then on, the names of the context's new pages are its own: no request or context takes them over, because their
// contents depend on more than the tokens. Take the tokens back with [Context.TruncateCommitted]. Attention is computed
// in ordinary operations, so logits may differ in their last bits from those of the kernels.
//
// It returns [admit.ErrInvalidRequest] if the pass does not fit together, and for models whose layers keep states; and
// [admit.ErrPromptTooLong], pagetable.ErrOutOfPages and [admit.ErrNotANumber]. After an error the tokens of the pass
// are not in the context.
func (c *Context) Forward(ctx context.Context, p Pass) (logits [][]float32, err error) {
	s, r := c.set, c.row
	if p.Logits == nil && len(p.Tokens) > 0 {
		p.Logits = []int{len(p.Tokens) - 1}
	}
	defer lockContexts(c)()
	err = s.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		return p.check(s, r)
	})
	if err == nil {
		err = s.flush(ctx, []*contextRow{r})
	}
	if err != nil || len(p.Tokens) == 0 {
		return nil, err
	}
	program, err := core.LaterProgram(s.table.core, device.Pass)
	if err != nil {
		return nil, err
	}
	var before, reserved int
	err = s.operation(ctx, func() error {
		if err := r.usable(); err != nil {
			return err
		}
		before, reserved = r.done, r.reserved
		return s.table.beginPass(r, before+len(p.Tokens))
	})
	if err != nil {
		return nil, err
	}
	for at := 0; err == nil && at < len(p.Tokens); {
		sizes := s.table.core.Graphs().Sizes
		step := p.step(at, sizes.StepTokens())
		in := p.input(sizes, r.row, before, at, step)
		err = s.operation(ctx, func() error {
			if err := r.usable(); err != nil {
				return err
			}
			some, err := s.table.runPass(program, r, in, p.Tokens[at:at+step])
			logits = append(logits, some...)
			return err
		})
		at += step
	}
	if err == nil {
		err = checkLogits(logits)
	}
	end := s.operation(context.Background(), func() error {
		switch {
		case r.lost:
			return nil
		case err != nil:
			return s.table.cutContext(r, before, reserved)
		}
		return s.table.endPass(r, reserved)
	})
	if err = errors.Join(err, end); err != nil {
		return nil, err
	}
	return logits, nil
}

// check returns what is wrong with a pass of a context.
func (p Pass) check(s *Contexts, r *contextRow) error {
	invalid := func(format string, args ...any) error {
		return fmt.Errorf("%w: "+format, append([]any{admit.ErrInvalidRequest}, args...)...)
	}
	if s.table.sizes.States {
		return invalid("layers of the model keep states, which have no positions and masks")
	}
	if err := s.checker.CheckTokens(p.Tokens); err != nil {
		return err
	}
	if p.Positions != nil && len(p.Positions) != len(p.Tokens) {
		return invalid("%d positions for %d tokens", len(p.Positions), len(p.Tokens))
	}
	for _, position := range p.Positions {
		if most := s.table.core.Settled.MaxModelLen; position < 0 || int(position) >= most {
			return invalid("position %d: positions are from 0 to %d (see MaxModelLen)", position, most-1)
		}
	}
	for i, token := range p.Logits {
		if token < 0 || token >= len(p.Tokens) || i > 0 && token <= p.Logits[i-1] {
			return invalid("logits after token %d: list tokens of the pass, 0 to %d, in order", token, len(p.Tokens)-1)
		}
	}
	return s.checkLen(len(r.tokens) + len(p.Tokens))
}

// step is how many tokens of the pass the next step runs, which begins at a token: at most limit, and with few enough
// tokens whose logits are wanted.
func (p Pass) step(at, limit int) int {
	end := min(len(p.Tokens), at+limit)
	first, _ := slices.BinarySearch(p.Logits, at)
	if last := first + device.PassLogits; last < len(p.Logits) {
		end = min(end, p.Logits[last])
	}
	return end - at
}

// input makes the input of a step: n tokens from a token of the pass on. The pass's first token is at place before.
func (p Pass) input(sizes device.Sizes, row, before, at, n int) *device.PassInput {
	in, words := sizes.NewPass(), sizes.MaskWords()
	in.Row, in.From, in.Count = int32(row), int32(before+at), int32(n)
	copy(in.Tokens, p.Tokens[at:at+n])
	for i := range n {
		place := before + at + i
		if in.Positions[i] = int32(place); p.Positions != nil {
			in.Positions[i] = p.Positions[at+i]
		}
		mask := in.Mask[i*words : (i+1)*words]
		for seen := range place + 1 {
			if seen == place || p.Sees == nil || p.Sees(place, seen) {
				mask[seen/32] |= 1 << (seen % 32)
			}
		}
	}
	first, _ := slices.BinarySearch(p.Logits, at)
	for i := first; i < len(p.Logits) && p.Logits[i] < at+n; i++ {
		in.Wanted[i-first] = int32(p.Logits[i] - at)
	}
	return in
}

// beginPass makes the pages for a pass sure for a context, which ends with until tokens.
func (t *table) beginPass(r *contextRow, until int) error {
	if err := t.cutContext(r, r.done, max(r.reserved, ceilDiv(until, t.pageSize))); err != nil {
		return err
	}
	if r.rewrites(t.pageSize) {
		t.forgetPage(r.pages[len(r.pages)-1])
	}
	r.mixed, r.from = t.mark(), len(r.names)
	return nil
}

// runPass runs tokens of a pass, and returns the logits that the step's input wants.
func (t *table) runPass(program *device.Compiled, r *contextRow, in *device.PassInput, tokens []int32) ([][]float32,
	error) {
	got, err := core.Execute[device.PassOutput](t.core, program, tree.Arrays(in))
	r.tokens, r.done = append(r.tokens, tokens...), r.done+len(tokens)
	t.grow(r, ceilDiv(r.done, t.pageSize))
	var did *device.VerbsOutput
	if err == nil {
		did = &device.VerbsOutput{Status: got.Status, EndFree: got.EndFree, Pages: got.Pages}
	}
	if err := t.settle(program, did, err); err != nil {
		return nil, err
	}
	logits := make([][]float32, 0, device.PassLogits)
	vocabulary := len(got.Logits) / device.PassLogits
	for i, place := range in.Wanted {
		if place >= 0 {
			logits = append(logits, slices.Clone(got.Logits[i*vocabulary:(i+1)*vocabulary]))
		}
	}
	return logits, nil
}

// endPass names the pages that a pass filled, and leaves so many reserved.
func (t *table) endPass(r *contextRow, reserved int) error {
	r.reserved = reserved
	err := t.runVerbs(func(in *device.VerbsInput) {
		in.PromptLens[r.row], in.MaxPages[r.row] = int32(r.done), int32(max(r.reserved, len(r.pages)))
	})
	if err != nil {
		return err
	}
	return t.commit([]*contextRow{r})
}

// checkLogits returns an error if a logit is not a number.
func checkLogits(logits [][]float32) error {
	for i, list := range logits {
		for _, l := range list {
			if math.IsNaN(float64(l)) || math.IsInf(float64(l), 1) {
				return fmt.Errorf("%w: logits %d of a pass", admit.ErrNotANumber, i)
			}
		}
	}
	return nil
}
