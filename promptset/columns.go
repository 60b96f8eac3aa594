package promptset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// outputRow is one row of the output, without the input's columns.
type outputRow struct {
	id string
	*Result
}

// Column is a column that the writer adds after those of the input.
type Column struct {
	Name string
	Doc  string
	// OnRequest says that the column is there only where [WriterOptions.Columns] asks for it.
	OnRequest bool
	// Parameter is one that asks for the column too: where a column of the input gives it, and in jobs for which
	// AskedBy holds.
	Parameter string
	AskedBy   func(*parameter.Set) bool

	form form
	// at points to the value of a row, of the type of form. What it points to is written, and is set when the row is
	// read back.
	at func(*outputRow) any
	// null says where a row has no value; nil is nowhere.
	null func(*outputRow) bool
	// derived says that the value is made of the others of the row: at makes it anew each time. What is read back is
	// compared with it.
	derived bool
	// mayLack says that an output may do without the column: what reads outputs back does without it.
	mayLack bool
	// unread says that the value follows from the others of the row, and is not read back.
	unread bool
	// varied says that values seldom repeat, so that a dictionary of them would only take space.
	varied bool
}

// always reports whether every output has the column.
func (c *Column) always() bool { return !c.OnRequest && !c.mayLack }

// tokenColumn is the column of the tokens.
const tokenColumn = "token_ids"

