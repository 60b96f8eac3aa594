package seqtable_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// TestRandomOperations puts the tables through random operations, right ones and wrong ones, on the device and on the
// twins. After each the whole state, the results, the error and the counts of Check must agree.
func TestRandomOperations(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		// Few pages and slots, so that both run out; sequences of a few pages, so that positions fall on every side of
		// a boundary.
		t.Run("small", func(t *testing.T) {
			z := sizes{slots: 6, pagesPerSeq: 4, pageSize: 4, pages: 7, queue: 24, tokens: 9, maxSeqs: 2, clones: 3}
			operations := 10_000
			if testing.Short() {
				operations = 4000
			}
			m := randomOperations(t, backend, z, operations)
			// Each was met 25 times or more in every run of 10,000 that was looked at: without any the test does not
			// reach what it is for.
			for _, kind := range []error{
				seqtable.ErrInvalidSlot{}, seqtable.ErrOutOfSlots{}, seqtable.ErrInvalidPosition{},
				seqtable.ErrSequenceTooLong{}, pagetable.ErrOutOfPages{},
			} {
				if m.failed[fmt.Sprintf("%T", kind)] == 0 {
					t.Errorf("%T was never met", kind)
				}
			}
		})
		// More rows than Release and Clone handle in one go, and more pages than one word of the search for free ones.
		t.Run("wide", func(t *testing.T) {
			z := sizes{slots: 40, pagesPerSeq: 16, pageSize: 2, pages: 150, queue: 100, tokens: 65, maxSeqs: 40,
				clones: 40}
			randomOperations(t, backend, z, 1_000)
		})
	})
}

func randomOperations(t *testing.T, backend compute.Backend, z sizes, operations int) *machine {
	cases := 100 // As many as rapid makes, which is a fifth with -short.
	if testing.Short() {
		cases, operations = 20, operations/2
	}
	m := newMachine(t, backend, z)
	rapid.Check(t, func(rt *rapid.T) {
		m.reset(rt)
		for range operations / cases {
			m.operation(rt)
		}
	})
	t.Logf("operations: %v; errors: %v", m.seen, m.failed)
	return m
}

// machine is a state on the device and its twin.
type machine struct {
	model
	z       sizes
	state   *tensors.Tensor
	t       *rapid.T
	seen    map[string]int
	failed  map[string]int
	counter int32 // Next token.

	open, adopt, enqueue, step, clone, own, release, purge, truncate, retract, grow, begin,
	join, check program
}

func newMachine(t *testing.T, backend compute.Backend, z sizes) *machine {
	m := &machine{z: z, seen: map[string]int{}, failed: map[string]int{}}
	m.open = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		var status seqtable.Status
		s.Seqs, status = s.Seqs.Open(args[0])
		return s, []*graph.Node{status.Vector()}
	})
	m.adopt = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		var status seqtable.Status
		s.Seqs, s.Pages, status = s.Seqs.Adopt(s.Pages, args[0], args[1], args[2])
		return s, []*graph.Node{status.Vector()}
	})
	m.enqueue = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		s.Queue = s.Queue.Enqueue(args[0], args[1], args[2], args[3])
		return s, nil
	})
	m.step = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		packed := tokenqueue.Packed{Tokens: args[0], SlotIDs: args[1], PosIDs: args[2], NumTokens: args[3]}
		s.Queue = tokenqueue.Queue{Tokens: args[4], SlotIDs: args[5], PosIDs: args[6], NumQueued: args[7]}
		seqs, pages, batch, status := s.Seqs.Allocate(s.Pages, packed, z.maxSeqs)
		s.Seqs, s.Pages = seqs, pages
		return s, append(tree.Leaves(batch), status.Vector())
	})
	m.clone = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, from, to, status := s.Seqs.Fork(s.Pages, args[0], args[1], args[2], args[3])
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{from, to, status.Vector()}
	})
	m.release = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, status := s.Seqs.Release(s.Pages, args[0], args[1])
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{status.Vector()}
	})
	m.purge = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		s.Queue = s.Queue.PurgeSlots(args[0])
		return s, nil
	})
	m.truncate = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, status := s.Seqs.Truncate(s.Pages, args[0])
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{status.Vector()}
	})
	m.retract = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, status := s.Seqs.Retract(s.Pages, args[0], retractedBy)
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{status.Vector()}
	})
	m.own = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, from, to, status := s.Seqs.Own(s.Pages, args[0])
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{from, to, status.Vector()}
	})
	m.grow = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		seqs, pages, taken, status := s.Seqs.Grow(s.Pages, args[0], args[1], growLimit)
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{taken, status.Vector()}
	})
	m.begin = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		s.Pages, s.Seqs.Owners = s.Pages.Begin(), args[0]
		return s, nil
	})
	m.join = compile(t, backend, z, func(s state, args []*graph.Node) (state, []*graph.Node) {
		pages, invalid := s.Pages.Pin(args[0])
		seqs, pages, status := s.Seqs.Join(pages, args[0], args[1], args[2])
		pages, _, _ = pages.Release(args[0])
		s.Seqs, s.Pages = seqs, pages
		return s, []*graph.Node{invalid, status.Vector()}
	})
	m.check = compile(t, backend, z, func(s state, _ []*graph.Node) (state, []*graph.Node) {
		return s, []*graph.Node{s.Seqs.Check(seqtable.CheckInput{Pages: s.Pages, Queue: s.Queue})}
	})
	return m
}

