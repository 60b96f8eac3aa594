// Package tally counts the rows, completions and tokens of a job. Everything that shows such figures uses it (the table
// and the report of a run, progress, metrics, notes of parts, units in a queue, the HTML page), so they mean the same
// everywhere.
package tally

import (
	"fmt"
	"strings"
)

// Counts are of a job, or of a part of it. These hold:
//
//	Completions = FinishReasons.Stop + FinishReasons.Length + FinishReasons.ToolCalls + FinishReasons.Unknown
//	the completions of the output = FinishReasons.Sum() = Completions + FinishReasons.Error
//
// What a job has come to is what earlier runs did and what this one did: the sum of the two, by [Counts.Plus].
type Counts struct {
	Rows             int64   `json:"rows"` // of the input, with all of their completions
	RowsWithErrors   int64   `json:"rows_with_errors"`
	Completions      int64   `json:"completions"`       // without errors
	PromptTokens     int64   `json:"prompt_tokens"`     // of each row once
	CompletionTokens int64   `json:"completion_tokens"` // of all completions
	FinishReasons    Reasons `json:"finish_reasons"`
}

// Reasons counts completions by why they ended.
type Reasons struct {
	Stop   int64 `json:"stop"`
	Length int64 `json:"length"`
	// ToolCalls are completions that stopped, and call tools.
	ToolCalls int64 `json:"tool_calls,omitempty"`
	Error     int64 `json:"error"` // each is a row of the output, with the error
	// Unknown are good completions of parts that were noted by a version which did not note reasons. Of such parts
	// Error has one for each row with errors.
	Unknown int64 `json:"unknown,omitempty"`
}

// Sum is the number of completions, those with errors included.
func (r Reasons) Sum() int64 { return r.Stop + r.Length + r.ToolCalls + r.Error + r.Unknown }

// Each calls f for the reasons that each output can have, in the order in which they are shown, and for the others if
// there are any.
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

// String lists the reasons that occur.
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

// Plus adds up.
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

// Minus takes away what was counted before.
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

// Noted returns counts that were read from a note: completions of an older note, which has no finish reasons, are
// unknown ones.
func (c Counts) Noted() Counts {
	r := &c.FinishReasons
	if missing := c.Completions - r.Stop - r.Length - r.ToolCalls - r.Unknown; missing > 0 {
		r.Unknown += missing
	}
	r.Error = max(r.Error, c.RowsWithErrors)
	return c
}

// Check says which of the rules of [Counts] does not hold; nil means none.
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
