package generate

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset/completion"
)

// judgedRow is what is known of a row whose completions are judged. The collector's lock protects it.
type judgedRow struct {
	rule        verdict.Rule
	first, most int                 // generations first to first+most-1
	known       []completion.Result // judged, or failed; in order of generation
	origins     map[int]uint8       // of generations that this process generated or copied: see package reuse
	asked       map[int]bool        // generations that the engine was asked for and has not given
	follows     map[int]bool        // generations that wait for equal ones under way
	waiting     map[int]bool        // generations that wait for a verdict
	kept        int                 // of known, those that the row has for sure
	least       int                 // how many it needed at least when it started
	risk        float64             // how many of those ahead are expected to be in vain
	nextRisk    float64             // the same of one more
	ahead       int                 // how many more than the row needs at least may be asked for
	queued      bool                // in waves.wanting
}

// lacksVerdict reports whether a completion is yet to be judged.
func lacksVerdict(r *completion.Result) bool {
	return r.Err == "" && r.Judgment == completion.Unjudged && r.Verdict == ""
}

// decidedBy reports whether a row is decided by completions from before.
func (j *judgedRow) decidedBy(done []completion.Result) bool {
	if slices.ContainsFunc(done, func(r completion.Result) bool { return lacksVerdict(&r) }) {
		return false
	}
	row := judgedRow{first: j.first}
	for i := range done {
		row.insert(&done[i], reuse.Kept)
	}
	return j.rule.Decided(row.prefix()) > 0
}

// insert adds a completion that is judged, or has an error, with how it came to be.
func (j *judgedRow) insert(r *completion.Result, origin uint8) {
	i, there := slices.BinarySearchFunc(j.known, r.Generation,
		func(k completion.Result, generation int) int { return cmp.Compare(k.Generation, generation) })
	if !there {
		j.known = slices.Insert(j.known, i, *r)
	}
	if origin != reuse.Kept {
		j.origins[r.Generation] = origin
	}
}

// prefix returns the known completions from the first generation up to the first gap.
func (j *judgedRow) prefix() []completion.Result {
	n := 0
	for n < len(j.known) && j.known[n].Generation == j.first+n {
		n++
	}
	return j.known[:n]
}

// missing returns how many generations the row is yet to ask for: those that may decide it, and all before a known one.
// An engine that failed may have left out some of the latter.
func (j *judgedRow) missing() int {
	under := j.underWay()
	return min(max(j.rule.Least(j.known)+j.ahead-under, j.gaps()), j.most-len(j.known)-under)
}

// underWay is how many generations are on their way to be known.
func (j *judgedRow) underWay() int { return len(j.asked) + len(j.follows) + len(j.waiting) }

// gaps counts the generations before the last known one that are neither known nor on their way.
func (j *judgedRow) gaps() int {
	if len(j.known) == 0 {
		return 0
	}
	last := j.known[len(j.known)-1].Generation
	gaps := last + 1 - j.first - len(j.known)
	for _, some := range []map[int]bool{j.asked, j.follows, j.waiting} {
		for g := range some {
			if g < last {
				gaps--
			}
		}
	}
	return gaps
}
