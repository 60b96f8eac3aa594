package completion

import (
	"bytes"
	"fmt"
	"iter"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/schema"
)

// Row is one row of the output, without the input's columns.
type Row struct {
	ID string
	*Result
}

// Column is a column that the writer adds after the input's columns.
type Column struct {
	Name string
	Doc  string
	// Tasks are the tasks whose outputs have the column; none stands for [Generate].
	Tasks []Task
	// OnRequest reports whether the column exists only if [Shape.Requested] asks for it.
	OnRequest bool
	// Parameter names a parameter that asks for the column, too: if an input column sets it, and in jobs for which
	// AskedBy holds.
	Parameter string
	AskedBy   func(*parameter.Set) bool
	// ByJob is what a job does if and only if its output has the column; "" for columns that may be named.
	ByJob string

	form form
	// pointer returns a pointer to the row's value, of the form's type. The writer reads the value through it, and the
	// reader sets it.
	pointer func(*Row) any
	// null reports whether a row has no value; if it is nil, every row has one.
	null func(*Row) bool
	// derived reports whether the value is computed from the row's other columns: pointer computes it each time. A
	// value that is read back is compared with it.
	derived bool
	// mayLack reports whether an output may omit the column: readers of outputs accept that.
	mayLack bool
	// unread reports whether the value follows from the row's other columns and is not read back.
	unread bool
	// varied reports whether values seldom repeat, so that a dictionary would only take space.
	varied bool
}

// always reports whether every output of the column's tasks has it.
func (c *Column) always() bool { return !c.OnRequest && !c.mayLack }

// in reports whether outputs of a task may have the column.
func (c *Column) in(t Task) bool {
	return len(c.Tasks) == 0 && t == Generate || slices.Contains(c.Tasks, t)
}

// tokenColumn is the column of token ids, and ChoicesColumn the one of the probabilities of choices.
const (
	tokenColumn   = "token_ids"
	ChoicesColumn = "choice_probabilities"
)