func (m *machine) reset(t *rapid.T) {
	m.t, m.model, m.counter = t, m.z.model(), 0
	m.state = tensors.FromValue(m.vector())
}

// operation draws one and runs it on both sides.
func (m *machine) operation(t *rapid.T) {
	// A step and new tokens are the most frequent, so that sequences grow.
	switch op := rapid.SampledFrom([]string{"step", "enqueue", "step", "enqueue", "open", "open", "adopt", "clone",
		"own", "finish", "release", "purge", "truncate", "retract", "grow", "begin", "join"}).Draw(t, "op"); op {
	case "open":
		mask := m.mask("open", 2)
		err := m.seqs.Open(mask)
		m.run(op, m.open, err, nil, mask)
	case "adopt":
		m.drawAdopt()
	case "enqueue":
		m.drawEnqueue()
	case "step":
		packed, args := m.pack()
		batch, err := m.seqs.Allocate(m.pages, packed, m.z.maxSeqs)
		m.run(op, m.step, err, m.z.batchVector(batch, packed), args...)
	case "clone":
		m.drawClone()
	case "finish": // As the engine does.
		mask := m.mask("finish", 3)
		m.queue.PurgeSlots(mask)
		m.run("purge", m.purge, errNoStatus, nil, mask)
		keep := m.keep()
		m.run(op, m.release, m.seqs.Release(m.pages, mask, keep), nil, mask, keep)
	case "release":
		mask := m.mask("release", 1)
		keep := m.keep()
		m.run(op, m.release, m.seqs.Release(m.pages, mask, keep), nil, mask, keep)
	case "begin":
		owners := rapid.SliceOfN(rapid.Int32Range(0, 99), m.z.slots, m.z.slots).Draw(t, "owners")
		m.pages.Begin()
		for s, owner := range owners {
			m.seqs.Rows[s].Owner = owner
		}
		m.run(op, m.begin, errNoStatus, nil, owners)
	case "join":
		m.drawJoin()
	case "truncate":
		lens := m.drawLens()
		m.run(op, m.truncate, m.seqs.Truncate(m.pages, lens), nil, lens)
	case "retract":
		lens := m.drawLens()
		m.run(op, m.retract, m.seqs.Retract(m.pages, lens, retractedBy), nil, lens)
	case "own":
		mask := m.mask("own", 4)
		from, to, err := m.seqs.Own(m.pages, mask)
		m.run(op, m.own, err, join(from, to), mask)
	case "grow":
		slot := rapid.Int32Range(-1, int32(m.z.slots)).Draw(t, "slot")
		length := rapid.IntRange(0, m.z.pagesPerSeq*m.z.pageSize+1).Draw(t, "length")
		if slot >= 0 && int(slot) < m.z.slots {
			length = min(length, m.seqs.Rows[slot].Len+rapid.IntRange(0, (growLimit+1)*m.z.pageSize).Draw(t,
				"longer by"))
		}
		taken, err := m.seqs.Grow(m.pages, slot, length, growLimit)
		m.run(op, m.grow, err, pad(taken, growLimit, -1), slot, int32(length))
	case "purge":
		mask := m.mask("purge", 2)
		m.queue.PurgeSlots(mask)
		m.run(op, m.purge, errNoStatus, nil, mask)
	}
}

func (m *machine) mask(name string, atMost int) []bool {
	mask := make([]bool, m.z.slots)
	for _, s := range rapid.SliceOfN(rapid.IntRange(0, m.z.slots-1), 0, atMost*m.z.slots/6).Draw(m.t, name) {
		mask[s] = true
	}
	return mask
}

