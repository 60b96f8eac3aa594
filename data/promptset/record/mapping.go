package record

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/setting"
)

// Mapping defines the prompts of rows whose columns do not have the standard names. The zero value leaves rows as
// they are.
type Mapping struct {
	// PromptColumn is the column that has the prompt as text. Columns named prompt, messages and prompt_token_ids
	// then have no meaning, and are passed through.
	PromptColumn string
	// IDColumn is the column that has the ids of rows. A column id then has no meaning, and is passed through as
	// input_id.
	IDColumn string
	// Template renders the prompt of a row from its columns; the three columns above then have no other meaning. The
	// output has the rendered text as the column prompt, and an input column of that name as input_prompt.
	Template Template
	// System is a system message before each prompt, which then is a user message, and before messages that do not
	// start with one.
	System string
	// Chat makes each prompt a user message, with or without System, also in rows that continue another one.
	Chat bool
	// Partitions are the columns that folders named key=value define. If it is empty, these are the columns of folders
	// below the inputs, and below folders that globs stand for.
	Partitions []string
	// Prefix is text before each prompt, and before the first user message in messages.
	Prefix string
	// Reads is what the task reads of rows.
	Reads Reads
}

// Reads is what a task reads of rows. The zero value is what is read of rows with completions.
type Reads struct {
	// PromptsAlone states that nothing is generated: the only parameters are those of prompts, no row continues another
	// one, and all other columns are the user's.
	PromptsAlone bool
	// Prompt is the column of the prompt in place of [schema.PromptNames]; "" for these.
	Prompt string
	// Seconds are the columns of [Row.Seconds], of which a row gives one. NeedsSeconds: it is wrong without.
	Seconds      []string
	NeedsSeconds bool
	// Endpoints are those of lines of batch files; none stands for those of completions. Makes is what the job makes,
	// for people.
	Endpoints []openai.Endpoint
	Makes     string
}

// Template renders text from the columns of a row.
type Template interface {
	// Uses returns the names that may be columns, and Wants the ones among them that the input must have.
	Uses() []string
	Wants() []string
	// Render renders the text; columns are by name, as JSON.
	Render(columns map[string]json.RawMessage) (string, error)
}

// MadeColumn is the column of the text that a template rendered, and ofInput the name of an input column of this
// name. The same applies to the column of ids.
const (
	MadeColumn = "prompt"
	ofInput    = "input_" + MadeColumn

	IDColumn  = "id"
	idOfInput = "input_" + IDColumn
)

// Renamed returns the output name of an input column whose name is taken by another one.
func (m *Mapping) Renamed(column string) (name string, ok bool) {
	switch {
	case m.Template != nil && column == MadeColumn:
		return ofInput, true
	case m.IDColumn != "" && m.IDColumn != IDColumn && column == IDColumn:
		return idOfInput, true
	}
	return column, false
}

// Original returns the input name of a column that may have been renamed.
func (m *Mapping) Original(name string) string {
	for _, column := range []string{MadeColumn, IDColumn} {
		if now, ok := m.Renamed(column); ok && now == name {
			return column
		}
	}
	return name
}

// Mapped reports whether prompts are not in the columns of the standard names.
func (m *Mapping) Mapped() bool { return m.promptColumn() != "" || m.Template != nil }

// ColumnOf returns the column that has the standard name's value, "" for none.
func (m *Mapping) ColumnOf(name string) string {
	switch {
	case name == IDColumn && m.IDColumn != "":
		return m.IDColumn
	case m.Reads.PromptsAlone && (!ofPrompt(name) || slices.Contains(m.Reads.Seconds, name)):
		return ""
	case !m.Mapped() || !slices.Contains(schema.PromptNames, name):
		return name
	case name == "prompt":
		return m.promptColumn()
	}
	return ""
}

// promptColumn is the column that has the prompt as text, "" if several may have it, or a template renders it.
func (m *Mapping) promptColumn() string {
	if m.Template != nil {
		return m.PromptColumn
	}
	return cmp.Or(m.PromptColumn, m.Reads.Prompt)
}

// ofPrompt reports whether a column of a known name is about the prompt of a row.
func ofPrompt(name string) bool {
	p := parameter.Sink(name)
	return p != nil && p.OfPrompt() || name == IDColumn || slices.Contains(schema.PromptNames, name)
}