// columns lists the output's columns in order. To add one, add an entry at the end of those on request; a number that
// the engine reports with each token is an entry of measures.
var columns = slices.Concat([]Column{
	{Name: "id", Doc: "the row's id, else its number in the input, from 0; empty if the id cannot be read",
		Tasks: anyTask, form: textForm, pointer: func(o *Row) any { return &o.ID }},
	{Name: "generation", Doc: "number of the completion among the row's completions, from 0",
		Tasks: anyTask, form: integerForm, pointer: func(o *Row) any { return &o.Generation }},
	{Name: "text", Doc: "the completion as text; null if there is none",
		form: textForm, pointer: func(o *Row) any { return &o.Text }, null: (*Row).failed, varied: true},
	{Name: tokenColumn, Doc: "its tokens; null if there are none",
		form: integersForm, pointer: func(o *Row) any { return &o.TokenIDs }, null: (*Row).failed,
		mayLack: true},
	{Name: "logprobs", Doc: "natural logarithm of each token's probability, before temperature and filters",
		form: floatsForm, pointer: func(o *Row) any { return &o.Logprobs }, varied: true, mayLack: true,
		null: func(o *Row) bool { return o.Logprobs == nil }},
	{Name: reasonColumn, Doc: "why it ended: stop, length, tool_calls (it calls tools, and was not truncated) or " +
		"error",
		form: textForm, pointer: func(o *Row) any { return &o.FinishReason }},
	{Name: VectorColumn, Doc: "the vector of the prompt; null if there is an error", Tasks: []Task{Embed},
		form: vectorOfType(Float32), pointer: vectorOf, varied: true, null: hasNoVector},
	{Name: vectorsColumn, Doc: "the vectors of the tokens of the prompt, in their order; null if there is an error",
		Tasks: []Task{MultiVector}, form: vectorsOfType(Float32), varied: true,
		pointer: func(o *Row) any { return &o.Vectors }, null: func(o *Row) bool { return o.Vectors == nil }},
	{Name: "label", Doc: "the class with the largest score; null if there is an error", Tasks: []Task{Classify},
		form: textForm, pointer: func(o *Row) any { return &o.Label }, null: hasNoVector},
	{Name: scoresColumn, Doc: "the scores of the classes, in the order of the model's labels; null if there is an " +
		"error", Tasks: []Task{Classify}, form: vectorOfType(Float32), pointer: vectorOf, varied: true,
		null: hasNoVector},
	{Name: scoresColumn, Doc: "the scores of the documents, in their order; null if there is an error",
		Tasks: []Task{Rerank}, form: floatsForm, pointer: vectorOf, varied: true, null: hasNoVector},
	{Name: "ranking", Doc: "the numbers of the documents, from 0, by their scores, the best first; null if there " +
		"is an error", Tasks: []Task{Rerank}, form: integersForm, pointer: func(o *Row) any { return &o.Ranking },
		varied: true, null: hasNoVector},
	{Name: "labels", Doc: "the label of each labeled part of the text, in their order; null if there is an error",
		Tasks: []Task{Tag}, form: textsForm, pointer: func(o *Row) any { return &o.Labels }, null: hasNoVector},
	{Name: "starts", Doc: "for each of labels the number of its first character in the text, from 0",
		Tasks: []Task{Tag}, form: integersForm, pointer: func(o *Row) any { return &o.Starts }, varied: true,
		null: hasNoVector},
	{Name: "ends", Doc: "for each of labels the number of the character after its last one",
		Tasks: []Task{Tag}, form: integersForm, pointer: func(o *Row) any { return &o.Ends }, varied: true,
		null: hasNoVector},
	{Name: scoresColumn, Doc: "for each of labels the mean of the scores of its tokens",
		Tasks: []Task{Tag}, form: floatsForm, pointer: vectorOf, varied: true, null: hasNoVector},
	{Name: "prompt_tokens", Doc: "number of tokens of the prompt",
		Tasks: anyTask, form: integerForm, pointer: func(o *Row) any { return &o.PromptTokens }},
	{Name: "completion_tokens", Doc: "number of tokens of the completion",
		form: integerForm, pointer: func(o *Row) any { return &o.CompletionTokens }},
	{Name: "truncated", Doc: "whether the prompt was cut off, because it has more tokens than the model takes",
		Tasks: []Task{Embed, MultiVector, Classify, Rerank, Tag}, form: flagForm, mayLack: true,
		pointer: func(o *Row) any { return &o.Truncated }},
	{Name: "error", Doc: "what is wrong with the row; null if nothing is",
		Tasks: anyTask, form: textForm, pointer: func(o *Row) any { return &o.Err },
		null: func(o *Row) bool { return o.Err == "" }},

	{Name: "cumulative_logprob", Doc: "sum of logprobs; null if there is an error", OnRequest: true,
		form: numberForm, derived: true, varied: true,
		pointer: func(o *Row) any {
			sum := 0.0
			for _, p := range o.Logprobs {
				sum += float64(p)
			}
			return &sum
		},
		null: func(o *Row) bool { return o.Err != "" }},
	{Name: processedColumn, Doc: "natural logarithm of each token's probability among the tokens that it was " +
		"sampled from, after temperature and filters; 0 if temperature is 0", OnRequest: true,
		form: floatsForm, pointer: func(o *Row) any { return &o.ProcessedLogprobs }, varied: true,
		null: func(o *Row) bool { return o.ProcessedLogprobs == nil }},
	{Name: "top_ids", Doc: "for each token of the completion the likeliest tokens there, the likeliest first; null " +
		"if the row has no top_logprobs", OnRequest: true, Parameter: "top_logprobs", AskedBy: asksTops,
		form: integerListsForm, pointer: func(o *Row) any { return &o.TopIDs }, varied: true,
		null: func(o *Row) bool { return o.TopIDs == nil }},
	{Name: "top_logprobs", Doc: "natural logarithms of the probabilities of top_ids, before temperature and filters",
		OnRequest: true, Parameter: "top_logprobs", AskedBy: asksTops,
		form: floatListsForm, pointer: func(o *Row) any { return &o.TopLogprobs }, varied: true,
		null: func(o *Row) bool { return o.TopLogprobs == nil }},
	{Name: "prompt_token_ids", Doc: "the tokens of the prompt; null if there are none", OnRequest: true,
		Tasks: []Task{Generate, Embed, MultiVector, Classify, Tag}, Parameter: "prompt_logprobs", AskedBy: asksPrompt,
		form: integersForm, pointer: func(o *Row) any { return &o.PromptTokenIDs },
		null: func(o *Row) bool { return o.PromptTokenIDs == nil }},
	{Name: "prompt_logprobs", Doc: "natural logarithm of the probability of each token of the prompt given the " +
		"tokens before it; null for the first", OnRequest: true, Parameter: "prompt_logprobs", AskedBy: asksPrompt,
		form: scoresForm, pointer: func(o *Row) any { return &o.PromptLogprobs }, varied: true,
		null: func(o *Row) bool { return o.PromptLogprobs == nil }},
	{Name: "prompt_top_ids", Doc: "for each token of the prompt the likeliest tokens there, the likeliest first; " +
		"none for the first", OnRequest: true, Parameter: "prompt_logprobs", AskedBy: asksPromptTops,
		form: integerListsForm, pointer: func(o *Row) any { return &o.PromptTopIDs }, varied: true,
		null: func(o *Row) bool { return o.PromptTopIDs == nil }},
	{Name: "prompt_top_logprobs", Doc: "natural logarithms of the probabilities of prompt_top_ids", OnRequest: true,
		Parameter: "prompt_logprobs", AskedBy: asksPromptTops,
		form: floatListsForm, pointer: func(o *Row) any { return &o.PromptTopLogprobs }, varied: true,
		null: func(o *Row) bool { return o.PromptTopLogprobs == nil }},
	{Name: "reasoning", Doc: "the reasoning before the answer, which text then lacks; null if there is none",
		OnRequest: true, form: textForm, pointer: func(o *Row) any { return &o.Reasoning }, varied: true,
		null: func(o *Row) bool { return o.Reasoning == "" }},
	{Name: "tool_calls", Doc: "calls of tools as a JSON list in the form of OpenAI's API, which text then lacks; " +
		"null if there are none", OnRequest: true, form: textForm,
		pointer: func(o *Row) any { return &o.ToolCalls }, varied: true,
		null: func(o *Row) bool { return o.ToolCalls == "" }},
	{Name: JSONColumn, Doc: "the text as a value of the job's JSON schema; null if it is not one, for example if it " +
		"was truncated",
		OnRequest: true, form: jsonForm{}, pointer: func(o *Row) any { return &o.Text }, varied: true, unread: true},
}, measureColumns(), []Column{
	{Name: "weights_versions", Doc: "versions of the weights that generated the tokens, in order: fingerprints of " +
		"checkpoints, more than one if --on-swap is continue; null if there is an error", OnRequest: true,
		form:    textsForm,
		pointer: func(o *Row) any { return &o.WeightsVersions },
		null:    func(o *Row) bool { return o.WeightsVersions == nil }},
	{Name: "weights_starts", Doc: "for each of weights_versions the number of the first token that it generated, " +
		"from 0", OnRequest: true, form: integersForm, pointer: func(o *Row) any { return &o.WeightsStarts },
		null: func(o *Row) bool { return o.WeightsStarts == nil }},
	{Name: "weights_version", Doc: "version of the weights that computed the prompt and generated the first token",
		OnRequest: true, form: textForm, pointer: firstVersion,
		null: func(o *Row) bool { return o.WeightsVersions == nil }},
	{Name: expertsColumn, Doc: "the experts of a mixture that computed each token's distribution, as one list: by " +
		"token, then by layer with experts, ascending within a layer; as many for each token; null if there is an " +
		"error",
		OnRequest: true, form: expertsForm, pointer: func(o *Row) any { return &o.Experts },
		null: func(o *Row) bool { return o.Experts == nil }},
	{Name: HiddenColumn, Doc: "hidden states of --hidden-layers, as little-endian numbers of --hidden-dtype: of the " +
		"position before the last token or before each token (--hidden-tokens), by token, then by layer; base64 in " +
		"JSONL; null if there is an error", OnRequest: true, form: bytesForm, varied: true,
		pointer: func(o *Row) any { return &o.Hidden }, null: func(o *Row) bool { return o.Hidden == nil }},
	{Name: "token_labels", Doc: "the label of each token of the prompt, special tokens included; null if there is an " +
		"error", OnRequest: true, Tasks: []Task{Classify, Tag}, form: textsForm,
		pointer: func(o *Row) any { return &o.TokenLabels }, null: hasNoVector},
	{Name: ChoicesColumn, Doc: "the probability of each of the texts of the row's choice, in their order; null if " +
		"it has none", OnRequest: true, form: floatsForm, varied: true,
		pointer: func(o *Row) any { return &o.ChoiceProbabilities },
		null:    func(o *Row) bool { return o.ChoiceProbabilities == nil }},
	{Name: VectorColumn, Doc: "the vector of the prompt: the hidden state of its last token; null if the row does " +
		"not ask for it, or has an error", OnRequest: true, form: vectorOfType(Float32), varied: true,
		pointer: func(o *Row) any { return &o.Embedding }, null: func(o *Row) bool { return o.Embedding == nil }},
}, judgedColumns, conversationColumns)