// drawEnqueue draws tokens that go on with sequences, and now and then some that do not.
func (m *machine) drawEnqueue() {
	n := m.z.tokens - 1
	next := map[int32]int32{}
	for s, r := range m.seqs.Rows {
		next[int32(s)] = int32(r.Len)
	}
	for _, e := range m.queue.Entries {
		next[e.Slot] = max(next[e.Slot], e.Pos+1)
	}
	var entries []tokenqueue.Entry
	valid := make([]bool, n)
	tokens, slots, pos := make([]int32, n), make([]int32, n), make([]int32, n)
	slot := rapid.Int32Range(0, int32(m.z.slots)-1).Draw(m.t, "slot")
	for i := range n {
		if rapid.IntRange(0, 2).Draw(m.t, "another") == 0 {
			slot = rapid.Int32Range(0, int32(m.z.slots)-1).Draw(m.t, "slot")
		}
		wrong := rapid.IntRange(0, 39).Draw(m.t, "wrong")
		tokens[i], slots[i], pos[i] = m.counter, slot, next[slot]
		switch {
		case wrong == 0:
			slots[i] = rapid.Int32Range(-2, int32(m.z.slots)+1).Draw(m.t, "any slot")
		case wrong == 1:
			pos[i] = rapid.Int32Range(-1, int32(m.z.pagesPerSeq*m.z.pageSize)+1).Draw(m.t, "any position")
		}
		valid[i] = rapid.IntRange(0, 3).Draw(m.t, "valid") > 0 && (wrong < 2 || m.seqs.Rows[slot].Used)
		if !valid[i] {
			continue
		}
		m.counter++
		next[slot] = max(next[slot], pos[i]+1)
		entries = append(entries, tokenqueue.Entry{Token: tokens[i], Slot: slots[i], Pos: pos[i]})
	}
	m.queue.Enqueue(entries...)
	m.run("enqueue", m.enqueue, errNoStatus, nil, tokens, slots, pos, valid)
}

func (m *machine) drawClone() {
	src, dst, lens, lazy := make([]int32, m.z.clones), make([]int32, m.z.clones), make([]int32, m.z.clones),
		make([]bool, m.z.clones)
	var used, free []int32
	for s, r := range m.seqs.Rows {
		if r.Used {
			used = append(used, int32(s))
		} else {
			free = append(free, int32(s))
		}
	}
	for i := range src {
		src[i], dst[i], lens[i], lazy[i] = -1, -1, 0, rapid.Bool().Draw(m.t, "lazy")
		if i >= rapid.IntRange(0, m.z.clones).Draw(m.t, "clones") {
			continue
		}
		if len(used) == 0 || len(free) == 0 || rapid.IntRange(0, 9).Draw(m.t, "wrong") == 0 {
			src[i] = rapid.Int32Range(-2, int32(m.z.slots)).Draw(m.t, "any source")
			dst[i] = rapid.Int32Range(-2, int32(m.z.slots)).Draw(m.t, "any slot")
			lens[i] = rapid.Int32Range(-1, int32(m.z.pagesPerSeq*m.z.pageSize)+1).Draw(m.t, "any length")
			continue
		}
		src[i] = rapid.SampledFrom(used).Draw(m.t, "source")
		dst[i] = rapid.SampledFrom(free).Draw(m.t, "slot")
		n := int32(m.seqs.Rows[src[i]].Len)
		lens[i] = n - min(n, rapid.Int32Range(-1, 5).Draw(m.t, "shorter by"))
	}
	from, to, err := m.seqs.Fork(m.pages, src, dst, lens, lazy)
	m.run("clone", m.clone, err, join(from, to), src, dst, lens, lazy)
}

// growLimit is the most pages that a sequence is given at once.
const growLimit = 3

// retractedBy is who took the pages that are taken back.
const retractedBy = 1234

// drawLens draws what a few sequences are shortened to; tokens of theirs that are queued may then not join up any more.
func (m *machine) drawLens() []int32 {
	lens := make([]int32, m.z.slots)
	for s := range lens {
		if lens[s] = -1; rapid.IntRange(0, 2).Draw(m.t, "shorten") == 0 {
			lens[s] = rapid.Int32Range(-1, int32(m.seqs.Rows[s].Len)+1).Draw(m.t, "length")
		}
	}
	return lens
}

