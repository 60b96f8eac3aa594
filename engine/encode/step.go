package encode

import (
	"context"
	"iter"
	"time"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/models/sentence"
)

// step is rows that the device encodes together.
type step struct {
	input       []int32 // the program's: see inputs
	rows        []row
	tokens      int
	completions []*admit.Completion // those whose last row is in it, and refused ones, in the order of their requests
}

// row is where the vector of a row belongs, or the vectors of its tokens.
type row struct {
	completion *admit.Completion
	to         int // the number of the first one among the vectors of the completion
	from, n    int // the first one among the vectors of the step, and how many there are
}

// inputs are the places of a step's arrays in the program's input: the token ids, their positions and rows, and the
// positions that have their embeddings, i32[T] each; their kinds, i32[T] or none; the first tokens of rows and how many
// of their tokens are attended to, i32[R] each; and the number of tokens and of rows.
type inputs struct{ tokens, kinds, rows int }

func (n inputs) size() int { return 4*n.tokens + n.kinds + 2*n.rows + 2 }

// arrays are those of a step.
type arrays[T any] struct{ ids, positions, tokenRows, learned, kinds, firsts, lens, counts T }

// cutArrays cuts an input into its arrays: cut returns the next so many numbers of it.
func cutArrays[T any](n inputs, cut func(size int) T) arrays[T] {
	return arrays[T]{cut(n.tokens), cut(n.tokens), cut(n.tokens), cut(n.tokens), cut(n.kinds), cut(n.rows), cut(n.rows),
		cut(2)}
}

func (s *settled) inputs() inputs {
	n := inputs{tokens: s.tokens, rows: s.rows}
	if s.hasKinds() {
		n.kinds = s.tokens
	}
	return n
}

// hasKinds reports whether tokens may be of several kinds: those of pairs, which only heads take.
func (s *settled) hasKinds() bool {
	return s.model.Config.Classifier != nil && s.model.Config.Encoder.Types > 1
}

// ofTokens reports whether each token has a vector.
func (s *settled) ofTokens() bool {
	return s.Pooling == sentence.Tokens || s.model.Config.Classifier != nil && s.model.Config.Classifier.Tokens
}

// arrays are the arrays of a step.
func (s *settled) arrays(one *step) arrays[[]int32] {
	rest := one.input
	return cutArrays(s.inputs(), func(size int) (part []int32) {
		part, rest = rest[:size:size], rest[size:]
		return part
	})
}

// newStep makes a step without rows: all of its tokens are padding.
func (s *settled) newStep() *step {
	one := &step{input: make([]int32, s.inputs().size())}
	a := s.arrays(one)
	for i := range a.positions {
		a.positions[i], a.tokenRows[i] = -1, -1
	}
	return one
}

// request is a request whose rows are being put into steps.
type request struct {
	completion *admit.Completion
	sequences  []admit.Sequence
	next       int // the sequence that is in no step yet
	tokens     int // of those before it
}

// begin returns a request with its completion, which has an error if the request can't be run.
func (s *settled) begin(r *admit.Request) *request {
	q := &request{sequences: sequencesOf(r), completion: &admit.Completion{Request: r, Generation: r.FirstGeneration,
		FinishReason: admit.FinishStop}}
	c := q.completion
	c.PromptTokens = r.PromptTokens()
	if c.Err = check(r, s.MaxModelLen, s.model.Config.VocabSize); c.Err != nil {
		c.FinishReason, c.Refused, q.sequences = admit.FinishError, true, nil
		return q
	}
	vectors := len(q.sequences)
	if s.ofTokens() {
		vectors = c.PromptTokens
	}
	c.Vector = make([]float32, vectors*s.model.Config.EmbeddingSize())
	return q
}

// sequencesOf are the rows of a request.
func sequencesOf(r *admit.Request) []admit.Sequence {
	if len(r.Sequences) > 0 {
		return r.Sequences
	}
	return []admit.Sequence{{Tokens: r.Tokens}}
}

// add adds the rows of a request that are in no step yet, or reports that there is no room for all of them.
func (s *settled) add(one *step, q *request) bool {
	a := s.arrays(one)
	for ; q.next < len(q.sequences); q.next++ {
		sequence := q.sequences[q.next]
		number, from, tokens := len(one.rows), one.tokens, s.withoutPadding(sequence.Tokens)
		if number == s.rows || from+len(tokens) > s.tokens {
			return false
		}
		copy(a.ids[from:], tokens)
		for i := range tokens {
			a.positions[from+i], a.tokenRows[from+i] = int32(i), int32(number)
			if len(a.kinds) > 0 && sequence.Second > 0 && i >= sequence.Second {
				a.kinds[from+i] = 1
			}
		}
		s.model.Config.Encoder.Learned(tokens, a.learned[from:])
		a.firsts[number], a.lens[number] = int32(from), int32(len(tokens)-sequence.Unseen)
		if s.ofTokens() {
			one.rows = append(one.rows, row{q.completion, q.tokens, from, len(tokens)})
		} else {
			one.rows = append(one.rows, row{q.completion, q.next, number, 1})
		}
		q.tokens += len(tokens)
		one.tokens += len(tokens)
		a.counts[0], a.counts[1] = int32(one.tokens), int32(len(one.rows))
	}
	one.completions = append(one.completions, q.completion)
	return true
}

// withoutPadding returns the tokens that count. The head of a decoder takes the last token that is not padding, as in
// transformers, or the first one if all are; the tokens after it change nothing.
func (s *settled) withoutPadding(tokens []int32) []int32 {
	c := s.model.Config.Classifier
	for c != nil && c.Padding >= 0 && len(tokens) > 1 && tokens[len(tokens)-1] == c.Padding {
		tokens = tokens[:len(tokens)-1]
	}
	return tokens
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
			free = nil
			var q *request
			if ok {
				q = s.begin(r)
			}
			for q == nil || !s.add(one, q) {
				if len(one.completions)+len(one.rows) > 0 {
					select {
					case steps <- one:
					case <-ctx.Done():
						return
					}
				}
				if q == nil {
					return
				}
				one = s.newStep()
			}
		case <-expired:
			free = steps
		case free <- one:
			one, free = s.newStep(), nil
		case <-ctx.Done():
			return
		}
	}
}
