package encode

import (
	"context"
	"iter"
	"time"

	"github.com/quire/quire/engine/admit"
)

// step is rows that the device encodes together.
type step struct {
	input       []int32             // the program's: see inputs
	rows        []*admit.Completion // of the rows in it
	tokens      int
	completions []*admit.Completion // those of rows, and refused ones between them, in the order of their requests
}

// inputs are the places of a step's arrays in the program's input: the token ids, their positions and rows, and the
// positions that have their embeddings, i32[T] each; the first tokens of rows and their numbers of tokens, i32[R] each;
// and the number of tokens and of rows.
type inputs struct{ tokens, rows int }

func (n inputs) size() int { return 4*n.tokens + 2*n.rows + 2 }

// parts cuts an input into its arrays.
func (n inputs) parts(x []int32) (ids, positions, tokenRows, learned, firsts, lens, counts []int32) {
	cut := func(size int) (part []int32) {
		part, x = x[:size:size], x[size:]
		return part
	}
	return cut(n.tokens), cut(n.tokens), cut(n.tokens), cut(n.tokens), cut(n.rows), cut(n.rows), cut(2)
}

func (s *settled) inputs() inputs { return inputs{s.tokens, s.rows} }

// newStep makes a step without rows: all of its tokens are padding.
func (s *settled) newStep() *step {
	one := &step{input: make([]int32, s.inputs().size())}
	_, positions, tokenRows, _, _, _, _ := s.inputs().parts(one.input)
	for i := range positions {
		positions[i], tokenRows[i] = -1, -1
	}
	return one
}

// add adds a request to a step, or reports that there is no room for it.
func (s *settled) add(one *step, r *admit.Request) bool {
	c := &admit.Completion{Request: r, Generation: r.FirstGeneration, PromptTokens: len(r.Tokens),
		FinishReason: admit.FinishStop}
	if c.Err = check(r, s.MaxModelLen, s.model.Config.VocabSize); c.Err != nil {
		c.FinishReason, c.Refused = admit.FinishError, true
		one.completions = append(one.completions, c)
		return true
	}
	row, from := len(one.rows), one.tokens
	if row == s.rows || from+len(r.Tokens) > s.tokens {
		return false
	}
	ids, positions, tokenRows, learned, firsts, lens, counts := s.inputs().parts(one.input)
	copy(ids[from:], r.Tokens)
	for i := range r.Tokens {
		positions[from+i], tokenRows[from+i] = int32(i), int32(row)
	}
	s.model.Config.Encoder.Learned(r.Tokens, learned[from:])
	firsts[row], lens[row] = int32(from), int32(len(r.Tokens))
	one.rows, one.completions = append(one.rows, c), append(one.completions, c)
	one.tokens += len(r.Tokens)
	counts[0], counts[1] = int32(one.tokens), int32(len(one.rows))
	return true
}

// intakeRequests is how many requests are taken ahead of the steps that they will be in.
const intakeRequests = 256

// intake takes requests from the caller's sequence, until it ends or ctx does.
func intake(ctx context.Context, requests iter.Seq[*admit.Request]) <-chan *admit.Request {
	taken := make(chan *admit.Request, intakeRequests)
	go func() {
		defer close(taken)
		for r := range requests {
			select {
			case taken <- r:
			case <-ctx.Done():
				return
			}
		}
	}()
	return taken
}

// patience is how long a step that is not full waits for another request while the device is free. Without it, steps
// would be small whenever the host is slower than the device, and on a CPU, which both share, that costs the host.
const patience = time.Millisecond

// pack makes steps of requests, each as soon as the one before it is taken, and closes the channel at their end. A step
// that is not full is sent if the device is free and no request comes: the sequence may wait for completions.
func (s *settled) pack(ctx context.Context, requests <-chan *admit.Request, steps chan<- *step) {
	defer close(steps)
	one := s.newStep()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	var free chan<- *step // steps, once patience is over
	for {
		var expired <-chan time.Time
		if len(one.completions) > 0 && free == nil {
			timer.Reset(patience)
			expired = timer.C
		}
		select {
		case r, ok := <-requests:
			if free = nil; ok && s.add(one, r) {
				continue
			}
			if len(one.completions) > 0 {
				select {
				case steps <- one:
				case <-ctx.Done():
					return
				}
			}
			if !ok {
				return
			}
			one = s.newStep()
			s.add(one, r)
		case <-expired:
			free = steps
		case free <- one:
			one, free = s.newStep(), nil
		case <-ctx.Done():
			return
		}
	}
}