// keep draws how many tokens of each sequence are kept where it is released.
func (m *machine) keep() []int32 {
	keep := make([]int32, m.z.slots)
	for s, r := range m.seqs.Rows {
		keep[s] = max(0, int32(r.Len)-rapid.Int32Range(0, 6).Draw(m.t, "not kept"))
	}
	return keep
}

// drawJoin lengthens a few sequences by pages that no sequence holds, now and then two by the same, and now and then a
// sequence that can't be.
func (m *machine) drawJoin() {
	ids := slices.DeleteFunc(rapid.Permutation(upTo(m.z.pages)).Draw(m.t, "pages"), func(page int32) bool {
		return slices.ContainsFunc(m.seqs.Rows, func(r seqtable.Row) bool { return slices.Contains(r.Pages, page) })
	})
	named := pad(ids[:min(len(ids), m.z.pagesPerSeq+2)], m.z.pagesPerSeq+2, -1)
	starts, counts := make([]int32, m.z.slots), make([]int32, m.z.slots)
	at, before := int32(0), -1
	for s, r := range m.seqs.Rows {
		wrong := rapid.IntRange(0, 39).Draw(m.t, "wrong")
		if rapid.IntRange(0, 2).Draw(m.t, "join") > 0 || wrong > 2 && (r.Len%m.z.pageSize != 0 || !r.Used) {
			continue
		}
		n := min(rapid.Int32Range(0, 3).Draw(m.t, "pages more"), int32(min(len(ids), len(named)))-at)
		starts[s], counts[s] = at, n
		if before >= 0 && len(m.seqs.Rows[before].Pages) == len(r.Pages) && rapid.Bool().Draw(m.t, "the same") {
			starts[s], counts[s] = starts[before], counts[before]
		} else {
			at, before = at+n, s
		}
		switch wrong {
		case 0:
			starts[s], counts[s] = int32(len(named))-1, 2
		case 1:
			counts[s] = -1
		}
	}
	invalid := m.pages.Pin(named)
	err := m.seqs.Join(m.pages, named, starts, counts)
	m.pages.Release(named)
	m.run("join", m.join, err, []int32{int32(invalid)}, named, starts, counts)
}

func upTo(n int) (list []int32) {
	for i := range int32(n) {
		list = append(list, i)
	}
	return list
}

// drawAdopt lets a few sequences take over pages of others. The tables know nothing of contents.
func (m *machine) drawAdopt() {
	sources, from, to := make([]int32, m.z.slots), make([]int32, m.z.slots), make([]int32, m.z.slots)
	for s := range sources {
		if sources[s] = -1; rapid.IntRange(0, 2).Draw(m.t, "adopt") > 0 {
			continue
		}
		sources[s] = rapid.Int32Range(0, int32(m.z.slots)-1).Draw(m.t, "source")
		n := min(m.seqs.Rows[s].Len, m.seqs.Rows[sources[s]].Len) / m.z.pageSize
		from[s] = rapid.Int32Range(0, int32(n)).Draw(m.t, "from")
		to[s] = int32(n) - rapid.Int32Range(0, int32(n)).Draw(m.t, "fewer")
		switch rapid.IntRange(0, 19).Draw(m.t, "wrong") {
		case 0:
			sources[s] = rapid.Int32Range(-2, int32(m.z.slots)).Draw(m.t, "any source")
		case 1:
			to[s]++
		case 2:
			from[s] = -1
		}
	}
	m.run("adopt", m.adopt, m.seqs.Adopt(m.pages, sources, from, to), nil, sources, from, to)
}

// errNoStatus marks a verb that returns no status.
var errNoStatus = errors.New("no status")

// run applies the program and compares the state, the results, the error and the counts with the twin's.
func (m *machine) run(op string, p program, err error, results []int32, args ...any) {
	m.seen[op]++
	next, values, vector := p.run(m.t, m.state, args...)
	m.state = next
	compare(m.t, op+": state", values, m.vector())
	compare(m.t, op+": results", vector[:len(results)], results)
	vector = vector[len(results):]
	if err != errNoStatus {
		if err != nil {
			m.failed[fmt.Sprintf("%T", err)]++
		}
		if got := seqtable.StatusError(vector[:4]); got != err {
			m.t.Fatalf("%s: error %v, want %v", op, got, err)
		}
	}
	_, _, counts := m.check.run(m.t, m.state)
	compare(m.t, op+": broken rules", counts[:len(seqtable.Rules)], m.counts())
}

func compare(t *rapid.T, what string, got, want []int32) {
	if !slices.Equal(got, want) {
		t.Fatalf("%s:\n got %v\nwant %v", what, got, want)
	}
}
