package engine

import (
	"slices"
	"sync/atomic"

	"github.com/quire/quire/sampling"
)

// family is a request on its way: the completions of one prompt.
//
// Where there are several, the prompt but for its last token is run once, in a row of its own (the holder). Each completion then starts
// as a clone of it: full pages are shared, the partial one is copied, and the last token of the prompt is run for each, which is
// what its first token is drawn from. So clones can start at any time while the holder stands, and there may be more of them than slots.
type family struct {
	req    *Request
	next   int // completions admitted so far
	live   int // completions that run
	holder int // its row; none if the completions run the prompt themselves
	fed    int // prompt tokens of the holder given to the device
	ready  bool

	// Pages reserved: for the prompt's full pages until the whole family ended; for its partial page until the holder is released; and
	// for the first clone, so that a prompt which took pages can always go on.
	shared, partial, first int
}

const none = -1

// sequence is one completion on its way.
type sequence struct {
	family     *family
	generation int
	row        int
	fed        int // tokens of the prompt given to the device, by the row itself or its holder
	pages      int // reserved for this completion alone
	maxLen     int

	cancelled atomic.Bool // set by the drain at a stop string, read by the scheduler
	drain     drainState
}

// scheduler keeps the host's account of slots and pages, and decides what runs next. Pages are reserved for the most that a sequence
// may come to: the device, which takes them one by one, never finds itself without.
type scheduler struct {
	e                      *Engine
	freeSlots, freeHolders []int
	freePages              int
	waiting                []*family // not all of their completions are admitted
	rows                   []*sequence
	feedHolders            []*family   // in order of admission, as feedSlots
	feedSlots              []*sequence // rows whose prompt is not all given to the device
	opened                 []opening
	release                []bool // rows to free at the start of the next call
	leaving                []*family
	active                 int
}

// opening is a row that the next prefill call opens.
type opening struct {
	row, source, sourceLen int
	seq                    *sequence // nil for a holder
}

func newScheduler(e *Engine) *scheduler {
	p := e.plan
	s := &scheduler{e: e, freePages: p.Pages, rows: make([]*sequence, p.slots), release: make([]bool, p.rows())}
	for row := p.MaxSeqs - 1; row >= 0; row-- {
		s.freeSlots = append(s.freeSlots, row)
	}
	for row := p.rows() - 1; row >= p.slots; row-- {
		s.freeHolders = append(s.freeHolders, row)
	}
	return s
}

// add takes in a request that was checked.
func (s *scheduler) add(r *Request) {
	f := &family{req: r, holder: none}
	held := len(r.Tokens) - 1
	pageSize := s.e.plan.PageSize
	if r.N > 1 && held > 0 && s.e.plan.layout.Paged {
		f.shared = held / pageSize
		f.partial = ceilDiv(held, pageSize) - f.shared
		f.first = s.e.pagesFor(s.e.maxLen(r)) - f.shared
		if f.shared+f.partial+f.first > s.e.plan.Pages {
			f.shared, f.partial, f.first = 0, 0, 0
		}
	}
	s.waiting = append(s.waiting, f)
}

// clones says whether the completions of f start as clones of its holder.
func (f *family) clones() bool { return f.first > 0 }

// wants says how many more requests the scheduler should look at.
func (s *scheduler) wants() int { return 2*s.e.plan.MaxSeqs - len(s.waiting) }

// settle frees what the last calls left behind: completions that met a stop string, and holders whose clones have all started. Their
// rows are released on the device when the next call begins.
func (s *scheduler) settle() {
	for _, seq := range s.rows {
		if seq != nil && seq.cancelled.Load() {
			s.release[seq.row] = true
			s.end(seq)
		}
	}
	for _, f := range s.leaving {
		s.release[f.holder] = true
		s.freeHolders = append(s.freeHolders, f.holder)
		s.freePages += f.partial
		f.holder = none
		s.endFamily(f)
	}
	s.leaving = s.leaving[:0]
}

// end gives back what a completion held. Its row is free on the device, or will be when the next call begins.
func (s *scheduler) end(seq *sequence) {
	s.rows[seq.row] = nil
	s.freeSlots = append(s.freeSlots, seq.row)
	s.freePages += seq.pages
	s.active--
	seq.family.live--
	s.endFamily(seq.family)
}

func (s *scheduler) endFamily(f *family) {
	if f.clones() && f.live == 0 && f.next == f.req.N && f.holder == none {
		s.freePages += f.shared
		f.shared = 0
	}
}

// admit gives rows and pages to what waits, first come, first served. Prompts with several completions are run ahead, so that
// their clones find them ready.
func (s *scheduler) admit() {
	for i := 0; i < len(s.waiting); i++ {
		f := s.waiting[i]
		switch {
		case !f.clones():
			for f.next < f.req.N && s.admitAlone(f) {
			}
		case f.holder == none:
			if !s.admitHolder(f) {
				return
			}
			continue
		case !f.ready:
			continue
		default:
			for f.next < f.req.N && s.admitClone(f) {
			}
			if f.next == f.req.N {
				s.leaving = append(s.leaving, f)
			}
		}
		if f.next < f.req.N {
			if f.clones() {
				continue // prompts behind it may run ahead
			}
			return
		}
		s.waiting = slices.Delete(s.waiting, i, i+1)
		i--
	}
}

func (s *scheduler) admitAlone(f *family) bool {
	pages := s.e.pagesFor(s.e.maxLen(f.req))
	if len(s.freeSlots) == 0 || pages > s.freePages {
		return false
	}
	s.open(f, pages, none, 0)
	return true
}