// conversationColumns are the columns of a job whose completions may call tools.
var conversationColumns = []Column{
	{Name: "messages", Doc: "the whole conversation as a JSON list in the form of OpenAI's API: the row's messages, " +
		"each turn of the model, and the results of its calls; null if there is none", OnRequest: true,
		ByJob: "calls tools", form: textForm, pointer: func(o *Row) any { return &o.Messages }, varied: true,
		null: func(o *Row) bool { return o.Messages == "" }},
	{Name: "turns", Doc: "number of turns of the model; null if there is none", OnRequest: true,
		ByJob: "calls tools", form: integerForm, pointer: func(o *Row) any { return &o.Turns },
		null: func(o *Row) bool { return o.Turns == 0 }},
	{Name: "completion_mask", Doc: "for each of token_ids 1 if the model generated it, and 0 if it stands between " +
		"two turns (its logprob is 0 then); null if there is none", OnRequest: true, ByJob: "calls tools",
		form: integersForm, pointer: func(o *Row) any { return &o.Mask },
		null: func(o *Row) bool { return o.Mask == nil }},
}

// ConversationColumns returns the names of the columns of a job whose completions may call tools.
func ConversationColumns() []string { return namesIn(conversationColumns) }

// firstVersion is where a row has the version of the weights of its first token.
func firstVersion(o *Row) any {
	if len(o.WeightsVersions) == 0 { // it is read back
		o.WeightsVersions = []string{""}
	}
	return &o.WeightsVersions[0]
}

