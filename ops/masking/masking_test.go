package masking_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
)

// vocabulary are the texts of tokens; the last ends a completion.
var vocabulary = []string{"a", "b", "c", "ab", "abc", "bb", "cab", "aabbcc", ""}

// dfa is an automaton with a table of its own.
type dfa struct {
	next    [][3]int32
	accepts []bool
}

func (d *dfa) Start() int32 { return 0 }

func (d *dfa) Next(state int32, symbol byte) int32 {
	if symbol < 'a' || symbol > 'c' {
		return masking.Dead
	}
	return d.next[state][symbol-'a']
}

func (d *dfa) walk(state int32, text string) int32 {
	for i := range len(text) {
		if state = d.Next(state, text[i]); state == masking.Dead {
			break
		}
	}
	return state
}

func (d *dfa) Mask(state int32, mask []uint32) (end, known bool) {
	end = d.accepts[state]
	for token, text := range vocabulary {
		if text == "" && d.accepts[state] || text != "" && d.walk(state, text) != masking.Dead {
			mask[0] |= 1 << token
			end = end && text == ""
		}
	}
	return end, true
}

func (d *dfa) Memory() (m masking.Memory) { return m }

// machine makes a machine of an automaton.
func machine(t rapid.TB, a masking.Automaton) *masking.Machine {
	m, err := masking.NewMachine(stopping.OfText, func() (masking.Automaton, error) { return a, nil })
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func drawDFA(t *rapid.T) *dfa {
	d := &dfa{}
	for n := rapid.IntRange(1, 12).Draw(t, "states"); len(d.next) < n; {
		var row [3]int32
		for i := range row {
			row[i] = int32(rapid.IntRange(-1, n-1).Draw(t, "next"))
		}
		d.next = append(d.next, row)
		d.accepts = append(d.accepts, rapid.Bool().Draw(t, "accepts"))
	}
	return d
}

var sizes = masking.Sizes{States: 12, Masks: 8, Words: 1, PatchStates: 3, PatchMasks: 2}

// tables are an arena's on a device.
type tables struct {
	exec  *Exec
	state []any
}

// newTables makes them. A call applies a patch, and takes states through tokens.
func newTables(t testing.TB, backend compute.Backend) *tables {
	t.Helper()
	exec, err := NewExec(backend, func(in []*Node) []*Node {
		tables := masking.Tables{Next: in[0], Info: in[1], Bits: in[2]}.Apply(masking.PatchOf[*Node, *Node]{
			Clear: in[3], States: in[4], Next: in[5], Info: in[6], Masks: in[7], Bits: in[8]})
		masks, ends := tables.Masks(in[9])
		after := tables.Walk(stopping.Tables{Bytes: in[11], Starts: in[12]}, in[9], in[10])
		return []*Node{tables.Next, tables.Info, tables.Bits, masks.Of, ends, after, tables.Known(after)}
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	table := func() [][]int32 {
		rows := make([][]int32, sizes.States)
		for i := range rows {
			rows[i] = slices.Repeat([]int32{7}, masking.Width) // which the first patch clears
		}
		return rows
	}
	return &tables{exec, []any{table(), slices.Repeat([]int32{9}, sizes.States), make([][]uint32, sizes.Masks)}}
}

// result is what a call returns of rows.
type result struct {
	masks [][]int32
	ends  []bool
	after [][]int32
	known []bool
	bits  [][]uint32
}

func (d *tables) call(t *rapid.T, p *masking.Patch, states [][]int32, tokens []int32) (r result) {
	next, bits := p.Next, p.Bits
	if next == nil {
		next = make([]int32, sizes.PatchStates*masking.Width)
	}
	if bits == nil {
		bits = make([]uint32, sizes.PatchMasks)
	}
	texts, starts := []int32{}, []int32{0}
	for _, text := range vocabulary {
		for i := range len(text) {
			texts = append(texts, int32(text[i]))
		}
		starts = append(starts, int32(len(texts)))
	}
	for i, row := range d.state[2].([][]uint32) {
		if row == nil {
			d.state[2].([][]uint32)[i] = make([]uint32, sizes.Words)
		}
	}
	out, err := d.exec.Exec(append(slices.Clone(d.state), p.Clear, p.States, next, p.Info, p.Masks, bits, states,
		tokens, texts, starts)...)
	if err != nil {
		t.Fatal(err)
	}
	d.state = []any{out[0].Value(), out[1].Value(), out[2].Value()}
	return result{out[3].Value().([][]int32), out[4].Value().([]bool), out[5].Value().([][]int32),
		out[6].Value().([]bool), out[2].Value().([][]uint32)}
}

// Rows walk through machines as the machines do, whatever the arena has room for: a row gets the mask of its state, and
// after a token it stands in the row of its machine's state, or is unknown.
func TestAgainstMachines(t *testing.T) {
	for name, backend := range map[string]compute.Backend{"go": testenv.Go(t), "xla": testenv.XLAWithoutKernels(t)} {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(rt *rapid.T) { testAgainstMachines(rt, newTables(t, backend)) })
		})
	}
}

