package device

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
)

// draftsOf is findDrafts in plain Go, of one text whose last token waits. It also returns how many tokens match.
func (d Drafting) draftsOf(text []int32) ([]int32, int32) {
	last := len(text) - 1
	best, from := 0, 0
	for at := range last {
		n := 0
		for n < longestMatch && n <= at && text[at-n] == text[last-n] {
			n++
		}
		if n >= max(best, shortestMatch) {
			best, from = n, at
		}
	}
	if best == 0 {
		return nil, 0
	}
	repeated := slices.Clone(text)
	for i := from + 1; len(repeated) < len(text)+d.Most; i++ {
		repeated = append(repeated, repeated[i])
	}
	return repeated[from+1 : from+1+d.Most], int32(best)
}

// Drafts are what follows where most of a sequence's end stands before, in texts of few tokens that repeat.
func TestDraftsAreWhatFollowed(t *testing.T) {
	t.Run("kernels", func(t *testing.T) { draftsAreWhatFollowed(t, testenv.XLA(t)) })
	t.Run("plain", func(t *testing.T) { draftsAreWhatFollowed(t, testenv.XLAWithoutKernels(t)) })
}

func draftsAreWhatFollowed(t *testing.T, backend compute.Backend) {
	const rows, capacity = 3, 40
	d := Drafting{Most: 7, Width: 8}
	sp := speculation{network: network{Sizes: Sizes{Drafts: d}}}
	exec, err := NewExec(backend, func(texts, lens, wanted *Node) []*Node {
		tokens, matches := sp.findDrafts(Reshape(texts, rows, capacity), lens, wanted)
		return []*Node{tokens, matches}
	})
	if err != nil {
		t.Fatal(err)
	}
	drafted, none := 0, 0
	check := func(t rapid.TB, all [rows][]int32, wanted int) {
		texts, lens := make([]int32, rows*capacity), make([]int32, rows)
		for i, text := range all {
			copy(texts[i*capacity:], text)
			lens[i] = int32(len(text) - 1)
		}
		out, err := exec.Call(texts, lens, int32(wanted))
		if err != nil {
			t.Fatal(err)
		}
		tokens, matches := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1])
		for i := range wanted {
			got := tokens[i*d.Most:][:d.Most]
			want, wantMatches := d.draftsOf(all[i])
			if matches[i] != wantMatches || matches[i] > 0 && !slices.Equal(got, want) {
				t.Fatalf("behind %v: %v by %d tokens, want %v by %d", all[i], got, matches[i], want, wantMatches)
			}
			if matches[i] > 0 {
				drafted++
			} else {
				none++
			}
		}
	}
	check(t, [rows][]int32{slices.Repeat([]int32{0, 1, 2, 3}, 5), {0}, {3, 2, 1, 0}}, rows) // whatever is drawn below
	rapid.Check(t, func(t *rapid.T) {
		var texts [rows][]int32
		for i := range texts {
			texts[i] = rapid.SliceOfN(rapid.Int32Range(0, 3), 1, capacity).Draw(t, "text")
		}
		check(t, texts, rapid.IntRange(0, rows).Draw(t, "wanted"))
	})
	if drafted == 0 || none == 0 {
		t.Errorf("%d texts had drafts, %d had none", drafted, none)
	}
}
