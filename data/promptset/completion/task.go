package completion

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
)

// Task is what a job computes for each prompt. The columns of an output depend on it.
type Task string

// The tasks.
const (
	Generate Task = ""         // completions
	Embed    Task = "embed"    // a vector
	Classify Task = "classify" // scores of classes
	Rerank   Task = "rerank"   // scores of documents
	// Tag is what [Classify] becomes for a model that scores tokens: the labels of parts of the text.
	Tag Task = "tag"
	// MultiVector is what [Embed] becomes for late interaction: a vector for each token.
	MultiVector Task = "multi-vector"
)

// description is what a task is, besides its columns.
type description struct {
	task    Task
	results string // what rows have, for people
	reads   record.Reads
}

// descriptions lists all tasks.
var descriptions = []description{
	{Generate, "completions", record.Reads{}},
	{Embed, "vectors", record.Reads{PromptsAlone: true, Endpoints: []openai.Endpoint{openai.Embeddings}}},
	{Classify, "classes", record.Reads{PromptsAlone: true, Seconds: []string{"text_pair"},
		Endpoints: []openai.Endpoint{openai.Classify}}},
	{Rerank, "rankings", record.Reads{PromptsAlone: true, Prompt: "query", Seconds: []string{"documents", "document"},
		NeedsSeconds: true, Endpoints: []openai.Endpoint{openai.Rerank, openai.Score}}},
	{Tag, "labeled texts", record.Reads{PromptsAlone: true, Seconds: []string{"text_pair"},
		Endpoints: []openai.Endpoint{openai.Classify}}},
	{MultiVector, "lists of vectors", record.Reads{PromptsAlone: true}},
}

var anyTask = func() (all []Task) {
	for _, d := range descriptions {
		all = append(all, d.task)
	}
	return all
}()

// description returns what the task is; that of a task that does not exist is empty.
func (t Task) description() (found description) {
	for _, d := range descriptions {
		if d.task == t {
			found = d
		}
	}
	return found
}

// IsTask reports whether there is such a task.
func (t Task) IsTask() bool { return t.description().results != "" }

// Encodes reports whether the task is an encoder's: each prompt has one result, and nothing is generated.
func (t Task) Encodes() bool { return t.description().reads.PromptsAlone }

// Results returns what rows have, for people, such as "vectors".
func (t Task) Results() string {
	return cmp.Or(t.description().results, Generate.description().results)
}

// Reads returns what is read of the task's rows.
func (t Task) Reads() record.Reads {
	d := t.description()
	d.reads.Makes = d.results
	return d.reads
}

// Columns iterates over the columns that outputs of the task may have, in order, including those on request.
func (t Task) Columns() iter.Seq[*Column] {
	return func(yield func(*Column) bool) {
		for i := range columns {
			if columns[i].in(t) && !yield(&columns[i]) {
				return
			}
		}
	}
}

// OnRequest returns names of columns on request in the order of the output, each once. The error names an unknown
// one.
func (t Task) OnRequest(names []string) (ordered []string, err error) {
	var known, others []string // nothing but the job may name others
	for c := range t.Columns() {
		switch {
		case c.ByJob != "":
			others = append(others, c.Name)
		case c.OnRequest:
			known = append(known, c.Name)
		}
		if c.OnRequest && slices.Contains(names, c.Name) {
			ordered = append(ordered, c.Name)
		}
	}
	for _, name := range names {
		if slices.Contains(known, name) || slices.Contains(others, name) {
			continue
		}
		has := func(in bool) bool {
			return slices.ContainsFunc(columns, func(c Column) bool { return c.Name == name && c.in(t) == in })
		}
		if has(false) && !has(true) {
			remedy := "leave it out"
			if len(known) > 0 {
				remedy = "give one of " + strings.Join(known, ", ") + ", or " + remedy
			}
			return nil, fmt.Errorf("is %q, which outputs with %s do not have: %s", name, t.Results(), remedy)
		}
		return nil, fmt.Errorf("is %q, but must be one of %s", name, strings.Join(known, ", "))
	}
	return ordered, nil
}

// taskOf returns the task that an output is of, from the names of its columns: the first one whose columns are all
// there. Input columns may have names of columns of another task.
func taskOf(has func(name string) bool) Task {
	for _, t := range anyTask {
		lacks := false
		for c := range t.Columns() {
			lacks = lacks || c.always() && !has(c.Name)
		}
		if !lacks {
			return t
		}
	}
	if has(VectorColumn) && !has(reasonColumn) {
		return Embed
	}
	return Generate
}

// Shape is what columns of its own an output has. The zero value is the shape of an output of completions.
type Shape struct {
	Task Task
	// Requested are the columns on request: see [Column].
	Requested []string
	// Excluded are the columns that the output omits: columns that are passed through, by their output names, and the
	// columns in [Excludable].
	Excluded []string
	// JSON is the type of [JSONColumn], if the output has it; with nil it is text that holds JSON.
	JSON *JSONType
	// Vectors is the type of the vectors, for [Embed] and [MultiVector], and of the scores, for [Classify].
	Vectors VectorType
}

// Columns returns the output's columns in order, excluded ones too.
func (o *Shape) Columns() (all []*Column) {
	for c := range o.Task.Columns() {
		if !c.OnRequest || slices.Contains(o.Requested, c.Name) {
			all = append(all, o.typed(c))
		}
	}
	return all
}

// typed returns a column whose type depends on the job with this type.
func (o *Shape) typed(c *Column) *Column {
	own := *c
	switch {
	case c.Name == JSONColumn && o.JSON != nil:
		own.form = jsonForm{o.JSON}
	case c.IsVector():
		own.form = vectorOfType(o.Vectors.Element)
	case c.HasVectors():
		own.form = vectorsOfType(o.Vectors.Element)
	default:
		return c
	}
	return &own
}