// columns are the columns of the output, in their order. A new one is an entry here, at the end of those on request.
var columns = []Column{
	{Name: "id", Doc: "the row's id, else its number in the input, from 0; empty if the id can't be read",
		form: textForm, at: func(o *outputRow) any { return &o.id }},
	{Name: "generation", Doc: "number of the completion among those of the row, from 0",
		form: integerForm, at: func(o *outputRow) any { return &o.Generation }},
	{Name: "text", Doc: "the completion as text; null where there is none",
		form: textForm, at: func(o *outputRow) any { return &o.Text }, null: (*outputRow).failed, varied: true},
	{Name: tokenColumn, Doc: "its tokens; null where there are none",
		form: integersForm, at: func(o *outputRow) any { return &o.TokenIDs }, null: (*outputRow).failed,
		mayLack: true},
	{Name: "logprobs", Doc: "natural logarithm of each token's probability, before temperature and filters",
		form: floatsForm, at: func(o *outputRow) any { return &o.Logprobs }, varied: true, mayLack: true,
		null: func(o *outputRow) bool { return o.Logprobs == nil }},
	{Name: "finish_reason", Doc: "why it ended: stop, length, tool_calls (it calls tools, and was not cut) or " +
		"error",
		form: textForm, at: func(o *outputRow) any { return &o.FinishReason }},
	{Name: "prompt_tokens", Doc: "number of tokens of the prompt",
		form: integerForm, at: func(o *outputRow) any { return &o.PromptTokens }},
	{Name: "completion_tokens", Doc: "number of tokens of the completion",
		form: integerForm, at: func(o *outputRow) any { return &o.CompletionTokens }},
	{Name: "error", Doc: "what is wrong with the row; null where nothing is",
		form: textForm, at: func(o *outputRow) any { return &o.Err },
		null: func(o *outputRow) bool { return o.Err == "" }},

	{Name: "cumulative_logprob", Doc: "sum of logprobs; null where there is an error", OnRequest: true,
		form: numberForm, derived: true, varied: true,
		at: func(o *outputRow) any {
			sum := 0.0
			for _, p := range o.Logprobs {
				sum += float64(p)
			}
			return &sum
		},
		null: func(o *outputRow) bool { return o.Err != "" }},
	{Name: "processed_logprobs", Doc: "natural logarithm of each token's probability among those that it was drawn " +
		"from, after temperature and filters; 0 where temperature is 0", OnRequest: true,
		form: floatsForm, at: func(o *outputRow) any { return &o.ProcessedLogprobs }, varied: true,
		null: func(o *outputRow) bool { return o.ProcessedLogprobs == nil }},
	{Name: "top_ids", Doc: "for each token of the completion the likeliest tokens there, the likeliest first; null " +
		"where the row has no top_logprobs", OnRequest: true, Parameter: "top_logprobs", AskedBy: asksTops,
		form: integerListsForm, at: func(o *outputRow) any { return &o.TopIDs }, varied: true,
		null: func(o *outputRow) bool { return o.TopIDs == nil }},
	{Name: "top_logprobs", Doc: "natural logarithms of the probabilities of top_ids, before temperature and filters",
		OnRequest: true, Parameter: "top_logprobs", AskedBy: asksTops,
		form: floatListsForm, at: func(o *outputRow) any { return &o.TopLogprobs }, varied: true,
		null: func(o *outputRow) bool { return o.TopLogprobs == nil }},
	{Name: "prompt_token_ids", Doc: "the tokens of the prompt; null where there are none", OnRequest: true,
		Parameter: "prompt_logprobs", AskedBy: asksPrompt,
		form: integersForm, at: func(o *outputRow) any { return &o.PromptTokenIDs },
		null: func(o *outputRow) bool { return o.PromptTokenIDs == nil }},
	{Name: "prompt_logprobs", Doc: "natural logarithm of the probability of each token of the prompt behind those " +
		"before it; null for the first", OnRequest: true, Parameter: "prompt_logprobs", AskedBy: asksPrompt,
		form: scoresForm, at: func(o *outputRow) any { return &o.PromptLogprobs }, varied: true,
		null: func(o *outputRow) bool { return o.PromptLogprobs == nil }},
	{Name: "prompt_top_ids", Doc: "for each token of the prompt the likeliest tokens there, the likeliest first; " +
		"none for the first", OnRequest: true, Parameter: "prompt_logprobs", AskedBy: asksPromptTops,
		form: integerListsForm, at: func(o *outputRow) any { return &o.PromptTopIDs }, varied: true,
		null: func(o *outputRow) bool { return o.PromptTopIDs == nil }},
	{Name: "prompt_top_logprobs", Doc: "natural logarithms of the probabilities of prompt_top_ids", OnRequest: true,
		Parameter: "prompt_logprobs", AskedBy: asksPromptTops,
		form: floatListsForm, at: func(o *outputRow) any { return &o.PromptTopLogprobs }, varied: true,
		null: func(o *outputRow) bool { return o.PromptTopLogprobs == nil }},
	{Name: "reasoning", Doc: "the reasoning before the answer, which text then lacks; null where there is none",
		OnRequest: true, form: textForm, at: func(o *outputRow) any { return &o.Reasoning }, varied: true,
		null: func(o *outputRow) bool { return o.Reasoning == "" }},
	{Name: "tool_calls", Doc: "calls of tools as a JSON list in the form of OpenAI's API, which text then lacks; " +
		"null where there are none", OnRequest: true, form: textForm,
		at: func(o *outputRow) any { return &o.ToolCalls }, varied: true,
		null: func(o *outputRow) bool { return o.ToolCalls == "" }},
	{Name: JSONColumn, Doc: "the text as a value of the job's JSON schema; null where it is none, as when it was cut",
		OnRequest: true, form: jsonForm{}, at: func(o *outputRow) any { return &o.Text }, varied: true, unread: true},
}

func asksTops(s *parameter.Set) bool       { return s.TopLogprobs > 0 }
func asksPrompt(s *parameter.Set) bool     { return s.PromptLogprobs != parameter.NoPromptLogprobs }
func asksPromptTops(s *parameter.Set) bool { return s.PromptLogprobs > 0 }

// failed says that a row has an error in place of a completion.
func (o *outputRow) failed() bool { return o.Err != "" && o.Text == "" && o.CompletionTokens == 0 }

// Columns gives the columns of the output in their order, with those on request.
func Columns() iter.Seq[*Column] {
	return func(yield func(*Column) bool) {
		for i := range columns {
			if !yield(&columns[i]) {
				return
			}
		}
	}
}

// OnRequest returns names of columns on request in the order of the output, each once. The error says which is none.
func OnRequest(names []string) (ordered []string, err error) {
	var known []string
	for c := range Columns() {
		if c.OnRequest {
			known = append(known, c.Name)
		}
		if c.OnRequest && slices.Contains(names, c.Name) {
			ordered = append(ordered, c.Name)
		}
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("is %q, but must be one of %s", name, strings.Join(known, ", "))
		}
	}
	return ordered, nil
}

