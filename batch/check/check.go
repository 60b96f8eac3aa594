// Package check reads all rows of a job without generating, and reports their errors, lengths and expected cost.
package check

import (
	"cmp"
	"context"
	"errors"
	"math"
	"regexp"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/conversation"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/config"
)

// Report has the totals of a job's rows before anything is generated.
type Report struct {
	Model          string           `json:"model"`
	Inputs         []jobstate.Input `json:"inputs"`
	Rows           int64            `json:"rows"`
	RowsWithErrors int64            `json:"rows_with_errors"`
	Errors         []KindOfErrors   `json:"errors"`    // the most frequent first
	Following      int64            `json:"following"` // rows that continue others, whose tokens are not counted
	Prompts        LengthsOfTokens  `json:"prompts"`
	// Adapters counts the prompts of each adapter, by its name.
	Adapters map[string]int64 `json:"adapters,omitempty"`
	// SharedPrefix is how many tokens all prompts begin with.
	SharedPrefix int   `json:"shared_prefix_tokens"`
	Completions  int64 `json:"completions"`
	// Task is the job's. With others than generate, Completions are its results, such as vectors, and Truncated are
	// those of the beginning of a prompt.
	Task      completion.Task `json:"task,omitempty"`
	Truncated int64           `json:"truncated,omitempty"`
	// CompletionTokens is what completions have that all end at their limits. No completion is longer.
	CompletionTokens int64 `json:"completion_tokens_at_most"`
	MaxModelLen      int   `json:"max_model_len"`
	// KVBytesPerToken is what a token takes in the cache on all devices together. Longest and mean sequence are of
	// prompts with completions that end at their limits.
	KVBytesPerToken int64   `json:"kv_bytes_per_token"`
	LongestSequence int     `json:"longest_sequence_tokens"`
	MeanSequence    float64 `json:"mean_sequence_tokens"`
	// TokensPerSecond is the rate that was given, else the rate of the earlier job; 0 if neither is known.
	TokensPerSecond  float64 `json:"tokens_per_second,omitempty"`
	SecondsOfDrawing float64 `json:"seconds_at_most,omitempty"` // CompletionTokens at that rate
	// Expected is an estimate of the job's completions, if they are like the completions of an earlier job; nil without
	// one.
	Expected *Expectation `json:"expected,omitempty"`
	// Reused is how completions would come to be, if the job copies from other outputs; nil if it does not.
	Reused *Reused `json:"reused,omitempty"`
}

// KindOfErrors are errors of rows that differ by numbers and quoted texts only.
type KindOfErrors struct {
	Kind     string         `json:"kind"`
	Rows     int64          `json:"rows"`
	Examples []setting.Text `json:"examples"` // the first few, with file and row
	First    error          `json:"-"`        // what is wrong with the first row
}

// LengthsOfTokens are lengths of sequences, in tokens.
type LengthsOfTokens struct {
	Count     int64          `json:"count"`
	Tokens    int64          `json:"tokens"`
	Min       int            `json:"min"`
	Median    int            `json:"p50"`
	P90       int            `json:"p90"`
	P99       int            `json:"p99"`
	Max       int            `json:"max"`
	Histogram []BucketTokens `json:"histogram"`
}

// BucketTokens are the lengths From to To, both included.
type BucketTokens struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Count int64 `json:"count"`
}

// lengthsOf sorts lengths.
func lengthsOf(all []int32) (l LengthsOfTokens) {
	if len(all) == 0 {
		return l
	}
	slices.Sort(all)
	quantile := func(share float64) int { return int(all[max(int(math.Ceil(share*float64(len(all))))-1, 0)]) }
	l = LengthsOfTokens{Count: int64(len(all)), Min: quantile(0), Median: quantile(0.5),
		P90: quantile(0.9), P99: quantile(0.99), Max: quantile(1)}
	for _, n := range all {
		l.Tokens += int64(n)
		for len(l.Histogram) == 0 || int(n) > l.Histogram[len(l.Histogram)-1].To { // powers of two
			next := BucketTokens{To: 1}
			if k := len(l.Histogram); k > 0 {
				next = BucketTokens{From: l.Histogram[k-1].To + 1, To: 2 * l.Histogram[k-1].To}
			}
			l.Histogram = append(l.Histogram, next)
		}
		l.Histogram[len(l.Histogram)-1].Count++
	}
	l.Histogram = slices.DeleteFunc(l.Histogram, func(b BucketTokens) bool { return b.To < l.Min })
	return l
}

