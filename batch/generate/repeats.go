package generate

import (
	"maps"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/engine"
)

// repeats knows the completions of rows that are in no published part yet, so that an equal one is generated once. The
// collector's lock protects it.
type repeats struct {
	known map[reuse.Name]*firstOf
	// Without parts and a journal, the completions themselves are kept, of room more bytes.
	room  int
	bytes map[*firstOf][]byte
	order []*firstOf // those with bytes, oldest first

	extras *reuse.Extras // the last ones: most rows have the same

	judge *reuse.Judge // the goroutine that starts rows uses it
}

// bytesRepeated bounds the completions that a stream keeps for equal rows.
const bytesRepeated = 32 << 20

// firstOf is the completion that others are copied from. There is one for each row of the parts that are not published,
// so its size counts.
type firstOf struct {
	reuse.First
	name       reuse.Name
	row        *pendingRow // nil once it is there
	generation int
	extras     *reuse.Extras

	followers []follower
	at        journal.Position // if it is in the journal of this process
	restored  bool             // it was in the journal of an earlier process
}

// follower is a completion that waits for an equal one.
type follower struct {
	row        *pendingRow
	generation int
	extras     reuse.Extras
}

func newRepeats(room int) *repeats {
	return &repeats{known: map[reuse.Name]*firstOf{}, room: room, bytes: map[*firstOf][]byte{}}
}

// claim takes a completion that a row lacks. If an equal one is under way, the row waits for it. If one is there, claim
// returns it. Otherwise the row is the first with this completion; unnamed reports that equal rows can't wait for it.
func (s *repeats) claim(p *pendingRow, k *reuse.Named, generation int) (have *firstOf, waits bool) {
	name := k.Of(generation)
	first := s.known[name]
	switch {
	case first == nil:
		if s.extras == nil || !s.extras.Equal(k.Extras) {
			extras := k.Extras
			s.extras = &extras
		}
		first = &firstOf{First: reuse.FirstIn(p.row, k), name: name, row: p, generation: generation, extras: s.extras}
		s.known[name] = first
		return nil, false
	case first.extras.Lacks(k.Extras) != "":
		return nil, false
	case first.row != nil:
		first.followers = append(first.followers, follower{p, generation, k.Extras})
		return first, true
	}
	return first, false
}

// finish notes that a completion is there that others may have waited for, and returns these. It is in the journal, or,
// in a stream, bytes are its binary form.
func (s *repeats) finish(first *firstOf, at journal.Position, bytes []byte) []follower {
	if first == nil {
		return nil
	}
	waiting := first.followers
	first.row, first.followers, first.at = nil, nil, at
	if s.room == 0 {
		return waiting
	}
	s.bytes[first] = append([]byte(nil), bytes...)
	s.room -= len(bytes) + completionOverhead
	s.order = append(s.order, first)
	for s.room <= 0 && len(s.order) > 0 {
		oldest := s.order[0]
		s.room += len(s.bytes[oldest]) + completionOverhead
		delete(s.bytes, oldest)
		delete(s.known, oldest.name)
		s.order = s.order[1:]
	}
	return waiting
}

// completionOverhead is about what a completion takes here in addition to its bytes.
const completionOverhead = 200

// drop removes a completion that failed, or all completions of a request that was refused as a whole. It returns those
// that waited for them.
func (s *repeats) drop(p *pendingRow, done *engine.Completion) (waiting []follower) {
	from, to := done.Generation, done.Generation+1
	if ask.Refused(done.Err) {
		to = from + done.Request.N
	}
	for g := from; g < to; g++ {
		waiting = append(waiting, s.forget(p, g)...)
	}
	return waiting
}

// forget removes a completion that others may wait for, and returns these.
func (s *repeats) forget(p *pendingRow, generation int) []follower {
	first := s.led(p, generation)
	if first == nil {
		return nil
	}
	delete(s.known, first.name)
	return first.followers
}

// led returns the completion under way that others may wait for, if this is it.
func (s *repeats) led(p *pendingRow, generation int) *firstOf {
	k := p.named(generation)
	if k == nil {
		return nil
	}
	first := s.known[k.Of(generation)]
	if first == nil || first.row != p || first.generation != generation {
		return nil
	}
	return first
}

// published forgets the completions of rows that are in a part now, where they are found.
func (s *repeats) published(from, to int64) {
	maps.DeleteFunc(s.known, func(_ reuse.Name, first *firstOf) bool { // a decided row may have asked for more
		return first.row == nil && first.Index >= from && first.Index < to
	})
}

// askAgain forgets the completions of judged rows that a closed engine was asked for. Rows that wait for them ask
// again. Conversations continue with a new engine.
func (s *repeats) askAgain() {
	for name, first := range s.known {
		if p := first.row; p != nil && p.judged != nil && p.dialogs == nil && !p.judged.waiting[first.generation] {
			delete(s.known, name)
			for _, f := range first.followers {
				delete(f.row.judged.follows, f.generation)
			}
		}
	}
}

// restored takes up completions that an earlier process left in the journal.
func (s *repeats) restored(p *pendingRow, results []completion.Result) {
	for _, r := range results {
		if k := p.named(r.Generation); k != nil && r.Err == "" {
			if _, known := s.known[k.Of(r.Generation)]; !known {
				s.claim(p, k, r.Generation)
				first := s.known[k.Of(r.Generation)]
				first.row, first.restored = nil, true
			}
		}
	}
}