func testAgainstMachines(t *rapid.T, d *tables) {
	a := masking.New(sizes)
	const rows = 3
	machines := make([]*masking.Machine, 4)
	for i := range machines {
		machines[i] = machine(t, drawDFA(t))
	}
	at := make([]*masking.Reader, rows)
	for i := range at {
		at[i] = a.Start(machines[rapid.IntRange(0, 3).Draw(t, "machine")])
	}
	for range rapid.IntRange(1, 12).Draw(t, "calls") {
		placed, err := a.Place(at)
		if err != nil {
			t.Fatal(err)
		}
		ahead := rapid.IntRange(0, 4).Draw(t, "ahead")
		a.Ahead(func() bool { ahead--; return ahead < 0 })
		p, more := a.Take()
		for more {
			d.call(t, p, [][]int32{{-1, -1}, {-1, -1}, {-1, -1}}, []int32{-1, -1, -1})
			p, more = a.Take()
		}
		states, tokens := make([][]int32, rows), make([]int32, rows)
		for i := range at {
			states[i], tokens[i] = []int32{placed[i], -1}, -1
			for token := range vocabulary {
				if masking.Has(a.Mask(at[i]), int32(token)) && rapid.Bool().Draw(t, "take") {
					tokens[i] = int32(token)
				}
			}
		}
		got := d.call(t, p, states, tokens)
		before := make([]int32, rows)
		for i := range at {
			before[i] = at[i].State
			mask, end := make([]uint32, 1), false
			end, _ = at[i].Automaton.Mask(at[i].State, mask)
			of := got.masks[i]
			if of[1] != sampling.NoMask || !slices.Equal(got.bits[of[0]], mask) || got.ends[i] != end {
				t.Fatalf("row %d: masks %v of %v, end %v; want %b, end %v", i, of, got.bits, got.ends[i], mask, end)
			}
			if tokens[i] >= 0 {
				a.Walk(at[i], []byte(vocabulary[tokens[i]]))
			}
		}
		_, _, flushes := a.Full()
		want, err := a.Place(at)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, now := a.Full(); now != flushes {
			continue // they stand elsewhere now
		}
		for i := range at {
			after := got.after[i][0]
			if after != masking.Unknown && after != want[i] || after == masking.Unknown && got.known[i] {
				t.Fatalf("row %d: %v behind %v and %q, want row %d; known %v", i, after, before[i],
					vocabulary[max(0, tokens[i])], want[i], got.known)
			}
		}
	}
}

// With room and time all that a row may soon come to is filled, and nothing that it can never come to. A state many
// bytes ahead may be too unlikely to be filled.
func TestAhead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := drawDFA(t)
		wide := sizes
		wide.States, wide.Masks, wide.PatchStates = 64, 64, 64
		a, m := masking.New(wide), machine(t, d)
		if _, err := a.Place([]*masking.Reader{a.Start(m)}); err != nil {
			t.Fatal(err)
		}
		filled := a.Ahead(func() bool { return false })
		bytesTo, near := map[int32]int{0: 0}, 0
		for queue := []int32{0}; len(queue) > 0; queue = queue[1:] {
			if bytesTo[queue[0]] <= 3 {
				near++
			}
			for _, next := range d.next[queue[0]] {
				if _, reached := bytesTo[next]; next >= 0 && !reached {
					bytesTo[next] = bytesTo[queue[0]] + 1
					queue = append(queue, next)
				}
			}
		}
		if states, _, _ := a.Full(); states < near || states > len(bytesTo) || filled != states-1 {
			t.Fatalf("%d states are in the arena, and %d were filled in advance; want %d to %d, and one less", states,
				filled, near, len(bytesTo))
		}
	})
}

