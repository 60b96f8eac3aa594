package promptset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset/openai"
)

// Completion is a row of an output, valid until the next one is read.
type Completion struct {
	ID string
	Result

	prompt func(column string) string // reads the column of the prompt, or those that may have one
	column func() string              // the column of the prompt; nil or "" where its name says it

	members []member // of a line
	columns *node    // of a Parquet part, of which values has a row
	values  parquet.Row
}

// NewCompletion returns a completion that is in no part yet; prompt gives what [Completion.Prompt] does.
func NewCompletion(id string, r Result, prompt func() string) *Completion {
	return &Completion{ID: strings.ToValidUTF8(id, "\uFFFD"), Result: r,
		prompt: func(string) string { return prompt() }}
}

// Prompt returns the prompt that is completed, as [Row.PromptText] does.
func (c *Completion) Prompt() string {
	column := ""
	if c.column != nil {
		column = c.column()
	}
	return c.prompt(column)
}

// Readable is what a completion says, as texts for people: its reasoning, its text, and its calls of tools.
func (r *Result) Readable() (texts []string) {
	if r.Reasoning != "" {
		texts = append(texts, "reasoning: "+r.Reasoning)
	}
	if text := strings.TrimSpace(r.Text); text != "" {
		texts = append(texts, text)
	}
	return append(texts, readableCalls(r.ToolCalls)...)
}

// readableCalls are calls of tools as texts for people, of a JSON list in the form of OpenAI's API; "" is none.
func readableCalls(list string) (texts []string) {
	var calls []struct {
		Function struct {
			Name      string
			Arguments json.RawMessage // an object, or text with it
		}
	}
	if json.Unmarshal([]byte(list), &calls) != nil && list != "" { // which others wrote
		return []string{"calls: " + list}
	}
	for _, c := range calls {
		arguments, text := c.Function.Arguments, ""
		if json.Unmarshal(arguments, &text) == nil {
			arguments = json.RawMessage(text)
		}
		if json.Valid(arguments) {
			arguments = compactJSON(arguments)
		}
		texts = append(texts, fmt.Sprintf("call: %s %s", c.Function.Name, arguments))
	}
	return texts
}

// PromptText returns the row's prompt as text for people: messages with a line each, token ids as numbers.
func (r *Row) PromptText() string {
	switch r.Kind {
	case KindText:
		return r.Prompt
	case KindMessages:
		var lines []string
		for _, m := range r.Messages {
			lines = append(lines, m.Role+": "+m.Content)
			var more struct {
				Calls json.RawMessage `json:"tool_calls"`
			}
			if json.Unmarshal([]byte(m.Object), &more) == nil && !isNullJSON(more.Calls) {
				lines = append(lines, readableCalls(string(more.Calls))...)
			}
		}
		return strings.Join(lines, "\n")
	case KindTokens:
		return fmt.Sprintf("%s: %v", plural.Count(len(r.TokenIDs), "token"), r.TokenIDs)
	}
	return "(no prompt)"
}

var promptKinds = map[string]Kind{"prompt": KindText, "messages": KindMessages, "prompt_token_ids": KindTokens}

// passed is where a column of the input stands among the columns of the output, which are renamed where that has one of
// the name; -1 is nowhere.
func passed(column string, names []string) int {
	names = names[:max(0, slices.Index(names, columns[0].Name))]
	for name := column; len(name) < len(column)+len(names)*len("input_")+1; name = "input_" + name {
		if i := slices.Index(names, name); i >= 0 {
			return i
		}
	}
	return -1
}

// promptOf reads the prompt of a row of JSONL, of a column of the input if one is named.
func promptOf(all []member, column string) string {
	row := &Builder{Row: &Row{}}
	if isRequest(all) {
		return requestPrompt(all)
	}
	if column != "" {
		var names []string
		for _, m := range all {
			names = append(names, m.key)
		}
		i := passed(column, names)
		if i >= 0 && !isNullJSON(all[i].raw) && row.decodeKnown("prompt", all[i].raw) {
			row.Kind = KindText
		}
		return row.PromptText()
	}
	for _, name := range promptNames {
		i := slices.IndexFunc(all, func(m member) bool { return m.key == name })
		if i >= 0 && !isNullJSON(all[i].raw) && row.decodeKnown(name, all[i].raw) {
			row.Kind = promptKinds[name]
			break
		}
	}
	return row.PromptText()
}

// promptReader reads the prompts of the rows of a Parquet file.
type promptReader struct {
	groupReader
	request *node // the column body where the rows are lines of batch files
}

func newPromptReader(root *node) *promptReader {
	r := &promptReader{groupReader: groupReader{table: &table{root: root, known: map[string]*node{}},
		columns: make([][]parquet.Value, root.leaves)}}
	if !slices.ContainsFunc(openai.Keys, func(key string) bool { return root.field(key) == nil }) {
		r.request = root.field("body")
	}
	for _, name := range promptNames {
		if c := root.field(name); c != nil && !c.isNull() && fits(name, c) {
			r.table.known[name] = c
		}
	}
	return r
}

// of reads the prompt of a row's values, of a column of the input if one is named.
func (r *promptReader) of(values parquet.Row, column string) string {
	row := &Builder{Row: &Row{}}
	if r.place(values) != nil {
		return row.PromptText()
	}
	if body := r.request; body != nil && r.present(body) {
		return r.requestOf(values)
	}
	if column != "" {
		fields := r.table.root.fields
		var names []string
		for _, f := range fields {
			names = append(names, f.name)
		}
		i := passed(column, names)
		if i >= 0 && !fields[i].isNull() && fits("prompt", fields[i]) && r.present(fields[i]) {
			r.decodeKnown(row, "prompt", fields[i])
			row.Kind = KindText
		}
		return row.PromptText()
	}
	for _, name := range promptNames {
		if c := r.table.known[name]; c != nil && r.present(c) {
			r.decodeKnown(row, name, c)
			row.Kind = promptKinds[name]
			break
		}
	}
	return row.PromptText()
}

// requestOf reads the prompt of a row's values that are a line of a batch file.
func (r *promptReader) requestOf(values parquet.Row) string {
	var object Object
	a := &assembler{values: values}
	a.index()
	for _, c := range r.table.root.fields {
		if raw := a.column(nil, c); slices.Contains(openai.Keys, c.name) {
			object = append(object, member{c.name, raw})
		}
	}
	return requestPrompt(object)
}

// ErrNoCompletions says that a file has not the columns that every output has.
var ErrNoCompletions = errors.New("it has no completions")

// lackingError names a column that a file has not.
type lackingError struct{ what string }

func (e *lackingError) Error() string        { return e.what }
func (e *lackingError) Is(target error) bool { return target == ErrNoCompletions }

// checkColumns looks for the columns that no output does without. format is that of the error for one that is lacking.
func checkColumns(has func(name string) bool, format string) error {
	for _, c := range written(nil) {
		if !has(c.Name) && !c.mayLack {
			return &lackingError{fmt.Sprintf(format, c.Name)}
		}
	}
	return nil
}
