// Package tally counts the rows, completions and tokens of a job. Everything that shows such figures uses it (the table
// and the report of a run, progress, metrics, notes of parts, units in a queue, the HTML page), so they mean the same
// everywhere.
package tally

import (
	"fmt"
	"strings"
)

// Counts are the figures of a job or of a part. These equations hold:
//
//	Completions = FinishReasons.Stop + FinishReasons.Length + FinishReasons.ToolCalls + FinishReasons.Unknown
//	the completions of the output = FinishReasons.Sum() = Completions + FinishReasons.Error
//
// The total of a job is the sum of what earlier runs did and what this run did: see [Counts.Plus].
type Counts struct {
	Rows             int64   `json:"rows"` // input rows whose completions are all done
	RowsWithErrors   int64   `json:"rows_with_errors"`
	Completions      int64   `json:"completions"`       // completions without errors
	PromptTokens     int64   `json:"prompt_tokens"`     // each row's prompt counts once
	CompletionTokens int64   `json:"completion_tokens"` // tokens of all completions
	FinishReasons    Reasons `json:"finish_reasons"`
}

// Reasons counts completions by why they ended.
type Reasons struct {
	Stop   int64 `json:"stop"`
	Length int64 `json:"length"`
	// ToolCalls counts completions that stopped and call tools.
	ToolCalls int64 `json:"tool_calls,omitempty"`
	Error     int64 `json:"error"` // each is a row of the output, with the error
	// Unknown counts good completions of parts noted by a version that did not record reasons. For such parts, Error
	// counts one for each row with errors.
	Unknown int64 `json:"unknown,omitempty"`
}

// Sum returns the number of completions, including failed ones.
func (r Reasons) Sum() int64 { return r.Stop + r.Length + r.ToolCalls + r.Error + r.Unknown }

// Each calls f for the reasons that every output can have, in display order, and then for the others if they occur.
func (r Reasons) Each(f func(reason string, n int64)) {
	f("error", r.Error)
	f("length", r.Length)
	f("stop", r.Stop)
	if r.ToolCalls != 0 {
		f("tool_calls", r.ToolCalls)
	}
	if r.Unknown != 0 {
		f("unknown", r.Unknown)
	}
}

// String lists the reasons that occur with their counts.
func (r Reasons) String() string {
	var parts []string
	r.Each(func(reason string, n int64) {
		switch {
		case n == 0:
		case reason == "unknown":
			parts = append(parts, fmt.Sprintf("%d not known, of parts by an older version", n))
		default:
			parts = append(parts, fmt.Sprintf("%d %s", n, reason))
		}
	})
	if len(parts) == 0 {
		return "none"
	}
	return strings.Join(parts, ", ")
}

// Completion counts a completion by its finish reason.
func (c *Counts) Completion(reason string, tokens int, failed bool) {
	c.CompletionTokens += int64(tokens)
	r := &c.FinishReasons
	switch {
	case failed:
		r.Error++
		return
	case reason == "stop":
		r.Stop++
	case reason == "length":
		r.Length++
	case reason == "tool_calls":
		r.ToolCalls++
	default:
		r.Unknown++
	}
	c.Completions++
}

// Row counts a row whose completions have all been counted.
func (c *Counts) Row(promptTokens int, failed bool) {
	c.Rows++
	c.PromptTokens += int64(promptTokens)
	if failed {
		c.RowsWithErrors++
	}
}

// Plus returns the sum of the counts.
func (c Counts) Plus(d Counts) Counts {
	return Counts{
		Rows: c.Rows + d.Rows, RowsWithErrors: c.RowsWithErrors + d.RowsWithErrors, Completions: c.Completions +
			d.Completions,
		PromptTokens: c.PromptTokens + d.PromptTokens, CompletionTokens: c.CompletionTokens + d.CompletionTokens,
		FinishReasons: Reasons{
			Stop: c.FinishReasons.Stop + d.FinishReasons.Stop, Length: c.FinishReasons.Length + d.FinishReasons.Length,
			ToolCalls: c.FinishReasons.ToolCalls + d.FinishReasons.ToolCalls,
			Error:     c.FinishReasons.Error + d.FinishReasons.Error, Unknown: c.FinishReasons.Unknown +
				d.FinishReasons.Unknown,
		},
	}
}

// Minus returns the counts without d, which was counted before.
func (c Counts) Minus(d Counts) Counts {
	return c.Plus(Counts{
		Rows: -d.Rows, RowsWithErrors: -d.RowsWithErrors, Completions: -d.Completions, PromptTokens: -d.PromptTokens,
		CompletionTokens: -d.CompletionTokens,
		FinishReasons: Reasons{
			Stop: -d.FinishReasons.Stop, Length: -d.FinishReasons.Length, Error: -d.FinishReasons.Error,
			ToolCalls: -d.FinishReasons.ToolCalls, Unknown: -d.FinishReasons.Unknown,
		},
	})
}

// Noted returns the counts that were read from a note. Completions of an older note without finish reasons become
// Unknown.
func (c Counts) Noted() Counts {
	r := &c.FinishReasons
	if missing := c.Completions - r.Stop - r.Length - r.ToolCalls - r.Unknown; missing > 0 {
		r.Unknown += missing
	}
	r.Error = max(r.Error, c.RowsWithErrors)
	return c
}

// Check returns an error that names the equation of [Counts] that does not hold; nil if all hold.
func (c Counts) Check() error {
	r := c.FinishReasons
	if good := r.Stop + r.Length + r.ToolCalls + r.Unknown; good != c.Completions {
		return fmt.Errorf("%d completions without error, but finish reasons of %d: %+v", c.Completions, good, c)
	}
	if r.Error < c.RowsWithErrors || c.Rows < c.RowsWithErrors {
		return fmt.Errorf("%d rows with errors of %d, and %d completions with errors: %+v", c.RowsWithErrors, c.Rows,
			r.Error, c)
	}
	return nil
}