// States that a text passes are placed too, so that others that come the same way are not stopped there.
func TestPassedStatesAreLinked(t *testing.T) {
	a := masking.New(sizes)
	at := a.Start(machine(t, &dfa{[][3]int32{{1, -1, -1}, {-1, 2, -1}, {-1, -1, 0}}, []bool{true, true, true}}))
	if _, err := a.Place([]*masking.Reader{at}); err != nil {
		t.Fatal(err)
	}
	a.Take()
	a.Walk(at, []byte("ab"))
	if _, err := a.Place([]*masking.Reader{at}); err != nil {
		t.Fatal(err)
	}
	p, _ := a.Take()
	row := func(i int) []int32 { return p.Next[i*masking.Width:][:masking.Width] }
	first := slices.Index(p.States, 1)
	if first < 0 || row(first)['a'] == masking.Unknown {
		t.Fatalf("the patch writes rows %v: the first leads nowhere", p.States)
	}
	passed := slices.Index(p.States, row(first)['a'])
	if passed < 0 || p.Info[passed] != 0 || row(passed)['b'] == masking.Unknown {
		t.Fatalf("the patch writes rows %v with %v: the state between has no row, or a mask", p.States, p.Info)
	}
	if last := slices.Index(p.States, row(passed)['b']); last < 0 || p.Info[last] == 0 {
		t.Errorf("the patch writes rows %v with %v: the last has no mask", p.States, p.Info)
	}
}

// A state that gets its row late is linked from those before it, so that no row is stopped there twice.
func TestLateStatesAreLinked(t *testing.T) {
	a := masking.New(sizes)
	m := machine(t, &dfa{[][3]int32{{1, -1, -1}, {-1, 0, -1}}, []bool{true, true}})
	at := a.Start(m)
	place := func() int32 {
		t.Helper()
		rows, err := a.Place([]*masking.Reader{at})
		if err != nil {
			t.Fatal(err)
		}
		return rows[0]
	}
	first := place()
	if p, _ := a.Take(); p.Next['a'] != masking.Unknown {
		t.Fatalf("row %d leads to row %d, which has no state yet", first, p.Next['a'])
	}
	a.Walk(at, []byte("a"))
	second := place()
	p, _ := a.Take()
	i := slices.Index(p.States, first)
	if i < 0 || p.Next[i*masking.Width+'a'] != second {
		t.Errorf("the patch writes rows %v; row %d must lead to row %d", p.States, first, second)
	}
	if p, _ := a.Take(); p.Next != nil {
		t.Errorf("rows %v are written again", p.States)
	}
}

// An arena that is full makes room for a state that it lacks, and for what may follow.
func TestAheadMakesRoom(t *testing.T) {
	d := &dfa{} // a line
	for i := range int32(40) {
		d.next, d.accepts = append(d.next, [3]int32{(i + 1) % 40, -1, -1}), append(d.accepts, true)
	}
	a := masking.New(sizes)
	at := a.Start(machine(t, d))
	for step := range 40 {
		if _, err := a.Place([]*masking.Reader{at}); err != nil {
			t.Fatal(err)
		}
		a.Take()
		a.Ahead(func() bool { return false })
		before, _, flushes := a.Full()
		a.Walk(at, []byte("a"))
		if _, err := a.Place([]*masking.Reader{at}); err != nil {
			t.Fatal(err)
		}
		if after, _, now := a.Full(); now == flushes && after != before {
			t.Fatalf("step %d: what follows was not placed in advance: %d states, then %d", step, before, after)
		}
	}
	if _, _, flushes := a.Full(); flushes == 0 {
		t.Error("the arena was never full: the test does not reach what it is for")
	}
}
