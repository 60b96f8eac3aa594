package device

import (
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
)

// draftsOf is findDrafts in plain Go, of one text whose last token waits.
func (d Drafting) draftsOf(text []int32) []int32 {
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
		return nil
	}
	n := d.Most
	if d.Growing {
		n = min(n, 2*(best-shortestMatch)+1)
	}
	repeated := slices.Clone(text)
	for i := from + 1; len(repeated) < len(text)+n; i++ {
		repeated = append(repeated, repeated[i])
	}
	return repeated[from+1 : from+1+n]
}

// Drafts are what follows where most of a sequence's end stands before, in texts of few tokens that repeat.
func TestDraftsAreWhatFollowed(t *testing.T) {
	const rows, capacity = 3, 40
	for name, d := range map[string]Drafting{"growing": {Most: 7, Width: 8, Growing: true},
		"all": {Most: 5, Width: 8}} {
		t.Run(name, func(t *testing.T) {
			gr := &Graphs{Sizes: Sizes{Drafts: d}}
			exec, err := NewExec(testenv.XLA(t), func(texts, lens *Node) []*Node {
				found := gr.findDrafts(Reshape(texts, rows, capacity), lens)
				return []*Node{found.Tokens, found.Counts}
			})
			if err != nil {
				t.Fatal(err)
			}
			drafted, none := 0, 0
			rapid.Check(t, func(t *rapid.T) {
				texts, lens := make([]int32, rows*capacity), make([]int32, rows)
				var want [rows][]int32
				for i := range rows {
					text := rapid.SliceOfN(rapid.Int32Range(0, 3), 1, capacity).Draw(t, "text")
					copy(texts[i*capacity:], text)
					lens[i], want[i] = int32(len(text)-1), d.draftsOf(text)
				}
				out, err := exec.Call(texts, lens)
				if err != nil {
					t.Fatal(err)
				}
				tokens, counts := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1])
				for i := range rows {
					got := tokens[i*d.Most:][:counts[i]]
					if !slices.Equal(got, want[i]) {
						t.Fatalf("behind %v: %v, want %v", texts[i*capacity:][:lens[i]+1], got, want[i])
					}
					if len(got) > 0 {
						drafted++
					} else {
						none++
					}
				}
			})
			if drafted == 0 || none == 0 {
				t.Errorf("%d texts had drafts, %d had none", drafted, none)
			}
		})
	}
}
