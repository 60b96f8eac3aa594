package generate

import (
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
	ofRow map[int64][]reuse.Name // the names in known by the rows that are generated
	// Without parts and a journal, known keeps the completions themselves, of so many bytes.
	room  int
	order []reuse.Name // those with bytes, oldest first

	judge *reuse.Judge // the goroutine that starts rows uses it
}

// bytesRepeated bounds the completions that a stream keeps for equal rows.
const bytesRepeated = 32 << 20

// firstOf is the completion that others are copied from.
type firstOf struct {
	reuse.First
	name       reuse.Name
	row        *pendingRow // nil once it is there
	generation int
	extras     reuse.Extras

	followers []follower
	at        journal.Position // if it is in the journal of this process
	restored  bool             // it was in the journal of an earlier process
	bytes     []byte           // itself, if there is no journal
}

// follower is a completion that waits for an equal one.
type follower struct {
	row        *pendingRow
	generation int
	extras     reuse.Extras
}

func newRepeats(room int) *repeats {
	return &repeats{known: map[reuse.Name]*firstOf{}, ofRow: map[int64][]reuse.Name{}, room: room}
}

// claim takes a completion that a row lacks. If an equal one is under way, the row waits for it. If one is there, claim
// returns it. Otherwise the row is the first with this completion; unnamed reports that equal rows can't wait for it.
func (s *repeats) claim(p *pendingRow, k *reuse.Named, generation int) (have *firstOf, waits bool) {
	name := k.Of(generation)
	first := s.known[name]
	switch {
	case first == nil:
		s.known[name] = &firstOf{First: reuse.FirstIn(p.row, k), name: name, row: p, generation: generation,
			extras: k.Extras}
		s.ofRow[p.row.Index] = append(s.ofRow[p.row.Index], name)
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
	first.bytes = append([]byte(nil), bytes...)
	s.room -= len(bytes) + completionOverhead
	s.order = append(s.order, first.name)
	for s.room <= 0 && len(s.order) > 0 {
		oldest := s.known[s.order[0]]
		s.room += len(oldest.bytes) + completionOverhead
		s.forgetName(oldest.Index, s.order[0])
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
		if first := s.led(p, g); first != nil {
			s.forgetName(p.row.Index, first.name)
			waiting = append(waiting, first.followers...)
		}
	}
	return waiting
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

func (s *repeats) forgetName(row int64, name reuse.Name) {
	delete(s.known, name)
	names := s.ofRow[row]
	for i := range names {
		if names[i] == name {
			names[i] = names[len(names)-1]
			names = names[:len(names)-1]
			break
		}
	}
	if s.ofRow[row] = names; len(names) == 0 {
		delete(s.ofRow, row)
	}
}

// published forgets the completions of rows that are in a part now, where they are found.
func (s *repeats) published(from, to int64) {
	for row := from; row < to; row++ {
		for _, name := range s.ofRow[row] {
			delete(s.known, name)
		}
		delete(s.ofRow, row)
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