func (s *scheduler) admitHolder(f *family) bool {
	need := f.shared + f.partial + f.first
	if len(s.freeHolders) == 0 || need > s.freePages {
		return false
	}
	s.freePages -= need
	f.holder = pop(&s.freeHolders)
	s.opened = append(s.opened, opening{row: f.holder, source: none})
	s.feedHolders = append(s.feedHolders, f)
	return true
}

func (s *scheduler) admitClone(f *family) bool {
	need := f.first
	if f.next == 0 {
		s.freePages += need // what was reserved with the holder
	}
	if len(s.freeSlots) == 0 || need > s.freePages {
		if f.next == 0 {
			s.freePages -= need
		}
		return false
	}
	s.open(f, need, f.holder, len(f.req.Tokens)-1)
	return true
}

// open starts the next completion of f in a free slot.
func (s *scheduler) open(f *family, pages, source, start int) {
	seq := &sequence{
		family: f, generation: f.req.FirstGeneration + f.next, row: pop(&s.freeSlots),
		fed: start, pages: pages, maxLen: s.e.maxLen(f.req),
	}
	seq.drain.init(s.e, f.req)
	s.freePages -= pages
	f.next++
	f.live++
	s.active++
	s.rows[seq.row] = seq
	s.opened = append(s.opened, opening{row: seq.row, source: source, sourceLen: start, seq: seq})
	s.feedSlots = append(s.feedSlots, seq)
}

// shouldPrefill says whether prompts go before decoding: they do where a slot waits for one, but prompts that only run ahead of their
// clones wait until they can ride along.
func (s *scheduler) shouldPrefill() bool {
	return len(s.feedSlots) > 0 || len(s.feedHolders) > 0 && len(s.freeSlots) > 0
}

// enoughFinished is after how many endings a decode call should return, so that the waiting can take their places.
func (s *scheduler) enoughFinished(more bool) int32 {
	if len(s.waiting) == 0 && !more {
		return int32(s.e.plan.slots) + 1
	}
	return int32(max(1, s.e.plan.MaxSeqs/8-len(s.freeSlots)))
}

// takeRelease returns the rows to free in the call that is made now.
func (s *scheduler) takeRelease() []bool {
	mask := s.release
	s.release = make([]bool, len(mask))
	return mask
}

// prefillCall fills the inputs of the prefill program: rows to open, and as many prompt tokens as it takes. Completions come
// before prompts that run ahead.
func (s *scheduler) prefillCall() (in map[string]any, tokens int) {
	p := s.e.plan
	rows, room := p.rows(), p.promptQueue()
	open, source, sourceLen := make([]bool, rows), make([]int32, rows), make([]int32, rows)
	temperature, topP, minP, topK := make([]float32, rows), make([]float32, rows), make([]float32, rows), make([]int32, rows)
	key, promptLen, maxLen := make([]uint32, 2*rows), make([]int32, rows), make([]int32, rows)
	stops := slices.Repeat([]int32{none}, rows*maxStopTokens)
	for _, o := range s.opened {
		open[o.row], source[o.row], sourceLen[o.row] = true, int32(o.source), int32(o.sourceLen)
		if o.seq == nil {
			continue
		}
		r := o.seq.family.req
		temperature[o.row], topP[o.row], minP[o.row], topK[o.row] =
			float32(r.Sampling.Temperature), float32(r.Sampling.TopP), float32(r.Sampling.MinP), int32(r.Sampling.TopK)
		k := sampling.RequestKey(r.Sampling.Seed, sampling.HashID(r.ID), uint32(o.seq.generation))
		key[2*o.row], key[2*o.row+1] = k[0], k[1]
		promptLen[o.row], maxLen[o.row] = int32(len(r.Tokens)), int32(o.seq.maxLen)
		copy(stops[o.row*maxStopTokens:], s.e.stopTokens(r))
	}
	s.opened = s.opened[:0]

	ids, slots, positions := make([]int32, 0, room), make([]int32, 0, room), make([]int32, 0, room)
	feed := func(row int, prompt []int32, fed int) int {
		upTo := min(len(prompt), fed+room-len(ids))
		for pos := fed; pos < upTo; pos++ {
			ids, slots, positions = append(ids, prompt[pos]), append(slots, int32(row)), append(positions, int32(pos))
		}
		return upTo
	}
	for len(s.feedSlots) > 0 {
		seq := s.feedSlots[0]
		if seq.fed = feed(seq.row, seq.family.req.Tokens, seq.fed); seq.fed < len(seq.family.req.Tokens) {
			break
		}
		s.feedSlots = s.feedSlots[1:]
	}
	for len(s.feedHolders) > 0 && len(ids) < room {
		f := s.feedHolders[0]
		held := f.req.Tokens[:len(f.req.Tokens)-1]
		if f.fed = feed(f.holder, held, f.fed); f.fed < len(held) {
			break
		}
		f.ready = true
		s.feedHolders = s.feedHolders[1:]
	}
	tokens = len(ids)
	pad := func(x []int32) []int32 { return append(x, slices.Repeat([]int32{none}, room-len(x))...) }
	return map[string]any{
		"open": open, "source": source, "source_len": sourceLen,
		"temperature": temperature, "top_p": topP, "min_p": minP, "top_k": topK, "key": key,
		"prompt_len": promptLen, "max_len": maxLen, "stop_tokens": stops,
		"tokens": pad(ids), "slots": pad(slots), "positions": pad(positions), "num_tokens": []int32{int32(tokens)},
	}, tokens
}

func pop(list *[]int) int {
	last := len(*list) - 1
	v := (*list)[last]
	*list = (*list)[:last]
	return v
}
