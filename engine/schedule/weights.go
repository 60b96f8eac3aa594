package schedule

import (
	"cmp"
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
	j.weights = version
	j.Stats.WeightSwaps++
	s.dropPrefixes()
	started := s.started()
	var again []*sequence
	for _, seq := range started {
		if restart || seq.done < len(seq.group.Tokens) {
			again = append(again, seq)
		} else {
			seq.mixed = true
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