// CheckExcluded says why an output cannot do without columns of these names, given those that it has on request. A nil
// schema of the input is not known, and may have a column of any name.
func CheckExcluded(names []string, s *Schema, requested []string) error {
	if len(names) == 0 {
		return nil
	}
	var input *outputColumns
	if s != nil {
		input = newOutputColumns(s, requested, nil)
	}
	for _, name := range names {
		ours := written(requested)
		i := slices.IndexFunc(ours, func(c *Column) bool { return c.Name == name })
		switch {
		case i >= 0 && ours[i].OnRequest:
			return fmt.Errorf("has %q, which the output has because it is asked for, by `columns` or a parameter", name)
		case i >= 0 && !ours[i].mayLack:
			return fmt.Errorf("has %q, which every output needs to be resumed, verified and shown", name)
		case name == "logprobs" && slices.ContainsFunc(ours, func(c *Column) bool { return c.derived }):
			return fmt.Errorf("has %q, of which the column cumulative_logprob is made, and `columns` asks for it", name)
		case i < 0 && s != nil && !slices.ContainsFunc(input.input, func(n *node) bool { return n.name == name }):
			return fmt.Errorf("has %q, which is no column of the output: it may have %s", name,
				strings.Join(input.excludable(), ", "))
		}
	}
	return nil
}

// excludable names the columns that the output may do without.
func (o *outputColumns) excludable() (names []string) {
	for _, n := range o.input {
		names = append(names, n.name)
	}
	for _, c := range o.results {
		if c.mayLack {
			names = append(names, c.Name)
		}
	}
	return names
}

// Excludable names the columns of every output that [WriterOptions.Exclude] may have.
func Excludable() []string { return newOutputColumns(newSchema(), nil, nil).excludable() }

// written returns the columns of an output with so many on request.
func written(requested []string) (all []*Column) {
	for c := range Columns() {
		if !c.OnRequest || slices.Contains(requested, c.Name) {
			all = append(all, c)
		}
	}
	return all
}

// OutputColumns are the names of the columns that an output has after those of the input, in this order, unless
// [WriterOptions.Exclude] has them. An input column of one of these names is kept as input_<name>, but for id, whose
// values are the id's.
var OutputColumns = namesOf(written(nil))

func namesOf(columns []*Column) (names []string) {
	for _, c := range columns {
		names = append(names, c.Name)
	}
	return names
}

// Type returns the Parquet type of a column, for the documentation.
func (c *Column) Type() string {
	if c.Name == JSONColumn {
		return "struct or list, by the schema"
	}
	return c.node().describe()
}

// node is the column's place in a schema.
func (c *Column) node() *node {
	rep := required
	if c.null != nil {
		rep = optional
	}
	n := c.form.node(c.Name, rep)
	if !c.varied {
		dictionaries(n)
	}
	return n
}

func (c *Column) isNull(o *outputRow) bool { return c.null != nil && c.null(o) }

// appendJSON appends the column's value of a row.
func (c *Column) appendJSON(b []byte, o *outputRow) []byte {
	if c.isNull(o) {
		return append(b, "null"...)
	}
	return c.form.appendJSON(b, c.at(o))
}

// appendValues appends the column's values of a row, where column is its leaf.
func (c *Column) appendValues(row parquet.Row, o *outputRow, column int) parquet.Row {
	switch {
	case c.isNull(o):
		return append(row, parquet.NullValue().Level(0, 0, column))
	case c.null != nil:
		return c.form.appendValues(row, c.at(o), column, 1)
	}
	return c.form.appendValues(row, c.at(o), column, 0)
}

// read reads the column's value of a row by set, once those before it are read. Without set it is null.
func (c *Column) read(o *outputRow, set func(at any) error) error {
	at := c.at(o)
	if !c.derived {
		if set == nil {
			return nil
		}
		return set(at)
	}
	want, got := c.appendJSON(nil, o), []byte("null")
	if set != nil {
		if err := set(at); err != nil {
			return err
		}
		got = c.form.appendJSON(nil, at)
	}
	if !bytes.Equal(got, want) {
		o.contradicts = fmt.Sprintf("the %s %s, and its other columns make it %s", c.Name, got, want)
	}
	return nil
}

