package completion

import (
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// SameColumns reports whether rows of a job's input have the same output columns as with an earlier schema of the
// input, given the shapes of the outputs.
func SameColumns(format string, was, now *schema.Schema, wasShape, nowShape Shape) bool {
	a, b := NewLayout(was, wasShape), NewLayout(now, nowShape)
	if format == folder.Parquet {
		return a.Root.Layout() == b.Root.Layout()
	}
	if !slices.Equal(namesOf(a.Results), namesOf(b.Results)) {
		return false
	}
	for i, name := range a.Source { // a JSONL row has only its own columns
		j, there := b.Rename[name]
		if !there || a.Input[i].Layout() != b.Input[j].Layout() {
			return false
		}
	}
	return true
}

// RowCompare checks whether rows of an output have the columns that input rows give them.
type RowCompare struct {
	columns *Layout
	format  string
	part    *schema.Node // schema of the last completion's part, from which the next three follow
	was     []*schema.Node
	// moved maps values of the part's columns to their current types, for rows of Parquet and Arrow.
	moved *schema.Placement
	fault error
	// Retyped reports whether parts that were compared have different columns from the ones that the output has now.
	Retyped bool
}

// NewRowCompare compares with input rows of that schema, in an output of that format and shape.
func NewRowCompare(format string, s *schema.Schema, shape Shape) *RowCompare {
	return &RowCompare{columns: NewLayout(s, shape), format: format}
}

// Same reports whether a completion has the columns of a row. A column may have a wider type now. It is an error if
// the current type cannot represent the earlier values.
func (r *RowCompare) Same(row *record.Row, c *Completion) (bool, error) {
	if r.format != folder.Parquet {
		return r.columns.sameMembers(row, c), nil
	}
	if c.Columns != r.part {
		r.take(c.Columns)
	}
	if _, untyped := objectOfRow(row); !untyped && r.fault != nil {
		return false, r.fault
	}
	return r.sameValues(row, c), nil
}

// objectOfRow returns the members of a row whose values have no types.
func objectOfRow(row *record.Row) (record.Object, bool) {
	source, ok := row.Source.(interface{ Members() record.Object })
	if !ok || source.Members() == nil {
		return nil, false
	}
	return source.Members(), true
}

// take compares the columns of a part with the columns that the output has now.
func (r *RowCompare) take(part *schema.Node) {
	r.part, r.moved, r.fault = part, nil, nil
	end := slices.IndexFunc(part.Fields, func(n *schema.Node) bool { return n.Name == columns[0].Name })
	r.was = part.Fields[:max(0, end)]
	if schema.SameTypes(part.Fields, r.columns.Root.Fields) {
		return
	}
	r.Retyped = true
	r.moved = &schema.Placement{Leaves: make([]schema.LeafPlace, part.Leaves)}
	for i := range r.moved.Leaves {
		r.moved.Leaves[i].Column = -1
	}
	for _, was := range r.was {
		now := r.columns.Root.Field(was.Name)
		if now == nil {
			continue
		}
		if m := schema.Merge(now, was); m == nil || !schema.SameTypes([]*schema.Node{m}, []*schema.Node{now}) {
			r.fault = fmt.Errorf("column %q is %s there and %s in the input now, which does not hold it: give it a "+
				"type that does, such as the one that it had", was.Name, was.Describe(), now.Describe())
			return
		}
		alone := schema.Group("row", schema.Required, was.Clone())
		schema.Number(alone)
		l, err := (&schema.Schema{Root: r.columns.Root}).Place(alone)
		if err != nil {
			r.fault = err
			return
		}
		copy(r.moved.Leaves[was.Column:], l.Leaves)
	}
}

// sameValues compares a row of Parquet.
func (r *RowCompare) sameValues(row *record.Row, c *Completion) bool {
	if object, untyped := objectOfRow(row); untyped && r.moved != nil {
		return r.sameObject(object, c)
	}
	o := r.columns
	want := make([][]parquet.Value, o.Root.Leaves)
	o.Shred(row, want)
	actual := make([][]parquet.Value, o.Root.Leaves)
	for _, v := range c.Values {
		column := v.Column()
		if r.moved == nil {
			actual[column] = append(actual[column], v)
			continue
		}
		switch place := &r.moved.Leaves[column]; {
		case place.Column >= 0:
			actual[place.Column] = append(actual[place.Column], place.Moved(v, place.Column))
		case !v.IsNull() && slices.ContainsFunc(r.was, func(n *schema.Node) bool {
			return n.Column <= column && column < n.Column+n.Leaves
		}):
			return false // the column is no longer in the input
		}
	}
	o.fill(actual)
	for i := range o.Result.Column {
		if !slices.EqualFunc(want[i], actual[i], parquet.DeepEqual) {
			return false
		}
	}
	return true
}

// sameObject compares a row of JSON. Its values are converted to the columns of the part.
func (r *RowCompare) sameObject(object record.Object, c *Completion) bool {
	want, actual := schema.Shredder{Columns: make([][]parquet.Value, r.part.Leaves)}, make([][]parquet.Value,
		r.part.Leaves)
	for _, m := range object {
		i, passed := r.columns.Rename[m.Key]
		if !passed {
			continue
		}
		now := r.columns.Input[i]
		index := slices.IndexFunc(r.was, func(n *schema.Node) bool { return n.Name == now.Name })
		switch {
		case index < 0 && !jsonvalue.IsNull(m.Raw):
			return false
		case index < 0:
		case !schema.SameTypes([]*schema.Node{r.was[index]}, []*schema.Node{now}) && !r.was[index].Held(m.Raw):
			return false
		default:
			want.Put(r.was[index], m.Raw, 0, 0)
		}
	}
	for _, v := range c.Values {
		actual[v.Column()] = append(actual[v.Column()], v)
	}
	for _, n := range r.was {
		for i := n.Column; i < n.Column+n.Leaves; i++ {
			if len(want.Columns[i]) == 0 {
				want.Columns[i] = []parquet.Value{parquet.NullValue().Level(0, 0, i)}
			}
			if !slices.EqualFunc(want.Columns[i], actual[i], parquet.DeepEqual) {
				return false
			}
		}
	}
	return true
}
