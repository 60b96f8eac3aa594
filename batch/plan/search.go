package plan

import "fmt"

// Trial is one compilation of the search for the most pages.
type Trial struct {
	Pages int `json:"pages"`
	// Bytes is what the program needs in all, or what the compiler reported that it would need; 0 if it reported
	// nothing.
	Bytes   int64   `json:"bytes"`
	Fits    bool    `json:"fits"`
	Seconds float64 `json:"seconds"`
}

// pageSearch looks for the most pages with which a program compiles and fits.
type pageSearch struct {
	atLeast, atMost int   // pages that are useful
	pageBytes       int64 // bytes of a page in all layers
	available       int64 // bytes of the device
	maxTrials       int
	try             func(pages int) (Trial, error)
}

// The largest count is searched to within 1/tolerance of the pages, or of pages that take 1/memoryTolerance of the
// device's memory: a compiler reports early that a program is too large by that much, and late that it is too large by
// less.
const (
	tolerance       = 128
	memoryTolerance = 512
)

// slack is how many pages more than n are not searched for.
func (s pageSearch) slack(n int) int {
	return max(1, n/tolerance, int(s.available/memoryTolerance/s.pageBytes))
}

// complete reports whether what run found is the largest count, to within the tolerance, or that there is none; else
// the trials were too few.
func (s pageSearch) complete(best int, trials []Trial) bool {
	fails := s.atMost + 1
	for _, t := range trials {
		if !t.Fits {
			fails = min(fails, t.Pages)
		}
	}
	if best == 0 {
		return fails <= s.atLeast
	}
	return fails-best <= s.slack(best)
}

// run returns the largest count found to fit, 0 if there is none, and all trials. Each trial compiles, so there should
// be few. The next count is the one at which the last trial's bytes predict that the memory ends, or halfway if they
// predict none. The search ends when a count fits and a count that is larger by at most the slack does not.
func (s pageSearch) run(guess int) (best int, trials []Trial, err error) {
	fits, fails := s.atLeast-1, s.atMost+1
	perPage, last := s.pageBytes, Trial{} // what a page was seen to take: layouts may pad it
	for len(trials) < s.maxTrials && fails-fits > 1 && (best == 0 || fails-fits > s.slack(best)) {
		guess = min(max(guess, fits+1), fails-1)
		t, err := s.try(guess)
		if err != nil {
			return 0, trials, err
		}
		trials = append(trials, t)
		halfway := func() int { return fits + (fails-fits)/2 }
		if t.Bytes > 0 && last.Bytes > 0 && t.Pages != last.Pages {
			perPage = max(s.pageBytes, (t.Bytes-last.Bytes)/int64(t.Pages-last.Pages))
		}
		last = t
		room := int((s.available - t.Bytes) / perPage) // pages beyond this count, less than 0 if it has too many
		switch {
		case t.Fits:
			fits, best = guess, guess
			guess += max(room, s.slack(guess))
			if guess >= fails {
				guess = max(halfway(), fails-s.slack(best))
			}
		case t.Bytes > 0 && room <= 0:
			fails = guess
			// The compiler's bytes of what does not fit are rounded, and without its code.
			if guess += room - 1 - max(guess/(4*tolerance), s.slack(1)/2); guess <= fits && best > 0 {
				guess = halfway()
			}
		default:
			fails = guess
			guess = halfway()
		}
	}
	return best, trials, nil
}

func (t Trial) String() string {
	verdict := "does not fit"
	if t.Fits {
		verdict = "fits"
	}
	return fmt.Sprintf("%d pages %s", t.Pages, verdict)
}
