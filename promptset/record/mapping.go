package record

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset/jsonvalue"
	"github.com/quire/quire/promptset/schema"
)

// Mapping says what the prompts of rows are, where the names of the columns do not say it. The zero value leaves rows
// as they are.
type Mapping struct {
	// PromptColumn is the column that has the prompt as text. Columns named prompt, messages and prompt_token_ids have
	// no meaning then, and are passed through.
	PromptColumn string
	// IDColumn is the column that has the ids of rows. A column id has no meaning then, and is passed through as
	// input_id.
	IDColumn string
	// Template makes the prompt of a row of its columns; those three have no other meaning then. The output has what it
	// made as the column prompt, and a column of that name as input_prompt.
	Template Template
	// System is a system message before each prompt, which is a message of the user then, and before messages that do
	// not begin with one.
	System string
	// Chat makes each prompt a message of the user, with or without System, also in rows that go on from another one.
	Chat bool
	// Partitions are the columns that folders named key=value give; none stands for those below the folders that are
	// named as inputs, and those that globs stand for.
	Partitions []string
	// Prefix is text before each prompt, and before the first message of the user in messages.
	Prefix string
}

// Template makes text of the columns of a row.
type Template interface {
	// Uses are the names that may be columns, and Wants those of them that the input must have.
	Uses() []string
	Wants() []string
	// Render takes columns by name, as JSON.
	Render(columns map[string]json.RawMessage) (string, error)
}

// MadeColumn is the column of what a template made, and ofInput the name that one of this name in the input gets. The
// same holds for the column of ids.
const (
	MadeColumn = "prompt"
	ofInput    = "input_" + MadeColumn

	IDColumn  = "id"
	idOfInput = "input_" + IDColumn
)

// Renamed are the columns of the input, by the names of others that take their place, which the output has under other
// names.
func (m *Mapping) Renamed(column string) (name string, ok bool) {
	switch {
	case m.Template != nil && column == MadeColumn:
		return ofInput, true
	case m.IDColumn != "" && m.IDColumn != IDColumn && column == IDColumn:
		return idOfInput, true
	}
	return column, false
}

// Original is the name in the input of a column that may have been renamed.
func (m *Mapping) Original(name string) string {
	for _, column := range []string{MadeColumn, IDColumn} {
		if now, ok := m.Renamed(column); ok && now == name {
			return column
		}
	}
	return name
}

// Mapped says that prompts are not in the columns of these names.
func (m *Mapping) Mapped() bool { return m.PromptColumn != "" || m.Template != nil }

// ColumnOf is the column that has what is known by a name, "" for none.
func (m *Mapping) ColumnOf(name string) string {
	switch {
	case name == IDColumn && m.IDColumn != "":
		return m.IDColumn
	case !m.Mapped() || !slices.Contains(schema.PromptNames, name):
		return name
	case name == "prompt":
		return m.PromptColumn
	}
	return ""
}

// NamesOf are the known names of what a column has.
func (m *Mapping) NamesOf(column string) (names []string) {
	for _, name := range schema.KnownNames {
		if m.ColumnOf(name) == column {
			names = append(names, name)
		}
	}
	return names
}

// Forms are the columns of prompts beside which a parameter may be one, of those that a row or a file has.
func (m *Mapping) Forms(given []string) []string {
	if (m.System != "" || m.Chat) && slices.Contains(given, "prompt") { // which becomes messages
		return append(slices.Clone(given), "messages")
	}
	return given
}

// MayHavePrompts says what a file lacks whose columns are these; nil where it may have prompts.
func (m *Mapping) MayHavePrompts(columns []string) error {
	if m.PromptColumn != "" && !slices.Contains(columns, m.PromptColumn) {
		meant := ""
		if near := parameter.Nearest(m.PromptColumn, columns); near != "" {
			meant = fmt.Sprintf("; did you mean %q?", near)
		}
		return &columnError{what: fmt.Sprintf("no column %q, which `prompt-column` names: it has %s%s", m.PromptColumn,
			List(columns), meant)}
	}
	return nil
}

// MayHaveIDs says what a file with these columns lacks for the ids of its rows; nil if it has them.
func (m *Mapping) MayHaveIDs(columns []string) error {
	if m.IDColumn != "" && !slices.Contains(columns, m.IDColumn) {
		return fmt.Errorf("no column %q, which `id-column` names: it has %s", m.IDColumn, List(columns))
	}
	return nil
}

// likelyNames are those that columns of prompts have in data sets, the likeliest first.
var likelyNames = []string{"question", "query", "instruction", "input", "problem", "text", "content", "sentence",
	"review", "message", "document"}

// NoPrompts is the error for a file without a column of prompts, with the column that is likely to have them.
func NoPrompts(needs, has string, columns []string) error {
	likely := ""
	for _, name := range slices.Concat(schema.PromptNames[:1], likelyNames) {
		if i := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) }); i >= 0 {
			likely = columns[i]
			break
		}
	}
	advice := "name the column with `prompt-column`, or make prompts of columns with `template`"
	if likely != "" {
		advice = fmt.Sprintf("`prompt-column` %s takes this column, and `template` makes prompts of columns", likely)
	}
	return &columnError{fmt.Sprintf("%s one of %s and %s %s", needs, strings.Join(schema.PromptNames, ", "), has,
		List(columns)), advice}
}

// Lacks are the names that a template wants and a file with these columns does not have.
func (m *Mapping) Lacks(columns []string) []string {
	if m.Template == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Template.Wants()), func(name string) bool {
		return slices.Contains(columns, name)
	})
}

// Render sets the prompt of a row to what the template makes of its columns.
func (m *Mapping) Render(r *Builder, columns map[string]json.RawMessage) {
	text, err := m.Template.Render(columns)
	if err != nil {
		r.Fail("`template`: %v", err)
		return
	}
	r.Prompt, r.Made = text, true
}

// Passed are the columns of a row that are passed through.
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
