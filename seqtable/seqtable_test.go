package seqtable_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/ops/tree"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// TestSequences puts whole sequences through the tables.
func TestSequences(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		m := newMachine(t, backend, sizes{slots: 16, pagesPerSeq: 4, pageSize: 4, pages: 64, queue: 64, tokens: 32,
			maxSeqs: 16, clones: 4})
		t.Run("boundaries", m.testBoundaries)
		t.Run("leaks", m.testLeaks)
	})
}

// testBoundaries prefills prompts that end about a page boundary, decodes one token more, and clones at every length.
func (m *machine) testBoundaries(t *testing.T) {
	pageSize := m.z.pageSize
	for _, prompt := range []int{1, pageSize - 1, pageSize, pageSize + 1, 2*pageSize - 1, 2 * pageSize,
		4*pageSize - 1} {
		m.clear()
		m.openSlots(t, 1)
		batch := m.feed(t, 1, 0, prompt)
		pages := (prompt + pageSize - 1) / pageSize
		if got := len(batch.PageIndices[0]); got != pages {
			t.Errorf("a prompt of %d tokens has %d pages, want %d", prompt, got, pages)
		}
		batch = m.feed(t, 1, prompt, 1)
		if want := int32(prompt); batch.NewTokenDests[0] != want { // Its pages are 0, 1, 2, ...
			t.Errorf("token %d goes to place %d, want %d", prompt, batch.NewTokenDests[0], want)
		}
		for length := 0; length <= prompt+1; length++ {
			src, dst, lens := []int32{-1, 1, -1, -1}, []int32{-1, 2, -1, -1}, []int32{0, int32(length), 0, 0}
			free, partial := m.pages.NumFree(), length%pageSize != 0
			from, to, err := m.seqs.Clone(m.pages, src, dst, lens)
			m.apply(t, m.clone, err, join(from, to), src, dst, lens, make([]bool, 4))
			if partial != (to[1] >= 0) || partial != (m.pages.NumFree() == free-1) {
				t.Errorf("a clone of %d tokens copies page %d to %d", length, from[1], to[1])
			}
			m.releaseSlots(t, func(s int) bool { return s == 2 })

			// A lazy one takes the page when it is to write there.
			lazy, mask := []bool{false, true, false, false}, make([]bool, m.z.slots)
			from, to, err = m.seqs.Fork(m.pages, src, dst, lens, lazy)
			m.apply(t, m.clone, err, join(from, to), src, dst, lens, lazy)
			if to[1] >= 0 || m.pages.NumFree() != free {
				t.Errorf("a lazy fork of %d tokens copies page %d to %d", length, from[1], to[1])
			}
			mask[2] = true
			for again := range 2 {
				from, to, err = m.seqs.Own(m.pages, mask)
				m.apply(t, m.own, err, join(from, to), mask)
				if partial && again == 0 != (to[2] >= 0) || partial != (m.pages.NumFree() == free-1) {
					t.Errorf("with %d tokens page %d is copied to %d", length, from[2], to[2])
				}
			}
			m.releaseSlots(t, func(s int) bool { return s == 2 })
		}
	}
}

// testLeaks runs 1,000 sequences, most of them clones, through 16 slots: after each round every page is free.
func (m *machine) testLeaks(t *testing.T) {
	m.clear()
	sequences := 1000
	if testing.Short() {
		sequences = 300
	}
	for round, done := 0, 0; done < sequences; round++ {
		m.openSlots(t, 0, 1, 2, 3)
		for s := range int32(4) {
			m.feed(t, s, 0, 1+(round+int(s)*3)%14)
		}
		for group := range int32(3) { // Each of the four sequences gets three clones.
			src, dst, lens := make([]int32, 4), make([]int32, 4), make([]int32, 4)
			for i := range int32(4) {
				src[i], dst[i], lens[i] = i, 4+group*4+i, int32(m.seqs.Rows[i].Len)
			}
			from, to, err := m.seqs.Clone(m.pages, src, dst, lens)
			m.apply(t, m.clone, err, join(from, to), src, dst, lens, make([]bool, 4))
		}
		for s := range m.z.slots { // Clones diverge.
			m.feed(t, int32(s), m.seqs.Rows[s].Len, 1+(round+s)%2)
		}
		m.releaseSlots(t, func(s int) bool { return s%2 == round%2 })
		m.releaseSlots(t, func(int) bool { return true })
		done += m.z.slots
		if free := m.pages.NumFree(); free != m.z.pages {
			t.Fatalf("%d of %d pages are free after round %d", free, m.z.pages, round)
		}
	}
}

func (m *machine) clear() {
	m.model = m.z.model()
	m.state = tensors.FromValue(m.vector())
}

// releaseSlots releases slots on both sides.
func (m *machine) releaseSlots(t *testing.T, end func(slot int) bool) {
	mask := make([]bool, m.z.slots)
	for s := range mask {
		mask[s] = end(s)
	}
	keep := make([]int32, m.z.slots)
	m.apply(t, m.release, m.seqs.Release(m.pages, mask, keep), nil, mask, keep)
}

// openSlots opens slots on both sides.
func (m *machine) openSlots(t *testing.T, slots ...int) {
	mask := make([]bool, m.z.slots)
	for _, s := range slots {
		mask[s] = true
	}
	m.apply(t, m.open, m.seqs.Open(mask), nil, mask)
}

