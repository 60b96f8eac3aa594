package stopping_test

import (
	"fmt"
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/tokenizer"
)

// set compiles stop strings over bytes.
func set(t interface{ Fatal(...any) }, stops ...string) *stopping.Set {
	a, err := stopping.Compile(&tokenizer.Pieces{}, stops, 1<<12)
	if err != nil {
		t.Fatal(err)
	}
	return &stopping.Set{Key: fmt.Sprint(stops), Automaton: a}
}

// For any sequence of holds and releases: held sets have their own rows and find what they should, equal sets are
// stored once, and a set that does not fit next to the held ones is not taken.
func TestArena(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const rows = 24
		a := stopping.NewArena(rows)
		var held []*stopping.Set
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "release") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				a.Release(held[i])
				held = slices.Delete(held, i, i+1)
				continue
			}
			var sets []*stopping.Set
			for range rapid.IntRange(1, 2).Draw(t, "sets") {
				sets = append(sets, set(t, rapid.StringMatching("[ab]{1,9}").Draw(t, "stop")))
			}
			need := map[string]int{}
			for _, s := range append(slices.Clone(held), sets...) {
				need[s.Key] = s.States()
			}
			sum := 0
			for _, n := range need {
				sum += n
			}
			if ok := a.Hold(sets...); ok != (sum <= rows) {
				t.Fatalf("holding %v: %v, which makes %d of %d rows", need, ok, sum, rows)
			} else if ok {
				held = append(held, sets...)
			}
			check(t, a, held)
		}
	})
}

// check compares the held automata with those in the table.
func check(t *rapid.T, a *stopping.Arena, held []*stopping.Set) {
	table, _ := a.Table()
	whole := stopping.Automaton{Next: table}
	used := map[int32]string{}
	for _, s := range held {
		pairs := [][2]int32{{0, a.Start(s)}}
		seen := map[int32]int32{0: a.Start(s)}
		for len(pairs) > 0 {
			of, row := pairs[0][0], pairs[0][1]
			pairs = pairs[1:]
			if other, ok := used[row]; ok && other != s.Key {
				t.Fatalf("row %d is of %s and %s", row, other, s.Key)
			}
			used[row] = s.Key
			for b := range stopping.Width {
				to, found := s.Walk(of, []byte{byte(b)})
				gotTo, gotFound := whole.Walk(row, []byte{byte(b)})
				if found != gotFound {
					t.Fatalf("%s: %d on %d", s.Key, of, b)
				}
				if old, ok := seen[to]; !ok {
					seen[to] = gotTo
					pairs = append(pairs, [2]int32{to, gotTo})
				} else if old != gotTo {
					t.Fatalf("%s: state %d stands in rows %d and %d", s.Key, to, old, gotTo)
				}
			}
		}
	}
}

// The version changes with the contents, and only then.
func TestArenaVersion(t *testing.T) {
	a := stopping.NewArena(8)
	_, begin := a.Table()
	one := set(t, "abc")
	a.Hold(one)
	_, first := a.Table()
	a.Hold(set(t, "abc"))
	a.Release(one, one)
	a.Hold(one)
	if _, again := a.Table(); first == begin || again != first {
		t.Errorf("versions %d, %d, %d", begin, first, again)
	}
	if a.Hold(set(t, "abcdefgh")) {
		t.Error("9 states beside 4 in 8 rows")
	}
}

// The graph takes rows where the automata go: those without stops stay as they are, and so do rows without a token.
func TestWalk(t *testing.T) {
	p := &tokenizer.Pieces{Starts: []int32{0}}
	for _, piece := range []string{"a", "b", "ab", "", "aabba", "b\n", "abababababa"} {
		p.Bytes = append(p.Bytes, piece...)
		p.Starts = append(p.Starts, int32(len(p.Bytes)))
	}
	bytes := make([]int32, len(p.Bytes))
	for i, b := range p.Bytes {
		bytes[i] = int32(b)
	}
	for _, name := range []string{"go", "xla"} {
		t.Run(name, func(t *testing.T) {
			exec := walker(t, name == "xla")
			rapid.Check(t, func(t *rapid.T) { walksAsItShould(t, exec, p, bytes) })
		})
	}
}

// walksAsItShould generates automata and tokens for them.
func walksAsItShould(t *rapid.T, exec *Exec, p *tokenizer.Pieces, bytes []int32) {
	const rows, slots = 200, 9
	vocabulary := len(p.Starts) - 1
	a := stopping.NewArena(rows)
	states, tokens := make([][stopping.Lanes]int32, slots), make([]int32, slots)
	for i := range states {
		states[i] = [stopping.Lanes]int32{stopping.None, stopping.None}
	}
	for i := range slots {
		if rapid.Bool().Draw(t, "stop string") {
			s := set(t, rapid.StringMatching("[ab\n]{1,6}").Draw(t, "stop"))
			if a.Hold(s) {
				states[i][stopping.OfText] = a.Start(s)
			}
		}
		if rapid.Bool().Draw(t, "sequence") {
			sequence := rapid.SliceOfN(rapid.Int32Range(0, 8), 1, 3).Draw(t, "tokens")
			auto, err := stopping.CompileTokens([][]int32{sequence}, rows)
			if err != nil {
				t.Fatal(err)
			}
			if s := (&stopping.Set{Key: fmt.Sprint(sequence), Automaton: auto}); a.Hold(s) {
				states[i][stopping.OfTokens] = a.Start(s)
			}
		}
	}
	table, _ := a.Table()
	whole := stopping.Automaton{Next: table}
	for range rapid.IntRange(1, 4).Draw(t, "steps") {
		found := make([][stopping.Lanes]bool, slots)
		want := slices.Clone(states)
		for i := range slots {
			tokens[i] = rapid.Int32Range(-1, int32(vocabulary)+1).Draw(t, "token")
			if tokens[i] < 0 {
				continue
			}
			for lane, state := range states[i] {
				var symbols []byte
				if lane == stopping.OfTokens {
					symbols = stopping.TokenSymbols(tokens[i])
				} else if int(tokens[i]) < vocabulary {
					symbols = p.Bytes[p.Starts[tokens[i]]:p.Starts[tokens[i]+1]]
				}
				if state >= 0 {
					want[i][lane], found[i][lane] = whole.Walk(state, symbols)
				}
			}
		}
		out, err := exec.Exec(table, bytes, p.Starts, flat(states), tokens)
		if err != nil {
			t.Fatal(err)
		}
		if after, hits := fmt.Sprint(out[0].Value()), fmt.Sprint(out[1].Value()); after != fmt.Sprint(want) ||
			hits != fmt.Sprint(found) {
			t.Fatalf("tokens %v from %v: %s %s, want %v %v", tokens, states, after, hits, want, found)
		}
		states = want
	}

}

func flat(states [][stopping.Lanes]int32) [][]int32 {
	list := make([][]int32, len(states))
	for i := range states {
		list[i] = states[i][:]
	}
	return list
}

func walker(t *testing.T, xla bool) *Exec {
	t.Helper()
	backend := testenv.Go(t)
	if xla {
		backend = testenv.XLA(t)
	}
	exec, err := NewExec(backend, func(table, bytes, starts, states, tokens *Node) (*Node, *Node) {
		next := Reshape(table, table.Shape().Size()/stopping.Width, stopping.Width)
		return stopping.Walk(stopping.Tables{Next: next, Bytes: bytes, Starts: starts}, states, tokens)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return exec
}