// Run is [Task.Check] once the job is open.
func Run(ctx context.Context, p *process.Process, opened *prepare.Opened, tokensPerSecond float64,
	like *Earlier) (*Report,
	error) {
	j := opened.Job
	if err := prepare.CheckCommands(j); err != nil {
		return nil, err
	}
	p = p.ForText()
	s, err := p.Models.OpenSession(ctx, j, p)
	if err != nil {
		return nil, err
	}
	defer s.Release()
	report := &Report{Model: j.Model, Task: j.Task, Inputs: spec.InputsOf(opened.Reader),
		TokensPerSecond: tokensPerSecond}
	if like != nil {
		report.Expected = &Expectation{Like: *like}
		report.TokensPerSecond = cmp.Or(tokensPerSecond, like.TokensPerSecond)
	}
	if s.Sampler == nil {
		s.Sampler = process.NoEngine(planWithoutEngine(j, s, opened.Model.DType))
	}
	report.MaxModelLen, report.KVBytesPerToken = s.Plan().MaxModelLen, s.Plan().KVBytesPerToken
	if err := conversation.Check(j, s.Template); err != nil {
		return nil, err
	}
	c := &rowsCheck{report: report, tools: j.Tools, kinds: map[string]*KindOfErrors{}, seen: like.seen(),
		check:   s.Check,
		builder: process.NewBuilder(j, s)}
	if c.lineage, err = opened.Lineage(ctx); err != nil {
		return nil, err
	}
	if c.reuse, err = newReuseCheck(ctx, p, opened, s, c.builder, report.MaxModelLen); err != nil {
		return nil, err
	}
	prepare.WarnAboutInput(ctx, p, opened)
	for row := range opened.Reader.Range(ctx, 0, opened.Parts.Rows) {
		c.add(row)
	}
	if err := opened.Reader.Err(); err != nil {
		return nil, err
	}
	c.finish()
	if copies(p) {
		report.Reused = &c.reuse.Reused
	}
	if report.RowsWithErrors > 0 {
		return report, outcome.Errorf(outcome.Partial, "%d of %d rows have errors", report.RowsWithErrors, report.Rows)
	}
	return report, nil
}

// planWithoutEngine is what is known of the engine's plan by the model's config.
func planWithoutEngine(j *spec.Job, s *process.Session, own dtypes.DType) engine.Plan {
	cfg := j.EngineConfig()
	kv := cmp.Or(cfg.KVDType, cfg.DType, own, dtypes.Float32)
	return engine.Plan{MaxModelLen: cmp.Or(j.Engine.MaxModelLen, s.Config.MaxPositions),
		KVBytesPerToken: config.KVBytesPerToken(s.Config, kv)}
}

// rowsCheck adds up the totals of rows.
type rowsCheck struct {
	report  *Report
	builder *ask.Builder
	reuse   *reuseCheck
	tools   tools.Settings
	check   func(*engine.Request) error // the engine's, nil if it is not known
	lineage *lineage.Graph              // nil if no row continues another one
	kinds   map[string]*KindOfErrors
	lengths []int32      // of prompts
	tokens  int64        // tokens of sequences that end at their limits
	seen    *seenLengths // completion lengths of an earlier job; nil without one
	prompts int64        // tokens, of each completion's prompt
}

