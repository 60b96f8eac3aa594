package table

import (
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/promptset/schema"
)

// PromptReader reads the prompts of the rows of a Parquet file.
type PromptReader struct {
	groupReader
	request *schema.Node // the column body if the rows are lines of batch files
}

func NewPromptReader(root *schema.Node) *PromptReader {
	r := &PromptReader{groupReader: groupReader{table: &Table{Root: root, Known: map[string]*schema.Node{}},
		columns: make([][]parquet.Value, root.Leaves)}}
	if !slices.ContainsFunc(openai.Keys, func(key string) bool { return root.Field(key) == nil }) {
		r.request = root.Field("body")
	}
	for _, name := range schema.PromptNames {
		if c := root.Field(name); c != nil && !c.IsNull() && schema.Fits(name, c) {
			r.table.Known[name] = c
		}
	}
	return r
}

// Of returns the prompt of a row's values, from a column of the input if one is named.
func (r *PromptReader) Of(values parquet.Row, column string) string {
	row := &record.Builder{Row: &record.Row{}}
	if r.place(values) != nil {
		return row.PromptText()
	}
	if body := r.request; body != nil && r.present(body) {
		return r.requestOf(values)
	}
	if column != "" {
		fields := r.table.Root.Fields
		var names []string
		for _, f := range fields {
			names = append(names, f.Name)
		}
		i := completion.PassedAt(column, names)
		if i >= 0 && !fields[i].IsNull() && schema.Fits("prompt", fields[i]) && r.present(fields[i]) {
			r.decodeKnown(row, "prompt", fields[i])
			row.Kind = record.KindText
		}
		return row.PromptText()
	}
	for _, name := range schema.PromptNames {
		if c := r.table.Known[name]; c != nil && r.present(c) {
			r.decodeKnown(row, name, c)
			row.Kind = record.PromptKinds[name]
			break
		}
	}
	return row.PromptText()
}

// requestOf returns the prompt of a row's values that are a line of a batch file.
func (r *PromptReader) requestOf(values parquet.Row) string {
	var object record.Object
	a := &schema.Assembler{Values: values}
	a.Index()
	for _, c := range r.table.Root.Fields {
		if raw := a.Append(nil, c); slices.Contains(openai.Keys, c.Name) {
			object = append(object, jsonvalue.Member{Key: c.Name, Raw: raw})
		}
	}
	return requests.PromptText(object)
}
