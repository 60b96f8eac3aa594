// Package record holds the rows of the input, whatever the format of their file. A [Builder] sets a row to what the
// file has, by the names of columns or by a [Mapping], and notes the first thing wrong with it.
package record

import (
	"github.com/quire/quire/parameter"
	"strconv"
	"strings"
)

// Kind says in which form a row gives its prompt.
type Kind int

// The forms of a prompt.
const (
	KindNone     Kind = iota // no usable prompt, Row.Err says why; or none of its own beside that of Row.Parent
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

// Row is one prompt. A Row stays valid after the iteration that gave it has gone on.
type Row struct {
	Index   int64  // place among all rows of the job, from 0, in the order of the files
	File    string // the file it comes from
	FileRow int64  // place in that file, from 0
	Line    int64  // its line in a JSONL file, from 1; 0 in a Parquet file
	// ID is the id column as text, else Index in decimal; ids may repeat. It is empty, as that of no other row is, when
	// Err says that the id cannot be read.
	ID        string
	Kind      Kind
	Prompt    string
	Messages  []Message
	TokenIDs  []int32
	More      []Prompt // behind the first, where a line of a batch file has several
	Overrides Overrides
	Parent    Parent
	Err       error // a *RowError when the row cannot be used; its prompt and overrides then mean nothing

	// Source has the row's own columns, for the writer; nil when they could not be read.
	Source Source
	// LostID says that the row may have an id, which cannot be read.
	LostID  bool
	givenID bool
	aliases []alias // under which names it gives parameters
	doubts  []doubt // values that are refused beside some parameters only
}

// Prompt is one of several prompts of a row: text, or token ids.
type Prompt struct {
	Text     string
	TokenIDs []int32
}

// Each returns the row for each of its prompts: with that one alone.
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

// HasID says whether the row gave its id, which others may give too.
func (r *Row) HasID() bool { return r.givenID }

// IsCalled reports whether an output may have the row under this id. Older versions gave a row whose id cannot be read
// its number.
func (r *Row) IsCalled(id string) bool {
	return id == strings.ToValidUTF8(r.ID, "\uFFFD") || !r.givenID && id == "" ||
		r.LostID && id == strconv.FormatInt(r.Index, 10)
}

// Overrides are the parameters that a row gives for itself; the job's hold for the others. Only their types are checked
// here, not their ranges.
type Overrides struct {
	parameter.Given
	Sampled *string // the column that asks for sampling: a temperature of 0 contradicts it
}

// alias notes under which name of other engines a row gives a parameter.
type alias struct{ own, key string }

// doubt is a value that has an effect beside some parameters only, and the error for it then.
type doubt struct {
	parameter *parameter.Parameter
	err       *RowError
}

// ParameterName returns the key or column under which the row gives one of Quire's parameters. It may be the name
// that other engines have for it, so that messages about the value name what the user wrote.
func (r *Row) ParameterName(own string) string {
	for _, a := range r.aliases {
		if a.own == own {
			return a.key
		}
	}
	return own
}

// CheckBeside returns the error of a value of the row that has an effect beside set, its parameters with those of the
// job, and that is not supported.
func (r *Row) CheckBeside(set *parameter.Set) *RowError {
	for _, d := range r.doubts {
		if d.parameter.Matters(set) {
			return d.err
		}
	}
	return nil
}

// Parent says which row another one goes on from: its prompt is that row's prompt, one of that row's completions, then
// its own prompt, if it has one.
type Parent struct {
	ID         string // of that row; empty for none
	Generation *int   // of the completion; nil for the row's first
	Length     *int   // tokens of the completion that are kept at most; nil for all
}

// Error returns an error about the row that names it as the package's own errors do.
func (r *Row) Error(what string) *RowError {
	return &RowError{File: r.File, Row: r.FileRow, Line: r.Line, What: what}
}
