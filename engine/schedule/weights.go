package schedule

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/quire/quire/engine/prefix"
)

// InFlight returns how many sequences have started and not ended, in slots and on the host.
func (b *Between) InFlight() int {
	s := b.j.sched
	return s.slots.active + len(s.swap.sequences)
}

// Pause has nothing new admitted before the next call. An operation that is to be called again pauses again.
func (b *Between) Pause() { b.j.sched.placer.paused = true }

// ReplaceWeights notes that the next calls have other weights: their version, and the seed of the names of pages from
// now on, when pages have no names. Sequences that have generated no token start again, so that one version computes a
// whole prompt; with restart all sequences do. The others keep their keys and values. Nothing that earlier weights
// computed is shared with what starts later, but for the tokens of contexts.
//
// It returns how many sequences start again, and how many continue.
func (b *Between) ReplaceWeights(version string, seed prefix.Hash, restart bool) (restarted, continued int) {
	j, s := b.j, b.j.sched
	if b.InFlight() > 0 {
		j.drain.wait() // it may find that a sequence has ended
		s.removeCancelled()
	}
	s.weights.version = version
	j.Stats.WeightSwaps++
	s.dropPrefixes()
	started := s.started()
	var again []*sequence
	for _, seq := range started {
		if restart || seq.done < len(seq.group.Tokens) {
			again = append(again, seq)
			seq.announce(0, version)
		} else {
			seq.mixed = true
			seq.announce(len(seq.text.completion.Tokens), version)
		}
	}
	s.names.seed = seed
	s.requeue(again)
	return len(again), len(started) - len(again)
}

// started returns the sequences that have started and not ended, in order of admission.
func (s *scheduler) started() (list []*sequence) {
	for _, seq := range s.slots.rows {
		if seq != nil {
			list = append(list, seq)
		}
	}
	for _, m := range s.swap.sequences {
		list = append(list, m.seq)
	}
	slices.SortFunc(list, func(a, b *sequence) int { return cmp.Compare(a.admission, b.admission) })
	return list
}

// requeue takes sequences off the device and the host, and queues their completions again, before all that waits. What
// waits gets names anew; completions that are not admitted yet become groups of their own, whose scores and sources are
// not those of the completions that are.
func (s *scheduler) requeue(again []*sequence) {
	waiting := s.queue.groups
	s.queue.groups, s.queue.chains = nil, prefix.Counts{}
	var rest []*group
	for _, g := range waiting {
		part := *g.Request
		part.First, part.N = part.First+g.admitted, part.N-g.admitted
		next := s.newGroup(&part, g.asked)
		next.passed = g.passed
		rest = append(rest, next)
		admitted := *g.Request
		admitted.N = g.admitted
		g.Request = &admitted
		s.placer.releaseStops(g)
	}
	var first []*group
	for _, seq := range again {
		s.swap.sequences = slices.DeleteFunc(s.swap.sequences, func(m *swapped) bool { return m.seq == seq })
		if seq.row != None && s.slots.rows[seq.row] == seq {
			s.slots.vacate(seq)
		}
		s.placer.ended(seq)
		if n := len(first); n > 0 && first[n-1].asked == seq.group.asked &&
			first[n-1].First+first[n-1].N == seq.generation {
			first[n-1].N++
			continue
		}
		part := *seq.group.Request
		part.First, part.N = seq.generation, 1
		first = append(first, s.newGroup(&part, seq.group.asked))
	}
	s.queue.groups = append(first, rest...)
	for _, g := range s.queue.groups {
		s.queue.chains.Add(g.chain, 1)
	}
}

// runWeights is the version of the weights that the next call has. The parts of the scheduler share it.
type runWeights struct{ version string }

// may reports whether these weights generate the token with a number, from 0, of a completion.
func (w *runWeights) may(r *Request, token int) bool {
	version, _ := r.weightsAt(token)
	return r.Weights == nil || version == w.version
}

// weightsAt returns the version that generates the token with a number, and the number of the first token after it
// that another one generates.
func (r *Request) weightsAt(token int) (version string, end int) {
	for _, run := range r.Weights {
		if run.First > token {
			return version, run.First
		}
		version = run.Version
	}
	return version, math.MaxInt
}

// numGenerated returns how many tokens of a completion the device has generated.
func (seq *sequence) numGenerated() int { return max(0, seq.done-len(seq.group.Tokens)+1) }

// announce tells the caller that weights generate the tokens of a completion from one on.
func (seq *sequence) announce(first int, version string) {
	if r := seq.group.asked; r.Started != nil && r.Weights == nil {
		r.Started(seq.generation, first, version)
	}
}

// columnsOfWeights bounds the columns of a call, so that no completion gets a token that is another version's.
func (s *scheduler) columnsOfWeights(o *offer, columns int) int {
	for _, seq := range slices.Concat(s.slots.rows, o.waiting) {
		if seq != nil && seq.group.Weights != nil {
			n := seq.numGenerated()
			_, end := seq.group.weightsAt(n)
			columns = min(columns, end-n)
		}
	}
	return columns
}

// holdForWeights moves sequences to the host whose next token is another version's.
func (s *scheduler) holdForWeights(output *Output) error {
	for _, seq := range s.slots.rows {
		if seq != nil && !s.weights.may(seq.group.Request, seq.numGenerated()) {
			if err := s.swap.out(seq, output); err != nil {
				return err
			}
		}
	}
	return nil
}

// waitsForWeights reports whether nothing can be done with the weights that the run has, and something with others.
func (s *scheduler) waitsForWeights() bool {
	return !s.isIdle() && s.isBare() && !s.prefixes.contextsRun() && !s.swap.continues() &&
		!slices.ContainsFunc(s.queue.groups, func(g *group) bool { return s.weights.may(g.Request, 0) })
}

// Awaits returns the version that a completion waits for, if the run can do nothing with the one that it has; else "".
// It is the first in the order of admission, and then of the queue.
func (b *Between) Awaits() string {
	s := b.j.sched
	if !s.waitsForWeights() || b.j.takesMore() {
		return ""
	}
	version := ""
	if len(s.swap.sequences) > 0 {
		seq := s.swap.sequences[0].seq
		version, _ = seq.group.weightsAt(seq.numGenerated())
	} else {
		version, _ = s.queue.groups[0].weightsAt(0)
	}
	return version
}

// takesMore reports whether the queue has room for requests that may come.
func (j *job) takesMore() bool { return j.open && j.sched.queue.space() > 0 }

// awaitWeights waits until an operation may have brought other weights, or another request may have come.
func (j *job) awaitWeights(ctx context.Context) error {
	if j.sched.err != nil || j.takesMore() { // which fill waits for
		return j.sched.err
	}
	if len(j.later) > 0 {
		if j.waited {
			return fmt.Errorf("%w: completions wait for weights that nothing brings", ErrStalled)
		}
		j.waited = true
		return nil
	}
	select {
	case o := <-j.Between:
		j.do(o)
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}
