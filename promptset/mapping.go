package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/parameter"
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

// madeColumn is the column of what a template made, and ofInput the name that one of this name in the input gets. The
// same holds for the column of ids.
const (
	madeColumn = "prompt"
	ofInput    = "input_" + madeColumn

	idColumn  = "id"
	idOfInput = "input_" + idColumn
)

// renamed are the columns of the input, by the names of others that take their place, which the output has under other
// names.
func (m *Mapping) renamed(column string) (name string, ok bool) {
	switch {
	case m.Template != nil && column == madeColumn:
		return ofInput, true
	case m.IDColumn != "" && m.IDColumn != idColumn && column == idColumn:
		return idOfInput, true
	}
	return column, false
}

// original is the name in the input of a column that may have been renamed.
func (m *Mapping) original(name string) string {
	for _, column := range []string{madeColumn, idColumn} {
		if now, ok := m.renamed(column); ok && now == name {
			return column
		}
	}
	return name
}

// mapped says that prompts are not in the columns of these names.
func (m *Mapping) mapped() bool { return m.PromptColumn != "" || m.Template != nil }

// columnOf is the column that has what is known by a name, "" for none.
func (m *Mapping) columnOf(name string) string {
	switch {
	case name == idColumn && m.IDColumn != "":
		return m.IDColumn
	case !m.mapped() || !slices.Contains(promptNames, name):
		return name
	case name == "prompt":
		return m.PromptColumn
	}
	return ""
}

// namesOf are the known names of what a column has.
func (m *Mapping) namesOf(column string) (names []string) {
	for _, name := range knownNames {
		if m.columnOf(name) == column {
			names = append(names, name)
		}
	}
	return names
}

// forms are the columns of prompts beside which a parameter may be one, of those that a row or a file has.
func (m *Mapping) forms(given []string) []string {
	if (m.System != "" || m.Chat) && slices.Contains(given, "prompt") { // which becomes messages
		return append(slices.Clone(given), "messages")
	}
	return given
}

// mayHavePrompts says what a file lacks whose columns are these; nil where it may have prompts.
func (m *Mapping) mayHavePrompts(columns []string) error {
	if m.PromptColumn != "" && !slices.Contains(columns, m.PromptColumn) {
		meant := ""
		if near := parameter.Nearest(m.PromptColumn, columns); near != "" {
			meant = fmt.Sprintf("; did you mean %q?", near)
		}
		return &columnError{what: fmt.Sprintf("no column %q, which `prompt-column` names: it has %s%s", m.PromptColumn,
			list(columns), meant)}
	}
	return nil
}

// mayHaveIDs says what a file with these columns lacks for the ids of its rows; nil if it has them.
func (m *Mapping) mayHaveIDs(columns []string) error {
	if m.IDColumn != "" && !slices.Contains(columns, m.IDColumn) {
		return fmt.Errorf("no column %q, which `id-column` names: it has %s", m.IDColumn, list(columns))
	}
	return nil
}

// columnError says that a file has none of the columns that prompts are looked for in.
type columnError struct{ what, advice string }

func (e *columnError) Error() string { return e.what }

// withFile names the file that an error is about.
func withFile(name string, err error) *FileError {
	e := &FileError{File: name, What: err.Error()}
	if lacks, ok := err.(*columnError); ok {
		e.NoPrompts, e.Advice = true, lacks.advice
	}
	return e
}

// likelyNames are those that columns of prompts have in data sets, the likeliest first.
var likelyNames = []string{"question", "query", "instruction", "input", "problem", "text", "content", "sentence",
	"review", "message", "document"}

// noPrompts is the error for a file without a column of prompts, with the column that is likely to have them.
func noPrompts(needs, has string, columns []string) error {
	likely := ""
	for _, name := range slices.Concat(promptNames[:1], likelyNames) {
		if i := slices.IndexFunc(columns, func(c string) bool { return strings.EqualFold(c, name) }); i >= 0 {
			likely = columns[i]
			break
		}
	}
	advice := "name the column with `prompt-column`, or make prompts of columns with `template`"
	if likely != "" {
		advice = fmt.Sprintf("`prompt-column` %s takes this column, and `template` makes prompts of columns", likely)
	}
	return &columnError{fmt.Sprintf("%s one of %s and %s %s", needs, strings.Join(promptNames, ", "), has,
		list(columns)), advice}
}

