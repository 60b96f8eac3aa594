package engine_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/quire/quire/engine"
)

// oneStructureForMany are requests of which several have one structure.
func oneStructureForMany() []*engine.Request {
	requests := structured(12)
	for i, r := range requests {
		r.Structure = structures(i % 5)
	}
	return requests
}

// needs is how many bytes a completion takes alone, before each of its tokens.
func needs(t *testing.T, e *engine.Engine, c *engine.Completion) (bytes []int) {
	t.Helper()
	for k := range c.Tokens {
		n, err := e.MemoryOfText(c.Request.Structure, c.Tokens[:k])
		if err != nil {
			t.Fatal(err)
		}
		bytes = append(bytes, n)
	}
	return bytes
}

// The memory that a structure may take for its states changes no completion: machines are made anew where it is spent,
// and only a text that takes too much alone ends with an error, in whatever order the rows come.
func TestMemoryOfStructures(t *testing.T) {
	e := structureEngine(t, nil)
	want := collect(t, e, oneStructureForMany()...)
	need, most := map[string][]int{}, []int{}
	for key, c := range want {
		need[key] = needs(t, e, c)
		most = append(most, slices.Max(need[key]))
	}
	slices.Sort(most)
	enough, between := most[len(most)-1], 0
	for i := 1; i < len(most); i++ { // where texts differ most in what they take
		if most[i]-most[i-1] > most[between+1]-most[between] {
			between = i - 1
		}
	}
	for name, bound := range map[string]int{"enough for each text": enough,
		"too little for some": (most[between] + most[between+1]) / 2} {
		t.Run(name, func(t *testing.T) {
			rounds, renewals, errs := 2, 0, 0
			if testing.Short() {
				rounds = 1
			}
			for round := range uint64(rounds) {
				e := structureEngine(t, nil)
				e.BoundStructures(bound)
				requests := oneStructureForMany()
				rand.New(rand.NewPCG(round, 5)).Shuffle(len(requests), func(i, j int) {
					requests[i], requests[j] = requests[j], requests[i]
				})
				got := collect(t, e, requests...)
				for key, c := range got {
					k := slices.IndexFunc(need[key], func(n int) bool { return n > bound })
					if k < 0 {
						continue
					}
					if !errors.Is(c.Err, engine.ErrStructureTooLarge) || !slices.Equal(c.Tokens, want[key].Tokens[:k]) {
						t.Errorf("%s: %v behind %d tokens, want an error behind %d", key, c.Err, len(c.Tokens), k)
					}
					errs++
					delete(got, key)
				}
				sameBytes(t, want, got, false)
				renewals += e.MachinesMadeAnew()
			}
			t.Logf("with %d bytes machines were made anew %d times, and %d of %d texts took too much", bound, renewals,
				errs, rounds*len(want))
			if renewals == 0 || errs > 0 != (bound < enough) {
				t.Error("the test does not reach what it is for")
			}
		})
	}
}