// form is how values of a type stand in files. A value is passed by a pointer to it.
type form interface {
	node(name string, rep repetition) *node
	// fits says whether a file's column has values of this form.
	fits(n *node) bool
	appendJSON(b []byte, at any) []byte
	appendValues(row parquet.Row, at any, column, def int) parquet.Row
	// setJSON and set read a value back; set gets one item of a list at a time, or null for an empty one.
	setJSON(at any, raw json.RawMessage) error
	set(at any, v parquet.Value)
}

var (
	textForm = scalarForm[string]{typ: parquet.String().Type(), json: appendText,
		value: func(s string) parquet.Value {
			if !utf8.ValidString(s) {
				s = strings.ToValidUTF8(s, "\uFFFD")
			}
			return parquet.ByteArrayValue([]byte(s))
		},
		of: func(v parquet.Value) string { return string(v.ByteArray()) }}
	integerForm = scalarForm[int]{typ: parquet.Int32Type,
		json:  func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) },
		value: func(n int) parquet.Value { return parquet.Int32Value(int32(n)) },
		of:    func(v parquet.Value) int { return int(v.Int32()) }}
	numberForm = scalarForm[float64]{typ: parquet.DoubleType,
		json:  func(b []byte, f float64) []byte { return appendFloat(b, f, 64) },
		value: parquet.DoubleValue,
		of:    parquet.Value.Double}
	integersForm = listForm[int32]{scalarForm[int32]{typ: parquet.Int32Type,
		json:  func(b []byte, n int32) []byte { return strconv.AppendInt(b, int64(n), 10) },
		value: parquet.Int32Value,
		of:    parquet.Value.Int32}}
	floatsForm = listForm[float32]{scalarForm[float32]{typ: parquet.FloatType,
		json:  func(b []byte, f float32) []byte { return appendFloat(b, float64(f), 32) },
		value: parquet.FloatValue,
		of:    parquet.Value.Float}}
)

type scalarForm[T any] struct {
	typ   parquet.Type
	json  func([]byte, T) []byte
	value func(T) parquet.Value
	of    func(parquet.Value) T
}

func (f scalarForm[T]) node(name string, rep repetition) *node    { return leafNode(name, rep, f.typ) }
func (f scalarForm[T]) fits(n *node) bool                         { return n.maxRep == 0 && f.holds(n) }
func (f scalarForm[T]) holds(n *node) bool                        { return n.leaf && n.typ.Kind() == f.typ.Kind() }
func (f scalarForm[T]) appendJSON(b []byte, at any) []byte        { return f.json(b, *at.(*T)) }
func (f scalarForm[T]) setJSON(at any, raw json.RawMessage) error { return json.Unmarshal(raw, at) }
func (f scalarForm[T]) set(at any, v parquet.Value)               { *at.(*T) = f.of(v) }
func (f scalarForm[T]) appendValues(row parquet.Row, at any, column, def int) parquet.Row {
	return append(row, f.value(*at.(*T)).Level(0, def, column))
}

type listForm[T any] struct{ scalarForm[T] }

func (f listForm[T]) node(name string, rep repetition) *node {
	return listNode(name, rep, leafNode("", required, f.typ))
}

func (f listForm[T]) fits(n *node) bool {
	e := n.element()
	return e != nil && e.maxRep > 0 && f.holds(e)
}

func (f listForm[T]) appendJSON(b []byte, at any) []byte {
	b = append(b, '[')
	for i, v := range *at.(*[]T) {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.json(b, v)
	}
	return append(b, ']')
}

func (f listForm[T]) appendValues(row parquet.Row, at any, column, def int) parquet.Row {
	items := *at.(*[]T)
	if len(items) == 0 {
		return append(row, parquet.NullValue().Level(0, def, column))
	}
	for i, v := range items {
		row = append(row, f.value(v).Level(min(i, 1), def+1, column))
	}
	return row
}

// setJSON takes null, as which infinities are written, for NaN, which is written as null too.
func (f listForm[T]) setJSON(at any, raw json.RawMessage) error {
	list, floats := at.(*[]float32)
	if !floats || !bytes.Contains(raw, []byte("null")) || bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, at)
	}
	var items []*float32
	err := json.Unmarshal(raw, &items)
	*list = floatsOf(items)
	return err
}

func (f listForm[T]) set(at any, v parquet.Value) {
	items := at.(*[]T)
	if v.IsNull() {
		*items = []T{}
		return
	}
	*items = append(*items, f.of(v))
}