// lacks are the names that a template wants and a file with these columns does not have.
func (m *Mapping) lacks(columns []string) []string {
	if m.Template == nil {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(m.Template.Wants()), func(name string) bool {
		return slices.Contains(columns, name)
	})
}

// render sets the prompt of a row to what the template makes of its columns.
func (m *Mapping) render(r *Builder, columns map[string]json.RawMessage) {
	text, err := m.Template.Render(columns)
	if err != nil {
		r.fail("`template`: %v", err)
		return
	}
	r.Prompt, r.made = text, true
}

// passed are the columns of a row that are passed through.
func (m *Mapping) passed(r *Builder, object []member) []member {
	if m.Template == nil && m.IDColumn == "" {
		return object
	}
	object = slices.Clone(object)
	for i := range object {
		object[i].key, _ = m.renamed(object[i].key)
	}
	if m.Template == nil {
		return object
	}
	made := json.RawMessage("null")
	if r.made {
		made = appendText(nil, r.Prompt)
	}
	return append(object, member{madeColumn, made})
}

// addBefore adds what is before the prompt of a row.
func (m *Mapping) addBefore(r *Builder) {
	if r.Parent.ID != "" { // the first row of a family has what is before it
		if m.Chat {
			m.converse(r, nil)
		}
		return
	}
	if m.System == "" && m.Prefix == "" && !m.Chat || r.Kind == KindNone {
		return
	}
	if r.Kind == KindTokens {
		if m.System == "" && m.Prefix == "" {
			return
		}
		r.fail("prompt_token_ids are used as they are, and the job has `system` or `prefix-file`; leave that out, or " +
			"give the row a prompt")
		return
	}
	r.Prompt = m.Prefix + r.Prompt
	for i := range r.More {
		r.More[i].Text = m.Prefix + r.More[i].Text
	}
	switch {
	case r.Kind == KindMessages:
		if err := m.prefixMessages(r.Messages); err != nil {
			r.fail("%v", err)
		}
		r.Prompt = ""
		if m.System != "" && !slices.Contains([]string{"system", "developer"}, r.Messages[0].Role) {
			r.Messages = slices.Insert(r.Messages, 0, Message{Role: "system", Content: m.System})
		}
	case m.System != "":
		m.converse(r, []Message{{Role: "system", Content: m.System}})
	case m.Chat:
		m.converse(r, nil)
	}
}

// converse makes the prompt of a row a message of the user that follows others.
func (m *Mapping) converse(r *Builder, before []Message) {
	switch {
	case r.Kind != KindText:
	case len(r.More) > 0:
		r.fail("the row has several prompts, and `system` and `prompt-as` make a prompt a message; give each a row")
	default:
		r.Messages = append(before, Message{Role: "user", Content: r.Prompt})
		r.Kind, r.Prompt = KindMessages, ""
	}
}

// prefixMessages puts the prefix before the first message of the user.
func (m *Mapping) prefixMessages(messages []Message) error {
	if m.Prefix == "" {
		return nil
	}
	i := slices.IndexFunc(messages, func(m Message) bool { return m.Role == "user" })
	if i < 0 {
		return errors.New("messages have none of the user, which the text of `prefix-file` could be before")
	}
	first := &messages[i]
	if first.Object != "" {
		object, err := membersOf(json.RawMessage(first.Object))
		if err != nil {
			return err
		}
		for k := range object {
			if object[k].key == "content" {
				object[k].raw = m.prefixContent(object[k].raw)
			}
		}
		first.Object = string(joinMembers(object))
	}
	first.Content = m.Prefix + first.Content
	return nil
}

// prefixContent puts the prefix before a message's content, which is text or a list of texts.
func (m *Mapping) prefixContent(raw json.RawMessage) json.RawMessage {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return appendText(nil, m.Prefix+text)
	}
	var parts []json.RawMessage
	_ = json.Unmarshal(raw, &parts)
	all, _ := json.Marshal(append([]json.RawMessage{joinMembers([]member{{"type", json.RawMessage(`"text"`)},
		{"text", appendText(nil, m.Prefix)}})}, parts...))
	return all
}
