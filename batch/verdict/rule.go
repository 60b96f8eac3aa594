package verdict

import (
	"math/big"

	"github.com/quire/quire/data/promptset/completion"
)

// Rule decides when a row has enough completions.
type Rule interface {
	// Decided returns how many of the completions decide the row, 0 if they don't. They are in order of generation,
	// from the first one on without a gap.
	Decided(results []completion.Result) int
	// Least returns how many more completions a row needs at least that has these, of any generations.
	Least(results []completion.Result) int
	// Conclude sets the judgments that depend on all completions of a row that is decided.
	Conclude(results []completion.Result)
}

// NewRule returns the rule of a row that gets at most so many completions.
func NewRule(s *Settings, most int) Rule {
	switch {
	case s.Until > 0:
		return until{s.Until, most}
	case s.Majority != 0:
		return majority{new(big.Rat).SetFloat64(s.Majority), most}
	}
	return complete{most}
}

// complete ends a row with its last completion.
type complete struct{ most int }

func (c complete) Decided(results []completion.Result) int {
	if len(results) < c.most {
		return 0
	}
	return c.most
}

func (c complete) Least(results []completion.Result) int { return c.most - len(results) }

func (complete) Conclude([]completion.Result) {}

// until ends a row with the completion of which so many are accepted, or the first one with an error: nobody knows
// whether that would be accepted.
type until struct{ accepted, most int }

func (u until) Decided(results []completion.Result) int {
	left := u.accepted
	for i := range results {
		if results[i].Judgment == completion.Accepted {
			left--
		}
		if left == 0 || results[i].Err != "" {
			return i + 1
		}
	}
	return complete{u.most}.Decided(results)
}

func (u until) Least(results []completion.Result) int {
	left := u.accepted
	for i := range results {
		if results[i].Judgment == completion.Accepted {
			left--
		}
	}
	return max(0, min(left, u.most-len(results)))
}

func (until) Conclude([]completion.Result) {}

// majority ends a row when the most frequent answer is the most likely one with a certainty, or with the first error.
type majority struct {
	certainty *big.Rat
	most      int
}

func (m majority) Decided(results []completion.Result) int {
	votes := map[string]int{}
	for i := range results {
		if results[i].Err != "" {
			return i + 1
		}
		if answer := results[i].Verdict; answer != "" {
			votes[answer]++
			if first, second := leaders(votes); m.certain(first, second) {
				return i + 1
			}
		}
	}
	return complete{m.most}.Decided(results)
}

func (m majority) Least(results []completion.Result) int {
	votes := map[string]int{}
	for i := range results {
		if answer := results[i].Verdict; answer != "" {
			votes[answer]++
		}
	}
	first, second := leaders(votes)
	more := 0
	for most := m.most - len(results); more < most && !m.certain(first+more, second); {
		more++
	}
	return more
}

// Conclude accepts the completions whose answer has the most votes. Of several such answers it is the one that came
// first.
func (m majority) Conclude(results []completion.Result) {
	votes := map[string]int{}
	for i := range results {
		votes[results[i].Verdict]++
	}
	winner := ""
	for i := range results {
		if answer := results[i].Verdict; answer != "" && (winner == "" || votes[answer] > votes[winner]) {
			winner = answer
		}
	}
	for i := range results {
		switch r := &results[i]; {
		case r.Err != "":
		case winner != "" && r.Verdict == winner:
			r.Judgment = completion.Accepted
		default:
			r.Judgment = completion.Rejected
		}
	}
}

// leaders returns how many votes the two most frequent answers have.
func leaders(votes map[string]int) (first, second int) {
	for _, n := range votes {
		if n > first {
			first, second = n, first
		} else {
			second = max(second, n)
		}
	}
	return first, second
}

// certain reports whether the answer with the most votes is, with the certainty, more likely than the next one: the
// Beta criterion of Aggarwal et al. 2023, https://arxiv.org/abs/2305.11860. With first and second votes, the share of
// the first has a Beta distribution, and it is above one half with the probability that of first+second+1 throws of a
// coin at most first show heads. The sum is exact: the end of a row must not depend on how a processor rounds.
func (m majority) certain(first, second int) bool {
	throws := int64(first + second + 1)
	sum, ways := new(big.Int), big.NewInt(1)
	for heads := int64(0); heads <= int64(first); heads++ {
		sum.Add(sum, ways)
		ways.Mul(ways, big.NewInt(throws-heads))
		ways.Quo(ways, big.NewInt(heads+1))
	}
	all := new(big.Int).Lsh(big.NewInt(1), uint(throws))
	return new(big.Rat).SetFrac(sum, all).Cmp(m.certainty) >= 0
}