// ForeignNames is [schema.ForeignNames], without the parameters that rows do not have.
func (m *Mapping) ForeignNames(column string) []*parameter.Parameter {
	if m.Reads.PromptsAlone {
		return nil
	}
	return schema.ForeignNames(column)
}

// NamesOf returns the standard names of a column's value.
func (m *Mapping) NamesOf(column string) (names []string) {
	for _, name := range schema.KnownNames {
		if m.ColumnOf(name) == column {
			names = append(names, name)
		}
	}
	return names
}

// Forms returns the prompt columns with which a parameter may apply, given the ones that a row or a file has.
func (m *Mapping) Forms(given []string) []string {
	if (m.System != "" || m.Chat) && slices.Contains(given, "prompt") { // the prompt becomes messages
		return append(slices.Clone(given), "messages")
	}
	return given
}

// MayHavePrompts returns an error if a file with these columns cannot have prompts.
func (m *Mapping) MayHavePrompts(columns []string) error {
	if column := m.Reads.Prompt; m.PromptColumn == "" && column != "" && !slices.Contains(columns, column) {
		return &columnError{fmt.Errorf("no column %q, which has the prompt: it has %s", column, List(columns)),
			setting.Textf("name the column with `prompt-column`")}
	}
	if m.PromptColumn != "" && !slices.Contains(columns, m.PromptColumn) {
		meant := ""
		if near := parameter.Nearest(m.PromptColumn, columns); near != "" {
			meant = fmt.Sprintf("; did you mean %q?", near)
		}
		return &columnError{error: setting.Errorf("no column %q, which `prompt-column` names: it has %s%s",
			m.PromptColumn, List(columns), meant)}
	}
	return nil
}

// MayHaveIDs returns an error if a file with these columns has no ids for its rows.
func (m *Mapping) MayHaveIDs(columns []string) error {
	if m.IDColumn != "" && !slices.Contains(columns, m.IDColumn) {
		return setting.Errorf("no column %q, which `id-column` names: it has %s", m.IDColumn, List(columns))
	}
	return nil
}

// likelyNames are the usual names of prompt columns in data sets, the likeliest first.
var likelyNames = []string{"question", "query", "instruction", "input", "problem", "text", "content", "sentence",
	"review", "message", "document"}

// NoPrompts returns the error for a file without a column of prompts, which suggests the column that probably has
// them.
func NoPrompts(needs, has string, columns []string) error {
	likely := ""
	for _, name := range slices.Concat(schema.PromptNames[:1], likelyNames) {
		if i := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) }); i >= 0 {
			likely = columns[i]
			break
		}
	}
	advice := setting.Textf("name the column with `prompt-column`, or make prompts of columns with `template`")
	if likely != "" {
		advice = setting.Textf("`prompt-column` %s takes this column, and `template` makes prompts of columns", likely)
	}
	return &columnError{fmt.Errorf("%s one of %s and %s %s", needs, strings.Join(schema.PromptNames, ", "), has,
		List(columns)), advice}
}

// Lacks returns the names that a template needs and a file with these columns lacks.
func (m *Mapping) Lacks(columns []string) []string {
	if m.Template == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Template.Wants()), func(name string) bool {
		return slices.Contains(columns, name)
	})
}

// Render sets the prompt of a row to what the template renders from its columns.
func (m *Mapping) Render(r *Builder, columns map[string]json.RawMessage) {
	text, err := m.Template.Render(columns)
	if err != nil {
		r.Fail("`template`: %v", err)
		return
	}
	r.Prompt, r.Made = text, true
}

// Passed returns the columns of a row that are passed through.
func (m *Mapping) Passed(r *Builder, object []jsonvalue.Member) []jsonvalue.Member {
	if m.Template == nil && m.IDColumn == "" {
		return object
	}
	object = slices.Clone(object)
	for i := range object {
		object[i].Key, _ = m.Renamed(object[i].Key)
	}
	if m.Template == nil {
		return object
	}
	made := json.RawMessage("null")
	if r.Made {
		made = jsonvalue.AppendText(nil, r.Prompt)
	}
	return append(object, jsonvalue.Member{Key: MadeColumn, Raw: made})
}

func List(names []string) string {
	if len(names) == 0 {
		return "no columns"
	}
	return strings.Join(names, ", ")
}