// feed runs n tokens of a slot from position at on through the queue and a step.
func (m *machine) feed(t *testing.T, slot int32, at, n int) seqtable.Batch {
	size := m.z.tokens - 1
	tokens, slots, pos, valid := make([]int32, size), make([]int32, size), make([]int32, size), make([]bool, size)
	for i := range n {
		tokens[i], slots[i], pos[i], valid[i] = int32(100+i), slot, int32(at+i), true
		m.queue.Enqueue(tokenqueue.Entry{Token: tokens[i], Slot: slot, Pos: pos[i]})
	}
	m.apply(t, m.enqueue, errNoStatus, nil, tokens, slots, pos, valid)
	packed, args := m.pack()
	batch, err := m.seqs.Allocate(m.pages, packed, m.z.maxSeqs)
	if err != nil {
		t.Fatal(err)
	}
	m.apply(t, m.step, nil, m.z.batchVector(batch, packed), args...)
	return batch
}

// apply runs a program and compares all that it returns with the twin's, and the rules.
func (m *machine) apply(t *testing.T, p program, err error, results []int32, args ...any) {
	t.Helper()
	next, values, got := p.run(t, m.state, args...)
	m.state = next
	if want := m.vector(); !slices.Equal(values, want) {
		t.Fatalf("state:\n got %v\nwant %v", values, want)
	}
	if !slices.Equal(got[:len(results)], results) {
		t.Fatalf("results:\n got %v\nwant %v", got[:len(results)], results)
	}
	if err != errNoStatus {
		if status := seqtable.StatusError(got[len(results):][:4]); status != err || err != nil {
			t.Fatalf("error %v, want %v and none", status, err)
		}
	}
	_, _, counts := m.check.run(t, m.state)
	if got, want := counts[:len(seqtable.Rules)], m.counts(); !slices.Equal(got, want) {
		t.Fatalf("broken rules %v, want %v", got, want)
	}
}

// TestStatusKeepsTheFirstFault joins the statuses of verbs one after the other.
func TestStatusKeepsTheFirstFault(t *testing.T) {
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		exec, err := graph.NewExec(backend, func(a, b *graph.Node) *graph.Node {
			status := func(v *graph.Node) seqtable.Status {
				like := seqtable.NewStatus(v.Graph())
				parts := graph.Split(v, 0, 4)
				for i := range parts {
					parts[i] = graph.Reshape(parts[i])
				}
				return tree.Rebuild(like, parts)
			}
			return seqtable.NewStatus(a.Graph()).Then(status(a)).Then(status(b)).Vector()
		})
		if err != nil {
			t.Fatal(err)
		}
		ok, pages, slot := []int32{0, 0, 0, 0}, []int32{seqtable.CodeOutOfPages, 3, 1, -1},
			[]int32{seqtable.CodeInvalidSlot, 0, 0, 5}
		for _, c := range []struct {
			a, b []int32
			want error
		}{
			{ok, ok, nil},
			{pages, slot, pagetable.ErrOutOfPages{Need: 3, Have: 1}},
			{slot, pages, seqtable.ErrInvalidSlot{Slot: 5}},
			{ok, pages, pagetable.ErrOutOfPages{Need: 3, Have: 1}},
		} {
			out, err := exec.Exec(c.a, c.b)
			if err != nil {
				t.Fatal(err)
			}
			if got := seqtable.StatusError(tensors.MustCopyFlatData[int32](out[0])); got != c.want {
				t.Errorf("%v then %v: %v, want %v", c.a, c.b, got, c.want)
			}
		}
	})
}

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status  []int32
		kind    error
		mention []string
	}{
		{[]int32{seqtable.CodeInvalidSlot, 0, 0, 9}, seqtable.ErrInvalidSlot{}, []string{"slot 9"}},
		{[]int32{seqtable.CodeOutOfSlots, 7, 4, -1}, seqtable.ErrOutOfSlots{}, []string{"7", "4 rows"}},
		{[]int32{seqtable.CodeInvalidPosition, 12, 8, 2}, seqtable.ErrInvalidPosition{},
			[]string{"12", "slot 2", "8 tokens"}},
		{[]int32{seqtable.CodeSequenceTooLong, 65, 64, 3}, seqtable.ErrSequenceTooLong{},
			[]string{"slot 3", "65", "64"}},
		{[]int32{seqtable.CodeInvalidPage, 2, 100, 1}, pagetable.ErrInvalidPage{}, []string{"slot 1", "2", "99"}},
		{[]int32{seqtable.CodeOutOfPages, 5, 3, -1}, pagetable.ErrOutOfPages{},
			[]string{"5 needed", "3 free", "--kv-memory"}},
		{[]int32{seqtable.CodeDoubleFree, 6, 0, -1}, pagetable.ErrDoubleFree{}, []string{"6"}},
	} {
		err := fmt.Errorf("step 3: %w", seqtable.StatusError(c.status))
		if !errors.Is(err, c.kind) {
			t.Errorf("%v: %v is no %T", c.status, err, c.kind)
		}
		for _, m := range c.mention {
			if !strings.Contains(err.Error(), m) {
				t.Errorf("%q does not mention %q", err, m)
			}
		}
	}
	var outOfPages pagetable.ErrOutOfPages
	if !errors.As(seqtable.StatusError([]int32{seqtable.CodeOutOfPages, 5, 3, -1}), &outOfPages) ||
		outOfPages.Need != 5 || outOfPages.Have != 3 {
		t.Errorf("numbers of %v", outOfPages)
	}
	if err := seqtable.StatusError([]int32{99, 0, 0, 0}); err == nil {
		t.Error("an unknown code is no error")
	}
}
