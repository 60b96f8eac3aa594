package promptset

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// RowCompare says whether rows of an output have the columns that rows of the input give them.
type RowCompare struct {
	columns *outputColumns
	format  string
	part    *node // of the last completion, which the next three follow from
	was     []*node
	moved   *layout // where values of the part's columns go that have another type now, for rows of Parquet and Arrow
	fault   error
	// Retyped says that parts that were seen have other columns than the output is to have now.
	Retyped bool
}

// NewRowCompare compares with rows of an input with that schema, in an output of that format with columns on request,
// and without those that are excluded.
func NewRowCompare(format string, s *Schema, requested, excluded []string, t *JSONType) *RowCompare {
	return &RowCompare{columns: newOutputColumns(s, requested, excluded).typeJSON(t), format: format}
}

// Same says whether a completion has the columns of a row. A column may have a wider type now. The error says that the
// type which it has now does not hold what it held.
func (r *RowCompare) Same(row *Row, c *Completion) (bool, error) {
	if r.format != FormatParquet {
		return r.columns.sameMembers(row, c), nil
	}
	if c.columns != r.part {
		r.take(c.columns)
	}
	if _, untyped := objectOfRow(row); !untyped && r.fault != nil {
		return false, r.fault
	}
	return r.sameValues(row, c), nil
}

// sameMembers compares a row of JSONL.
func (o *outputColumns) sameMembers(row *Row, c *Completion) bool {
	end := slices.IndexFunc(c.members, func(m member) bool { return m.key == columns[0].Name })
	if end < 0 {
		end = len(c.members)
	}
	got := Object(c.members[:end]).AppendJSON([]byte{'{'}, func(key string) (string, bool) { return key, true })
	return bytes.Equal(o.appendPassed([]byte{'{'}, row), got)
}

// objectOfRow returns the members of a row whose values have no types of their own.
func objectOfRow(row *Row) (Object, bool) {
	of, ok := row.Source.(interface{ Members() Object })
	if !ok || of.Members() == nil {
		return nil, false
	}
	return of.Members(), true
}

// take compares the columns of a part with those that the output is to have.
func (r *RowCompare) take(part *node) {
	r.part, r.moved, r.fault = part, nil, nil
	end := slices.IndexFunc(part.fields, func(n *node) bool { return n.name == columns[0].Name })
	r.was = part.fields[:max(0, end)]
	if sameTypes(part.fields, r.columns.root.fields) {
		return
	}
	r.Retyped = true
	r.moved = &layout{leaves: make([]leafPlace, part.leaves)}
	for i := range r.moved.leaves {
		r.moved.leaves[i].column = -1
	}
	for _, was := range r.was {
		now := r.columns.root.field(was.name)
		if now == nil {
			continue
		}
		if m := merge(now, was); m == nil || !sameTypes([]*node{m}, []*node{now}) {
			r.fault = fmt.Errorf("column %q is %s there and %s in the input now, which does not hold it: give it a "+
				"type that does, such as the one that it had", was.name, was.describe(), now.describe())
			return
		}
		alone := groupNode("row", required, was.clone())
		number(alone)
		l, err := (&Schema{root: r.columns.root}).place(alone)
		if err != nil {
			r.fault = err
			return
		}
		copy(r.moved.leaves[was.column:], l.leaves)
	}
}

// sameTypes says that columns have the same names and types, however they are encoded.
func sameTypes(a, b []*node) bool {
	return slices.EqualFunc(a, b, func(a, b *node) bool {
		return a.name == b.name && a.rep == b.rep && a.leaf == b.leaf && sameTypes(a.fields, b.fields) &&
			(!a.leaf || widest(a.typ, b.typ) == a.typ && widest(b.typ, a.typ) == b.typ)
	})
}

// sameValues compares a row of Parquet.
func (r *RowCompare) sameValues(row *Row, c *Completion) bool {
	if object, untyped := objectOfRow(row); untyped && r.moved != nil {
		return r.sameObject(object, c)
	}
	o := r.columns
	want := make([][]parquet.Value, o.root.leaves)
	o.shred(row, want)
	got := make([][]parquet.Value, o.root.leaves)
	for _, v := range c.values {
		column := v.Column()
		if r.moved == nil {
			got[column] = append(got[column], v)
			continue
		}
		switch place := &r.moved.leaves[column]; {
		case place.column >= 0:
			got[place.column] = append(got[place.column], place.moved(v, place.column))
		case !v.IsNull() && slices.ContainsFunc(r.was, func(n *node) bool {
			return n.column <= column && column < n.column+n.leaves
		}):
			return false // of a column that the input has no more
		}
	}
	o.fill(got)
	for i := range o.result.column {
		if !slices.EqualFunc(want[i], got[i], parquet.DeepEqual) {
			return false
		}
	}
	return true
}

// sameObject compares a row of JSON, whose values are made those of the columns as the part has them.
func (r *RowCompare) sameObject(object Object, c *Completion) bool {
	want, got := shredder{columns: make([][]parquet.Value, r.part.leaves)}, make([][]parquet.Value, r.part.leaves)
	for _, m := range object {
		i, passed := r.columns.rename[m.key]
		if !passed {
			continue
		}
		now := r.columns.input[i]
		at := slices.IndexFunc(r.was, func(n *node) bool { return n.name == now.name })
		switch {
		case at < 0 && !isNullJSON(m.raw):
			return false
		case at < 0:
		case !sameTypes([]*node{r.was[at]}, []*node{now}) && !r.was[at].held(m.raw):
			return false
		default:
			want.put(r.was[at], m.raw, 0, 0)
		}
	}
	for _, v := range c.values {
		got[v.Column()] = append(got[v.Column()], v)
	}
	for _, n := range r.was {
		for i := n.column; i < n.column+n.leaves; i++ {
			if len(want.columns[i]) == 0 {
				want.columns[i] = []parquet.Value{parquet.NullValue().Level(0, 0, i)}
			}
			if !slices.EqualFunc(want.columns[i], got[i], parquet.DeepEqual) {
				return false
			}
		}
	}
	return true
}

// held says that a value is one of those that gave a column of JSON its type.
func (n *node) held(raw json.RawMessage) bool {
	is := typeOfJSON(raw)
	if is == jsonNull {
		return true
	}
	like := func(t jsonType) bool { return sameTypes([]*node{t.node(n.name)}, []*node{n}) }
	for _, t := range []jsonType{jsonBool, jsonInt, jsonDouble, jsonText, jsonMessages, jsonAny, jsonList + jsonBool,
		jsonList + jsonInt, jsonList + jsonDouble, jsonList + jsonText} {
		if like(t) {
			return unify(t, is) == t
		}
	}
	return false
}