// measureColumns are the columns of measures, all on request.
func measureColumns() (all []Column) {
	for m := range measures {
		all = append(all, Column{Name: measures[m].name, Doc: measures[m].doc, OnRequest: true,
			form: floatsForm, pointer: func(o *Row) any { return &o.Measures[m] }, varied: true,
			null: func(o *Row) bool { return o.Measures[m] == nil }})
	}
	return all
}

func asksTops(s *parameter.Set) bool { return s.TopLogprobs > 0 }

func asksPrompt(s *parameter.Set) bool { return s.PromptLogprobs != parameter.NoPromptLogprobs }

func asksPromptTops(s *parameter.Set) bool { return s.PromptLogprobs > 0 }

// failed reports whether a row has an error in place of a completion.
func (o *Row) failed() bool { return o.Err != "" && o.Text == "" && o.CompletionTokens == 0 }

// Columns iterates over the columns of completions in order, including those on request.
func Columns() iter.Seq[*Column] { return Generate.Columns() }

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
	return c.node().Describe()
}

// node returns the column's node in a schema.
func (c *Column) node() *schema.Node {
	rep := schema.Required
	if c.null != nil {
		rep = schema.Optional
	}
	n := c.form.node(c.Name, rep)
	if !c.varied {
		schema.Dictionaries(n)
	}
	return n
}

// IsVector reports whether the column has lists that all have the length of the job's vectors.
func (c *Column) IsVector() bool {
	_, is := c.form.(vectorForm)
	return is
}

// HasVectors reports whether the column has lists of such lists.
func (c *Column) HasVectors() bool {
	_, has := c.form.(vectorsForm)
	return has
}

// IsOfVectors reports whether it is either.
func (c *Column) IsOfVectors() bool { return c.IsVector() || c.HasVectors() }

func vectorOf(o *Row) any { return &o.Vector }

func hasNoVector(o *Row) bool { return o.Vector == nil }

func (c *Column) isNull(o *Row) bool { return c.null != nil && c.null(o) }

// AppendJSON appends a row's value of the column.
func (c *Column) AppendJSON(b []byte, o *Row) []byte {
	if c.isNull(o) {
		return append(b, "null"...)
	}
	return c.form.appendJSON(b, c.pointer(o))
}

// AppendValues appends a row's values of the column, where column is the number of its leaf.
func (c *Column) AppendValues(row parquet.Row, o *Row, column int) parquet.Row {
	switch {
	case c.isNull(o):
		return append(row, parquet.NullValue().Level(0, 0, column))
	case c.null != nil:
		return c.form.appendValues(row, c.pointer(o), column, 1)
	}
	return c.form.appendValues(row, c.pointer(o), column, 0)
}

// read sets a row's value of the column by set, after the columns before it. Without set it is null.
func (c *Column) read(o *Row, set func(ptr any) error) error {
	if !c.derived {
		if set == nil {
			return nil
		}
		return set(c.pointer(o))
	}
	ptr := c.pointer(o)
	want, actual := c.AppendJSON(nil, o), []byte("null")
	if set != nil {
		if err := set(ptr); err != nil {
			return err
		}
		actual = c.form.appendJSON(nil, ptr)
	}
	if !bytes.Equal(actual, want) {
		o.Contradicts = fmt.Sprintf("the %s %s, and its other columns make it %s", c.Name, actual, want)
	}
	return nil
}
