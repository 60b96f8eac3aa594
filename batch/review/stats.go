package review

import (
	"context"
	"hash/maphash"
	"math"
	"slices"
	"strings"

	"github.com/quire/quire/promptset"
	"github.com/quire/quire/tally"
)

// Stats describes the completions of an output.
type Stats struct {
	tally.Counts
	PromptLengths     Spread `json:"prompt_lengths"`     // tokens, of rows that were run
	CompletionLengths Spread `json:"completion_lengths"` // tokens, of completions without errors
	// RepeatedTexts counts completions with the text of an earlier one of the same row.
	RepeatedTexts int64 `json:"repeated_texts"`
	// Distinct are the shares of different words, pairs and triples of words, of all there are: distinct-1 to
	// distinct-3 of Li et al. 2016, https://arxiv.org/abs/1510.03055. Words are what white space separates.
	// Only the first DistinctOf words are counted, at most 5 million.
	Distinct   [3]float64 `json:"distinct"`
	DistinctOf int64      `json:"distinct_of_words"`
	// Logprobs are of the mean log-probability of a completion's tokens; nil where the output has none.
	Logprobs *LogprobSpread `json:"mean_logprobs,omitempty"`
}

// Spread says how numbers are spread.
type Spread struct {
	Count  int64   `json:"count"`
	Mean   float64 `json:"mean"`
	Least  int     `json:"least"`
	P10    int     `json:"p10"`
	Median int     `json:"median"`
	P90    int     `json:"p90"`
	P99    int     `json:"p99"`
	Most   int     `json:"most"`
	Bins   []Bin   `json:"histogram"`
}

// Bin counts numbers from From up to To, both included.
type Bin struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Count int64 `json:"count"`
}

// LogprobSpread says how mean log-probabilities are spread.
type LogprobSpread struct {
	Mean   float64 `json:"mean"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
}

// statsBins is how many bins a histogram has at most.
const statsBins = 16

// StatsOf reads an output and describes it.
func StatsOf(ctx context.Context, out *promptset.Output) (*Stats, error) {
	s := &Stats{}
	var prompts, completions []int
	var logprobs []float64
	words := newVocabulary()
	none := func(*promptset.Completion) string { return "" }
	for row, err := range rows(ctx, out, none) {
		if err != nil {
			return nil, err
		}
		first := row.Completions[0]
		s.Row(first.PromptTokens, row.Failed())
		if first.Err == "" || first.CompletionTokens > 0 {
			prompts = append(prompts, first.PromptTokens)
		}
		texts := map[string]bool{}
		for _, c := range row.Completions {
			s.Completion(c.FinishReason, c.CompletionTokens, c.Err != "")
			if c.Err != "" {
				continue
			}
			completions = append(completions, c.CompletionTokens)
			if texts[c.Text] {
				s.RepeatedTexts++
			}
			texts[c.Text] = true
			words.add(c.Text)
			if n := len(c.Logprobs); n > 0 {
				sum := 0.0
				for _, l := range c.Logprobs {
					sum += float64(l)
				}
				logprobs = append(logprobs, sum/float64(n))
			}
		}
	}
	s.PromptLengths, s.CompletionLengths = spreadOf(prompts), spreadOf(completions)
	s.Distinct, s.DistinctOf = words.distinct(), words.total[0]
	if len(logprobs) > 0 {
		slices.Sort(logprobs)
		sum := 0.0
		for _, l := range logprobs {
			sum += l
		}
		s.Logprobs = &LogprobSpread{Mean: sum / float64(len(logprobs)), P10: quantile(logprobs, 0.1),
			Median: quantile(logprobs, 0.5), P90: quantile(logprobs, 0.9)}
	}
	return s, nil
}

// spreadOf sorts the numbers.
func spreadOf(numbers []int) Spread {
	s := Spread{Count: int64(len(numbers)), Bins: []Bin{}}
	if s.Count == 0 {
		return s
	}
	slices.Sort(numbers)
	sum := 0.0
	for _, n := range numbers {
		sum += float64(n)
	}
	s.Mean, s.Least, s.Most = sum/float64(len(numbers)), numbers[0], numbers[len(numbers)-1]
	s.P10, s.Median, s.P90, s.P99 = quantile(numbers, 0.1), quantile(numbers, 0.5), quantile(numbers, 0.9),
		quantile(numbers, 0.99)
	width := max(1, (s.Most-s.Least+statsBins)/statsBins)
	for from := s.Least; from <= s.Most; from += width {
		s.Bins = append(s.Bins, Bin{From: from, To: min(from+width-1, s.Most)})
	}
	for _, n := range numbers {
		s.Bins[(n-s.Least)/width].Count++
	}
	return s
}

// quantile is the least of sorted numbers that a share q of them does not exceed.
func quantile[N int | float64](sorted []N, q float64) N {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// vocabulary counts different runs of one, two and three words, by their hashes.
type vocabulary struct {
	seed  maphash.Seed
	seen  [3]map[uint64]struct{}
	total [3]int64
}

// maxWords bounds what a vocabulary takes in memory: about 600 MB.
const maxWords = 5_000_000

func newVocabulary() *vocabulary {
	v := &vocabulary{seed: maphash.MakeSeed()}
	for n := range v.seen {
		v.seen[n] = map[uint64]struct{}{}
	}
	return v
}

func (v *vocabulary) add(text string) {
	if v.total[0] >= maxWords {
		return
	}
	words := strings.Fields(text)
	for n := range v.seen {
		for i := 0; i+n < len(words); i++ {
			var h maphash.Hash
			h.SetSeed(v.seed)
			for _, word := range words[i : i+n+1] {
				h.WriteString(word)
				h.WriteByte(' ')
			}
			v.seen[n][h.Sum64()] = struct{}{}
			v.total[n]++
		}
	}
}

func (v *vocabulary) distinct() (shares [3]float64) {
	for n := range shares {
		if v.total[n] > 0 {
			shares[n] = float64(len(v.seen[n])) / float64(v.total[n])
		}
	}
	return shares
}
