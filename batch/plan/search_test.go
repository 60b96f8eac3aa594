package plan

import (
	"testing"

	"pgregory.net/rapid"
)

// The search finds the largest count within its tolerance, whatever the compiler's overhead, its rounding and its
// silence.
func TestPageSearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		page := rapid.Int64Range(1, 1<<22).Draw(t, "page")
		atMost := rapid.IntRange(1, 200_000).Draw(t, "at most")
		atLeast := rapid.IntRange(1, atMost).Draw(t, "at least")
		largest := rapid.IntRange(0, atMost+1000).Draw(t, "largest that fits")
		fixed := rapid.Int64Range(0, 1<<34).Draw(t, "fixed")
		perPage := page + rapid.Int64Range(0, page).Draw(t, "overhead of a page")
		available := fixed + int64(largest)*perPage + rapid.Int64Range(0, perPage-1).Draw(t, "rest")
		silent := rapid.Bool().Draw(t, "silent failures")
		guess := rapid.IntRange(0, 2*atMost).Draw(t, "guess")
		s := pageSearch{atLeast: atLeast, atMost: atMost, pageBytes: page, available: available, maxTrials: 64,
			try: func(pages int) (Trial, error) {
				if pages < atLeast || pages > atMost {
					t.Fatalf("%d pages are tried, of use are %d to %d", pages, atLeast, atMost)
				}
				got := Trial{Pages: pages, Fits: pages <= largest, Bytes: fixed + int64(pages)*perPage}
				if silent && !got.Fits {
					got.Bytes = 0
				}
				return got, nil
			}}
		best, trials, err := s.run(guess)
		if err != nil {
			t.Fatal(err)
		}
		if !s.complete(best, trials) {
			t.Fatalf("the search ended with %d pages, but is not complete: %v", best, trials)
		}
		if len(trials) > 1 && s.complete(0, trials[:1]) && best > 0 {
			t.Fatalf("a search of one trial is complete: %v", trials)
		}
		want := min(largest, atMost)
		switch {
		case want < atLeast:
			if best != 0 {
				t.Fatalf("%d pages are found, nothing fits", best)
			}
		case best > want || best < want-s.slack(best):
			t.Fatalf("%d pages are found, %d fit; tried %v", best, want, trials)
		}
		if !silent && len(trials) > 5 {
			t.Fatalf("%d trials, though the bytes tell it: %v", len(trials), trials)
		}
	})
}
