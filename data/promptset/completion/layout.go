package completion

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/setting"
)

// CheckExcluded returns an error if an output cannot omit the columns that are excluded. A nil schema means that the
// input is unknown and may have a column of any name.
func (o *Shape) CheckExcluded(s *schema.Schema) error {
	if len(o.Excluded) == 0 {
		return nil
	}
	var input *Layout
	if s != nil {
		whole := *o
		whole.Excluded = nil
		input = NewLayout(s, whole)
	}
	for _, name := range o.Excluded {
		ours := o.Columns()
		i := slices.IndexFunc(ours, func(c *Column) bool { return c.Name == name })
		switch {
		case i >= 0 && ours[i].OnRequest:
			return setting.Errorf("has %q, which the output has because it is asked for, by `columns` or a "+
				"parameter", name)
		case i >= 0 && !ours[i].mayLack:
			return fmt.Errorf("has %q, which every output needs to be resumed, verified and shown", name)
		case name == "logprobs" && slices.ContainsFunc(ours, func(c *Column) bool { return c.derived }):
			return setting.Errorf("has %q, from which the column cumulative_logprob is computed, and `columns` "+
				"asks for it", name)
		case i < 0 && s != nil && !slices.ContainsFunc(input.Input,
			func(n *schema.Node) bool { return n.Name == name }):
			return fmt.Errorf("has %q, which is not a column of the output: it may have %s", name,
				strings.Join(input.excludable(), ", "))
		}
	}
	return nil
}

// excludable returns the columns that the output may omit.
func (o *Layout) excludable() (names []string) {
	for _, n := range o.Input {
		names = append(names, n.Name)
	}
	for _, c := range o.Results {
		if c.mayLack {
			names = append(names, c.Name)
		}
	}
	return names
}

// Excludable returns the columns of every output of completions that [Shape.Excluded] may name.
func Excludable() []string { return NewLayout(schema.New(), Shape{}).excludable() }

// sameMembers compares a row of JSONL.
func (o *Layout) sameMembers(row *record.Row, c *Completion) bool {
	end := slices.IndexFunc(c.Members, func(m jsonvalue.Member) bool { return m.Key == columns[0].Name })
	if end < 0 {
		end = len(c.Members)
	}
	actual := record.Object(c.Members[:end]).AppendJSON([]byte{'{'},
		func(key string) (string, bool) { return key, true })
	return bytes.Equal(o.AppendPassed([]byte{'{'}, row), actual)
}

// AppendPassed appends a row's input columns, in their order, to the object being written.
func (o *Layout) AppendPassed(b []byte, row *record.Row) []byte {
	if row.Source == nil {
		return b
	}
	return row.Source.AppendJSON(b, func(column string) (string, bool) { return o.nameOf(column, row.Source) })
}

// Layout has the columns of the output: the input's columns under their output names, then ours.
type Layout struct {
	schema.Passed
	Root  *schema.Node // the root of input
	Open  bool         // the input is unknown: each row has its own columns
	lacks []string     // the output's names of omitted columns

	Results []*Column
	ours    []string     // the names of results, and of our columns that the output omits
	Vectors VectorType   // of an output of vectors
	Result  *schema.Node // number of the first result's leaf
}

// NewLayout returns the columns of an output of a shape. Excluding columns does not change the names of others.
func NewLayout(s *schema.Schema, shape Shape) *Layout {
	excluded := shape.Excluded
	o := &Layout{Root: schema.Group("completions", schema.Required), Passed: schema.Passed{Rename: map[string]int{}},
		lacks: excluded}
	o.Results = shape.Columns()
	o.Vectors = shape.Vectors
	o.ours = namesOf(o.Results)
	o.Results = slices.DeleteFunc(o.Results, func(c *Column) bool { return slices.Contains(excluded, c.Name) })
	taken := slices.Concat(o.ours, s.Columns())
	for _, f := range s.Root.Fields {
		if f.Name == record.IDColumn {
			continue
		}
		c := f.Clone()
		for slices.Contains(o.ours, c.Name) || c.Name != f.Name && slices.Contains(taken, c.Name) {
			c.Name = "input_" + c.Name
		}
		taken = append(taken, c.Name)
		if slices.Contains(excluded, c.Name) {
			continue
		}
		emptyAsText(c)
		schema.Dictionaries(c)
		o.Rename[f.Name] = len(o.Input)
		o.Input = append(o.Input, c)
		o.Source = append(o.Source, f.Name)
	}
	o.Root.Fields = slices.Clone(o.Input)
	for _, c := range o.Results {
		o.Root.Fields = append(o.Root.Fields, c.node())
	}
	o.Result = o.Root.Fields[len(o.Input)]
	schema.Number(o.Root)
	o.Leaf = slices.Repeat([]int{-1}, s.Root.Leaves)
	for i, name := range o.Source {
		src := s.Root.Field(name)
		for j := range src.Leaves {
			o.Leaf[src.Column+j] = o.Input[i].Column + j
		}
	}
	return o
}

// nameOf returns the output name of a row's column; false means that it is not passed through.
func (o *Layout) nameOf(key string, row record.Source) (name string, ok bool) {
	if !o.Open {
		i, ok := o.Rename[key]
		if !ok {
			return "", false
		}
		return o.Input[i].Name, true
	}
	name = key
	taken := func(name string) bool {
		return slices.Contains(o.ours, name) || name != key && row.Has(name)
	}
	for taken(name) {
		name = "input_" + name
	}
	return name, key != "id" && !slices.Contains(o.lacks, name)
}

// emptyAsText gives lists that are empty in all files a type of elements that readers support.
func emptyAsText(n *schema.Node) {
	for _, f := range n.Fields {
		emptyAsText(f)
	}
	if n.IsEmpty() {
		n.Type = parquet.String().Type()
	}
}

// Shred sets values, by leaf, to a row's columns that are passed through; nulls if it does not have them.
func (o *Layout) Shred(row *record.Row, values [][]parquet.Value) {
	if row.Source != nil {
		row.Source.AppendValues(values, &o.Passed)
	}
	o.fill(values)
}

// fill adds a null to each leaf of the passed-through columns that has no value.
func (o *Layout) fill(values [][]parquet.Value) {
	for i, column := range values[:o.Result.Column] {
		if len(column) == 0 {
			values[i] = append(column, parquet.NullValue().Level(0, 0, i))
		}
	}
}
