// Package promptset reads the prompts of a batch job from files of the formats that [InputFormats] lists, and writes
// its completions.
//
// # Reading
//
// [Open] takes files, globs and folders and looks into every file once; [Reader.Rows] then streams the rows in order
// with bounded memory. A row's prompt is in one of the columns (keys, in JSONL)
//
//   - prompt: text
//   - messages: a list of {role, content} with any other members, or text with it as JSON; content is text, null, or a
//     list of text parts. Package parameter defines which members are refused
//   - prompt_token_ids: a list of integers
//
// and a row may have an id (text or integer), a parent that it continues (the id of another row, with parent_generation
// and parent_length), and parameters of its own, such as max_tokens, which come before the job's: those of package
// parameter. Null means not given. Names that other engines have for these, and parameters that Quire does not have,
// are judged as in package parameter. Every column is passed through to the output.
//
// A JSONL file may also be one of OpenAI's batch API: see package openai. A row's prompt and parameters are then in the
// body of its line, and its id is the custom_id.
//
// A file that cannot be used at all makes [Open] fail: not readable, no prompt column, a column above with a type that
// can never fit, passed-through columns whose types differ between files. A bad row (no prompt, invalid UTF-8, a JSON
// syntax error, ...) becomes a [Row] with Err set, and reading continues.
//
// # Writing
//
// [NewWriter] starts an output of numbered parts in a folder, with one row a completion: the input's columns, then
// those of [completion.Columns]. An input column of such a name is kept as input_<name>. Rows may be added in any
// order; they are written in the order of the input, so the bytes of the output do not depend on which row finished
// first. A part appears in the folder when it is whole and on disk, never before.
//
// # Reading back
//
// [OpenOutput] finds the parts of an output, and [Output.Read] reads one whole, with its digest. A [folder.PartSummary]
// records the contents of a part; [folder.SealOf] distinguishes parts by a small read. [RowCheck] compares rows of the
// output with rows of the input.
package promptset

import (
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// These types describe an input row; see package record.
type (
	Row       = record.Row
	Kind      = record.Kind
	Message   = record.Message
	Overrides = record.Overrides
	Parent    = record.Parent
	Prompt    = record.Prompt
	RowError  = record.RowError
	FileError = record.FileError
	Mapping   = record.Mapping
	Template  = record.Template
)

// The forms of a prompt.
const (
	KindNone     = record.KindNone
	KindText     = record.KindText
	KindMessages = record.KindMessages
	KindTokens   = record.KindTokens
)

// These types describe an output row; see package completion.
type (
	Result     = completion.Result
	Completion = completion.Completion
	TokenText  = completion.TokenText
)

// The formats of output files.
const (
	FormatParquet = folder.Parquet
	FormatJSONL   = folder.JSONL
	FormatOpenAI  = folder.OpenAI
)

// Files and their columns; see packages input and schema.
type (
	File   = input.File
	Source = input.Source
	Schema = schema.Schema
)
