package masking_test

import (
	"errors"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/ops/stopping"
)

// hungry is an automaton that takes memory for each symbol behind each state that it was asked for, and comes to an end
// with it.
type hungry struct {
	*dfa
	most  int
	known map[[2]int32]bool
	err   error
}

var errHungry = errors.New("too much was asked")

func (h *hungry) Next(state int32, symbol byte) int32 {
	to := h.dfa.Next(state, symbol)
	at := [2]int32{state, int32(symbol)}
	if to == masking.Dead || h.known[at] {
		return to
	}
	if len(h.known) == h.most {
		h.err = errHungry
	}
	if h.err != nil {
		return masking.Dead
	}
	h.known[at] = true
	return to
}

func (h *hungry) Mask(state int32, mask []uint32) (end, known bool) {
	end = h.accepts[state]
	for token, text := range vocabulary {
		at := state
		for i := 0; i < len(text) && at != masking.Dead; i++ {
			at = h.Next(at, text[i])
		}
		if text == "" && h.accepts[state] || text != "" && at != masking.Dead {
			mask[0] |= 1 << token
			end = end && text == ""
		}
	}
	return end, true
}

func (h *hungry) Memory() masking.Memory {
	return masking.Memory{Bytes: len(h.known), Share: float64(len(h.known)) / float64(h.most), Err: h.err}
}

// needs says whether a text, and what may follow it, takes more than an automaton has.
func (h *hungry) needs(text []byte) bool {
	state := h.Start()
	for _, symbol := range text {
		if state = h.Next(state, symbol); state == masking.Dead {
			break
		}
	}
	if h.err == nil {
		h.Mask(state, make([]uint32, 1))
		for symbol := range masking.Width {
			h.Next(state, byte(symbol))
		}
	}
	return h.err != nil
}

// Whatever else is read, a text has the mask of its state, or it takes too much memory alone and has an error.
func TestMemoryIsOfEachTextAlone(t *testing.T) {
	renewals, errs := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		a := masking.New(masking.Sizes{States: 24, Masks: 16, Words: 1, PatchStates: 12, PatchMasks: 6})
		machines := make([]*masking.Machine, 3)
		automata, bounds := make([]*dfa, 3), make([]int, 3)
		fresh := func(i int) *hungry {
			return &hungry{dfa: automata[i], most: bounds[i], known: map[[2]int32]bool{}}
		}
		for i := range machines {
			automata[i], bounds[i] = drawDFA(t), rapid.IntRange(3, 40).Draw(t, "most")
			var err error
			machines[i], err = masking.NewMachine(stopping.OfText, func() (masking.Automaton, error) {
				return fresh(i), nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		const rows = 5
		readers, texts, of := make([]*masking.Reader, rows), make([][]byte, rows), make([]int, rows)
		for range rapid.IntRange(1, 15).Draw(t, "calls") {
			for i := range readers {
				if readers[i] == nil || rapid.IntRange(0, 5).Draw(t, "another") == 0 {
					of[i], texts[i] = rapid.IntRange(0, 2).Draw(t, "machine"), nil
					readers[i] = a.Start(machines[of[i]])
				}
			}
			if _, err := a.Place(readers); err != nil {
				t.Fatal(err)
			}
			a.Take()
			for i, r := range readers {
				spent := fresh(of[i]).needs(texts[i])
				if (r.Err() != nil) != spent {
					t.Fatalf("row %d of machine %d behind %q: %v; alone it takes too much: %v", i, of[i], texts[i],
						r.Err(), spent)
				}
				got, want := a.Mask(r), make([]uint32, 1)
				if spent {
					readers[i], errs = nil, errs+1
				} else {
					automata[of[i]].Mask(automata[of[i]].walk(0, string(texts[i])), want)
				}
				if !slices.Equal(got, want) {
					t.Fatalf("row %d of machine %d behind %q: mask %b, want %b", i, of[i], texts[i], got, want)
				}
			}
			ahead := rapid.IntRange(0, 6).Draw(t, "ahead")
			a.Ahead(func() bool { ahead--; return ahead < 0 })
			for i, r := range readers {
				for range rapid.IntRange(0, 3).Draw(t, "tokens") {
					if r == nil {
						break
					}
					symbol := byte('a' + rapid.IntRange(0, 2).Draw(t, "symbol"))
					if automata[of[i]].walk(0, string(texts[i])+string(symbol)) == masking.Dead {
						continue
					}
					if !a.Walk(r, []byte{symbol}) {
						t.Fatalf("row %d can not read %q behind %q", i, symbol, texts[i])
					}
					texts[i] = append(texts[i], symbol)
				}
			}
		}
		renewals += a.Renewals()
	})
	if renewals == 0 || errs == 0 {
		t.Errorf("%d machines were made anew, %d texts were too much: the test does not reach what it is for", renewals,
			errs)
	}
}

// Masks that were forgotten are found again.
func TestMasksAreForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := masking.New(masking.Sizes{States: 12, Masks: 2, Words: 1, PatchStates: 12, PatchMasks: 2})
		d := drawDFA(t)
		r := a.Start(machine(t, d))
		for state := int32(0); ; {
			if _, err := a.Place([]*masking.Reader{r}); err != nil {
				t.Fatal(err)
			}
			a.Take()
			want := make([]uint32, 1)
			if d.Mask(state, want); !slices.Equal(a.Mask(r), want) {
				t.Fatalf("state %d has mask %b, want %b", state, a.Mask(r), want)
			}
			if a.Remembered() > 4 {
				t.Fatalf("%d masks are remembered", a.Remembered())
			}
			symbol := byte('a' + rapid.IntRange(0, 2).Draw(t, "symbol"))
			if state = d.Next(state, symbol); state == masking.Dead || rapid.IntRange(0, 20).Draw(t, "end") == 0 {
				break
			}
			a.Walk(r, []byte{symbol})
		}
	})
}
