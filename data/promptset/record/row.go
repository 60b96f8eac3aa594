// Package record defines the rows of the input, for all file formats. A [Builder] sets a row from its file, by the
// names of columns or by a [Mapping], and records the first fault that it finds.
package record

import (
	"github.com/quire/quire/data/parameter"
	"strconv"
	"strings"
)

// Kind is the form in which a row gives its prompt.
type Kind int

// The forms of a prompt.
const (
	KindNone     Kind = iota // no usable prompt, Row.Err states why; or none in addition to Row.Parent's
	KindText                 // Row.Prompt
	KindMessages             // Row.Messages
	KindTokens               // Row.TokenIDs
)

// String returns the name of the input column that gives a prompt of this kind.
func (k Kind) String() string {
	switch k {
	case KindText:
		return "prompt"
	case KindMessages:
		return "messages"
	case KindTokens:
		return "prompt_token_ids"
	}
	return "none"
}

// Row is one prompt. A Row stays valid after the iteration that yielded it.
type Row struct {
	Index   int64  // number among all rows of the job, from 0, in the order of the files
	File    string // the file it comes from
	FileRow int64  // number in that file, from 0
	Line    int64  // its line in a JSONL file, from 1; 0 in a Parquet file
	// ID is the id column as text, else Index in decimal; ids may repeat. It is empty only if the id cannot be read,
	// which Err reports.
	ID        string
	Kind      Kind
	Prompt    string
	Messages  []Message
	TokenIDs  []int32
	More      []Prompt // prompts after the first, if a line of a batch file has several
	Seconds   []string // texts that each make a pair with the prompt; nil if it stands alone
	Overrides Overrides
	Parent    Parent
	Err       error // a *RowError if the row cannot be used; its prompt and overrides are then meaningless

	// Source has the row's own columns, for the writer; nil if they could not be read.
	Source Source
	// LostID reports that the row may have an id, which cannot be read.
	LostID  bool
	givenID bool
	aliases []alias // the names under which it gives parameters
	doubts  []doubt // values that are rejected only with certain other parameters
}

// Prompt is one of several prompts of a row: text, or token ids.
type Prompt struct {
	Text     string
	TokenIDs []int32
}

// Each returns the row once for each of its prompts, with that prompt alone.
func (r *Row) Each() []*Row {
	all := []*Row{r}
	if len(r.More) == 0 {
		return all
	}
	first := *r
	first.More = nil
	all[0] = &first
	for _, p := range r.More {
		one := first
		one.Prompt, one.TokenIDs = p.Text, p.TokenIDs
		all = append(all, &one)
	}
	return all
}

// HasID reports whether the row gave its id, which other rows may also give.
func (r *Row) HasID() bool { return r.givenID }

// IsCalled reports whether an output may have the row under this id. Older versions used the row's number if its id
// cannot be read.
func (r *Row) IsCalled(id string) bool {
	return id == strings.ToValidUTF8(r.ID, "\uFFFD") || !r.givenID && id == "" ||
		r.LostID && id == strconv.FormatInt(r.Index, 10)
}

// Overrides are the parameters that a row sets; the others have the job's values. Only types are checked here, not
// ranges.
type Overrides struct {
	parameter.Given
	Sampled *string // the column that asks for sampling, which a temperature of 0 contradicts
}

// alias records the name of another engine under which a row gives a parameter.
type alias struct{ own, key string }

// doubt is a value that has an effect only with certain other parameters, and the error for that case.
type doubt struct {
	parameter *parameter.Parameter
	err       *RowError
}

// ParameterName returns the key or column under which the row gives one of Quire's parameters. It may be another
// engine's name, so that messages about the value name what the user wrote.
func (r *Row) ParameterName(own string) string {
	for _, a := range r.aliases {
		if a.own == own {
			return a.key
		}
	}
	return own
}

// CheckBeside returns the error for a value of the row that is unsupported and has an effect given set, the row's
// parameters merged with the job's.
func (r *Row) CheckBeside(set *parameter.Set) *RowError {
	for _, d := range r.doubts {
		if d.parameter.Matters(set) {
			return d.err
		}
	}
	return nil
}

// Parent names the row that another one continues. The prompt is then that row's prompt, one of its completions, and
// the row's own prompt, if it has one.
type Parent struct {
	ID         string // id of that row; empty for none
	Generation *int   // generation of the completion; nil for the row's first
	Length     *int   // maximum of the completion's tokens that are kept; nil for all
}

// Error returns an error about the row that names it as this package's errors do.
func (r *Row) Error(what string) *RowError {
	return &RowError{File: r.File, Row: r.FileRow, Line: r.Line, What: what}
}

// Wrong is Error for what err says.
func (r *Row) Wrong(err error) *RowError {
	rowErr := r.Error(err.Error())
	rowErr.Err = err
	return rowErr
}