// add takes the next row.
func (c *rowsCheck) add(row *promptset.Row) {
	r := c.report
	r.Rows++
	var parent *lineage.Parent
	if row.Err == nil && row.Parent.ID != "" {
		if r.Following++; row.Kind == promptset.KindNone {
			parent = unknownParent
		}
	}
	requests, err := c.requests(row, parent)
	if err != nil {
		c.fail(row, err)
		return
	}
	if parent != nil {
		r.Completions += int64(c.builder.Parameters(row).N)
		return
	}
	for _, q := range requests {
		if q.Truncated {
			r.Truncated++
		}
		if r.Task == completion.Generate { // equal vectors are no mistake
			c.reuse.add(row, q)
		}
		if q.Adapter != "" {
			if r.Adapters == nil {
				r.Adapters = map[string]int64{}
			}
			r.Adapters[q.Adapter]++
		}
		prompt := q.PromptTokens()
		length := prompt + q.MaxTokens
		if c.tools.Used() {
			length += (c.tools.Turns() - 1) * q.MaxTokens
		}
		if r.MaxModelLen > 0 {
			length = min(length, r.MaxModelLen)
		}
		c.lengths = append(c.lengths, int32(prompt))
		c.tokens += int64(q.N) * int64(length)
		if c.seen != nil {
			c.prompts += int64(q.N) * int64(prompt)
			r.Expected.CompletionTokens += float64(q.N) * c.seen.upTo(length-prompt)
		}
		r.Completions += int64(q.N)
		r.CompletionTokens += int64(q.N) * int64(length-prompt)
		r.LongestSequence = max(r.LongestSequence, length)
	}
}

// unknownParent stands for a parent whose tokens are not known before it is generated.
var unknownParent = &lineage.Parent{Prompt: []int32{0}, Results: []completion.Result{{}}}

// requests returns the requests of a row, or what a run finds wrong with it.
func (c *rowsCheck) requests(row *promptset.Row, parent *lineage.Parent) ([]*engine.Request, error) {
	if c.lineage != nil && row.Err == nil {
		if _, err := c.lineage.Parent(row); err != nil {
			return nil, err
		}
	}
	if c.tools.Used() && row.Err == nil {
		if err := conversation.CheckRow(row); err != nil {
			return nil, err
		}
	}
	if parent != nil {
		whole := *row
		whole.Parent.Generation, whole.Parent.Length = nil, nil
		row = &whole
	}
	requests, err := c.builder.Requests(row, parent)
	for _, q := range requests {
		if err == nil && c.check != nil {
			err = c.check(q)
		}
	}
	return requests, err
}

// particular is what errors of a kind differ by.
var particular = regexp.MustCompile(`"[^"]*"|\d+(\.\d+)?`)

// KindOf returns what errors of a kind have in common with this one.
func KindOf(what string) string {
	return particular.ReplaceAllStringFunc(what, func(s string) string {
		if s[0] == '"' {
			return `"..."`
		}
		return "N"
	})
}

// fail adds a row that has an error.
func (c *rowsCheck) fail(row *promptset.Row, err error) {
	c.report.RowsWithErrors++
	what := err
	if rowErr, isRowErr := err.(*promptset.RowError); isRowErr {
		if what = rowErr.Err; what == nil {
			what = errors.New(rowErr.What)
		}
	}
	kind := KindOf(what.Error())
	k := c.kinds[kind]
	if k == nil {
		k = &KindOfErrors{Kind: kind, First: what}
		c.kinds[kind] = k
	}
	if k.Rows++; len(k.Examples) < outcome.ErrorExamples {
		k.Examples = append(k.Examples, setting.Textf("%v", outcome.RowError(row, err)))
	}
}

func (c *rowsCheck) finish() {
	r := c.report
	r.Errors = []KindOfErrors{}
	for _, k := range c.kinds {
		r.Errors = append(r.Errors, *k)
	}
	slices.SortFunc(r.Errors, func(a, b KindOfErrors) int {
		return cmp.Or(cmp.Compare(b.Rows, a.Rows), cmp.Compare(a.Kind, b.Kind))
	})
	if r.Prompts = lengthsOf(c.lengths); len(c.lengths) > 1 {
		r.SharedPrefix = len(c.builder.Common.Tokens)
	}
	if r.Completions > 0 {
		r.MeanSequence = float64(c.tokens) / float64(r.Completions)
	}
	if r.TokensPerSecond > 0 {
		r.SecondsOfDrawing = float64(r.CompletionTokens) / r.TokensPerSecond
	}
	if r.TokensPerSecond > 0 && r.Task.Encodes() {
		r.SecondsOfDrawing = float64(r.Prompts.Tokens) / r.TokensPerSecond
	}
	if e := r.Expected; e != nil {
		if r.Completions > 0 {
			e.MeanSequence = (float64(c.prompts) + e.CompletionTokens) / float64(r.Completions)
		}
		if r.TokensPerSecond > 0 {
			e.Seconds = e.CompletionTokens / r.TokensPerSecond
		}
	}
}
