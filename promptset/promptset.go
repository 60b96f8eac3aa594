// Package promptset reads the prompts of a batch job from Parquet, Arrow, JSONL and CSV files and writes its
// completions.
//
// # Reading
//
// [Open] takes files, globs and folders and looks into every file once; [Reader.Rows] then streams the rows in order
// with bounded memory. A row's prompt is in one of the columns (keys, in JSONL)
//
//   - prompt: text
//   - messages: a list of {role, content} with any other members, or text with it as JSON; content is text, null, or a
//     list of text parts. Package parameter says which members are refused
//   - prompt_token_ids: a list of integers
//
// and a row may have an id (text or integer), a parent that it goes on from (the id of another row, with
// parent_generation and parent_length), and parameters of its own, such as max_tokens, which come before the
// job's: those of package parameter. Null means not given. Names that other engines have for these, and parameters that
// Quire does not have, are judged as package parameter says. Every column is passed through to the output, whatever it
// means.
//
// A JSONL file may also be one of OpenAI's batch API: see package openai. A row's prompt and parameters are then in the
// body of its line, and its id is the custom_id.
//
// A file that cannot be used at all makes [Open] fail: not readable, no prompt column, a column above with a type that
// can never fit, passed-through columns whose types differ between files. A bad row (no prompt, invalid UTF-8, a JSON
// syntax error, ...) becomes a [Row] with Err set, and reading goes on.
//
// # Writing
//
// [Create] starts an output folder of numbered parts with one row a completion: the input's columns, then
// [OutputColumns]. Rows may be added in any order; they are written in the order of the input, so the bytes of the
// output do not depend on which row finished first. A part appears in the folder when it is whole and on disk, never
// before.
//
// # Reading back
//
// [OpenOutput] finds the parts of an output, and [Output.Read] reads one whole, with its digest. A [PartSummary]
// notes what a part came to; [SealOf] tells a part from another one by a small read. [RowCheck] compares rows of the
// output with those of the input.
package promptset

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/quire/quire/parameter"
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

// Overrides are the parameters that a row gives for itself; the job's hold for the others. Only their types are checked
// here, not their ranges.
type Overrides struct {
	parameter.Given
	Sampled *string // the column that asks for sampling: a temperature of 0 contradicts it
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
	Source RowSource
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

// RowError says what is wrong with one row and what to do about it.
type RowError struct {
	File string
	Row  int64 // from 0
	Line int64 // in a JSONL file, from 1; 0 in a Parquet file
	What string
	// Param is the member of a line of a batch file that it is about, and Code what it is, by OpenAI's names; they may
	// be empty.
	Param, Code string
}

func (e *RowError) Error() string {
	if e.Line > 0 {
		return fmt.Sprintf("%s line %d: %s", e.File, e.Line, e.What)
	}
	return fmt.Sprintf("%s row %d: %s", e.File, e.Row, e.What)
}

// Error returns an error about the row that names it as the package's own errors do.
func (r *Row) Error(what string) *RowError {
	return &RowError{File: r.File, Row: r.FileRow, Line: r.Line, What: what}
}

// FileError says why a whole file cannot be used.
type FileError struct {
	File string
	What string
	Err  error // cause, may be nil
	// Missing says that no file has the name: it is the name that is wrong.
	Missing bool
	// NoPrompts says that the file has none of the columns that prompts are looked for in: others have to be named.
	// Advice, which is not in the text of the error, says by which settings; it may be empty.
	NoPrompts bool
	Advice    string
}

func (e *FileError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %s: %v", e.File, e.What, e.Err)
	}
	return fmt.Sprintf("%s: %s", e.File, e.What)
}

// Unwrap returns the cause.
func (e *FileError) Unwrap() error { return e.Err }
