package review

import (
	"math"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// Judged describes the verdicts of a job that judges its completions.
type Judged struct {
	Accepted    int64 `json:"accepted"`
	Completions int64 `json:"completions"` // with a verdict
	// Prompts with verdicts, and of these the ones whose verdicts are all the same: they teach a policy nothing.
	Prompts     int64 `json:"prompts"`
	AllAccepted int64 `json:"all_accepted"`
	AllRejected int64 `json:"all_rejected"`
	// At is pass@k; none if completions vote.
	At []PassWithin `json:"at"`
}

// PassWithin is pass@k with the bounds of its 95 % interval.
type PassWithin struct {
	Pass
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// judgedCounts gathers the verdicts of rows.
type judgedCounts struct {
	total Judged
	votes bool // completions are judged by their majority
	// inOrder counts a row as passing k if one of its first k completions is accepted: a row may end with that one, so
	// that the shares of accepted completions of different rows can't be compared.
	inOrder bool
	rows    map[judgedRow]int64
}

// judgedRow is how many verdicts a row has, how many of them accept, and the number of the first one that does, from 1,
// or 0.
type judgedRow struct{ of, accepted, first int }

// newJudgedCounts gathers the verdicts of an output.
func newJudgedCounts(out *Output) *judgedCounts {
	c := &judgedCounts{inOrder: true, rows: map[judgedRow]int64{}}
	if out.running != nil {
		accept := spec.AcceptOf(out.running.job)
		c.votes, c.inOrder = accept.Majority != 0, accept.Stops()
	}
	return c
}

// verdictsOf counts the verdicts on the completions of a row.
func verdictsOf(completions []promptset.Result) (row judgedRow) {
	for i := range completions {
		if completions[i].Judgment == completion.Unjudged {
			continue
		}
		row.of++
		if completions[i].Judgment == completion.Accepted {
			row.accepted++
			if row.first == 0 {
				row.first = row.of
			}
		}
	}
	return row
}

func (c *judgedCounts) row(completions []promptset.Result) {
	row := verdictsOf(completions)
	if row.of == 0 {
		return
	}
	c.rows[row]++
	c.total.Prompts++
	c.total.Completions += int64(row.of)
	c.total.Accepted += int64(row.accepted)
	switch row.accepted {
	case 0:
		c.total.AllRejected++
	case row.of:
		c.total.AllAccepted++
	}
}

// result is nil without verdicts.
func (c *judgedCounts) result() *Judged {
	if c.total.Prompts == 0 {
		return nil
	}
	j := c.total
	j.At = []PassWithin{}
	most := 0
	for row := range c.rows {
		most = max(most, row.of)
	}
	for k := 1; k <= most && !c.votes; k *= 2 {
		j.At = append(j.At, c.passWithin(k))
	}
	return &j
}

// passWithin returns pass@k. Sums of whole numbers do not depend on the order of the rows.
func (c *judgedCounts) passWithin(k int) PassWithin {
	pass := Pass{K: k}
	sum := map[[2]int]int64{} // prompts by their verdicts
	for row, prompts := range c.rows {
		switch {
		case c.inOrder && row.first > 0 && row.first <= k:
			sum[[2]int{1, 1}] += prompts
		case c.inOrder && (row.first > k || row.of >= k):
			sum[[2]int{1, 0}] += prompts
		case !c.inOrder && row.of >= k:
			sum[[2]int{row.of, row.accepted}] += prompts
		}
	}
	for _, counts := range sortedCounts(sum) {
		each := k
		if c.inOrder {
			each = 1
		}
		pass.Prompts += sum[counts]
		pass.Share += passAt(counts[0], counts[1], each) * float64(sum[counts])
	}
	if pass.Prompts > 0 {
		pass.Share /= float64(pass.Prompts)
	}
	low, high := wilson(pass.Share, float64(pass.Prompts))
	return PassWithin{pass, low, high}
}

// wilson returns the 95 % interval of a share of n prompts. It is Wilson's for prompts that pass or do not; for chances
// between 0 and 1 it is wider than it need be.
func wilson(share, n float64) (low, high float64) {
	if n == 0 {
		return 0, 1
	}
	const z = 1.959964
	middle := (share + z*z/(2*n)) / (1 + z*z/n)
	half := z / (1 + z*z/n) * math.Sqrt(share*(1-share)/n+z*z/(4*n*n))
	return max(0, middle-half), min(1, middle+half)
}
