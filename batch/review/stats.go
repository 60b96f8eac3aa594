package review

import (
	"context"
	"errors"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/tally"
)

// Stats describes the completions of an output.
type Stats struct {
	tally.Counts
	Partial           *Progress         `json:"partial,omitempty"` // progress of an unfinished job
	Errors            []tally.ErrorKind `json:"errors"`
	PromptLengths     Spread            `json:"prompt_lengths"`     // tokens, of rows that were run
	CompletionLengths Spread            `json:"completion_lengths"` // tokens, of completions without errors
	Duplicates        Duplicates        `json:"duplicates"`
	Distinct          Distinct          `json:"distinct"`
	// Logprobs are log-probabilities of tokens, MeanLogprobs their means over completions; nil if there are none.
	Logprobs     *Quantiles `json:"logprobs,omitempty"`
	MeanLogprobs *Quantiles `json:"mean_logprobs,omitempty"`
	PassAtK      *PassAtK   `json:"pass_at_k,omitempty"` // nil without verdicts
	Judged       *Judged    `json:"judged,omitempty"`    // nil if the job did not judge completions
	Vectors      *Vectors   `json:"vectors,omitempty"`   // nil if the output has completions
	// Weights counts the completions and tokens of each version of the weights; empty without such columns.
	Weights completion.Versions `json:"weights,omitempty"`
}

// Vectors describes the vectors of an output.
type Vectors struct {
	Count     int64 `json:"count"`
	Numbers   int   `json:"numbers"` // of each
	Truncated int64 `json:"truncated"`
	// Labels counts the results by their labels, if these are classes, and Documents those that have scores.
	Labels    map[string]int64 `json:"labels,omitempty"`
	Documents int64            `json:"documents,omitempty"`
}

func (v *Vectors) add(c *promptset.Result) *Vectors {
	if !c.IsEncoded() {
		return v
	}
	if v == nil {
		v = &Vectors{}
	}
	if n := len(c.Vectors); n > 0 {
		v.Count += int64(n)
		v.Numbers = len(c.Vectors[0])
	} else {
		v.Count++
		v.Numbers = len(c.Vector)
	}
	if c.Label != "" {
		if v.Labels == nil {
			v.Labels = map[string]int64{}
		}
		v.Labels[c.Label]++
	}
	if c.Ranking != nil {
		v.Documents += int64(len(c.Vector))
	}
	if c.Truncated {
		v.Truncated++
	}
	return v
}

// Duplicates counts texts that a row has more than once. Completions with errors do not count.
type Duplicates struct {
	Of          int64   `json:"of"`          // completions of rows that have several
	Completions int64   `json:"completions"` // completions with the text of another completion of the row
	Repeated    int64   `json:"repeated"`    // completions with the text of an earlier one
	Rows        int64   `json:"rows"`        // rows with several completions
	RowsOfOne   int64   `json:"rows_of_one"` // rows whose completions all have one text
	Share       float64 `json:"share"`       // Completions / Of
}

func (d *Duplicates) row(completions []promptset.Result) {
	var total, equal, most int64
	texts := map[string]int64{}
	for i := range completions {
		if c := &completions[i]; c.Err == "" {
			total++
			texts[c.Text]++
		}
	}
	if total < 2 {
		return
	}
	for _, n := range texts {
		if n > 1 {
			equal += n
		}
		most = max(most, n)
	}
	d.Of += total
	d.Completions += equal
	d.Repeated += total - int64(len(texts))
	d.Rows++
	if most == total {
		d.RowsOfOne++
	}
	d.Share = float64(d.Completions) / float64(d.Of)
}

// StatsOf reads an output and describes it. verdicts may be nil. It holds a count of each length, digests of different
// n-grams up to a bound, sketches of quantiles, and verdicts that are not in the order of the output.
func StatsOf(ctx context.Context, out *Output, verdicts *Verdicts) (*Stats, error) {
	s := &Stats{Partial: out.Progress(), Weights: completion.Versions{}}
	var prompts, completions lengths
	var kinds tally.ErrorKinds
	ngrams := newNgrams()
	logprobs, means := newSketch(), newSketch()
	judged := newJudgedCounts(out)
	none := func(*promptset.Completion) string { return "" }
	for row, err := range rows(ctx, out, none) {
		if err != nil {
			return nil, err
		}
		first := row.Completions[0]
		s.Row(first.PromptTokens, row.Failed())
		if first.Err == "" || first.CompletionTokens > 0 {
			prompts.add(first.PromptTokens)
		}
		if s.Vectors == nil {
			s.Duplicates.row(row.Completions)
		}
		judged.row(row.Completions)
		for i := range row.Completions {
			c := &row.Completions[i]
			s.Completion(c.FinishReason, c.CompletionTokens, c.Err != "")
			if c.Err != "" {
				kinds.Add(c.Err, row.ID)
				continue
			}
			if s.Vectors = s.Vectors.add(c); s.Vectors != nil {
				continue
			}
			completions.add(c.CompletionTokens)
			s.Weights.Add(c)
			ngrams.add(c)
			means.mean(c.Logprobs, logprobs)
		}
		if err := verdicts.row(row); err != nil {
			return nil, err
		}
	}
	s.Errors = kinds.All()
	s.PromptLengths, s.CompletionLengths = prompts.spread(), completions.spread()
	s.Distinct = ngrams.distinct()
	s.Logprobs, s.MeanLogprobs = logprobs.quantiles(), means.quantiles()
	s.Judged = judged.result()
	var err error
	s.PassAtK, err = verdicts.result()
	return s, errors.Join(err, verdicts.Close())
}
