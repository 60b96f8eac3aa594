package record

import (
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// Source has a row's own columns in the form that they have in its file. Writers read them from it.
type Source interface {
	// AppendJSON appends the columns as members of an object, under the names that rename returns; it omits columns
	// for which rename returns false.
	AppendJSON(b []byte, rename func(column string) (name string, ok bool)) []byte
	// AppendValues adds the passed-through columns to the values of an output row, which are by leaf.
	AppendValues(values [][]parquet.Value, passed *schema.Passed)
	// Has reports whether the row has a column.
	Has(column string) bool
	// Size estimates the memory that the columns take.
	Size() int64
}

// Object is a row that is the members of an object in its file.
type Object []jsonvalue.Member

// AppendJSON appends the members.
func (o Object) AppendJSON(b []byte, rename func(key string) (string, bool)) []byte {
	for _, m := range o {
		if name, ok := rename(m.Key); ok {
			b = append(jsonvalue.AppendKey(b, name), jsonvalue.Compact(m.Raw)...)
		}
	}
	return b
}

// AppendValues adds the members as values.
func (o Object) AppendValues(values [][]parquet.Value, passed *schema.Passed) {
	s := schema.Shredder{Columns: values}
	for _, m := range o {
		if i, ok := passed.Rename[m.Key]; ok {
			s.Put(passed.Input[i], m.Raw, 0, 0)
		}
	}
}

// Members returns the row.
func (o Object) Members() Object { return o }

// Has reports whether there is a member with that key.
func (o Object) Has(key string) bool { return jsonvalue.Find(o, key) != nil }

// Size returns the size of the text.
func (o Object) Size() (n int64) {
	for _, m := range o {
		n += int64(len(m.Key) + len(m.Raw))
	}
	return n
}

// Values is a row that is values of typed columns in its file.
type Values struct {
	Values []parquet.Value   // by leaf
	Layout *schema.Placement // their places in the job's schema
}

// AppendJSON appends the columns.
func (v *Values) AppendJSON(b []byte, rename func(column string) (string, bool)) []byte {
	a := schema.Assembler{Values: v.Values, Next: make([]int, 0, 16)}
	a.Index()
	for _, c := range v.Layout.Columns {
		if name, ok := rename(c.Name); ok {
			b = a.Append(jsonvalue.AppendKey(b, name), c)
		}
	}
	return b
}

// AppendValues adds the values, widened to the types of the output.
func (v *Values) AppendValues(values [][]parquet.Value, passed *schema.Passed) {
	for _, value := range v.Values {
		place := &v.Layout.Leaves[value.Column()]
		if place.Column < 0 {
			continue
		}
		if out := passed.Leaf[place.Column]; out >= 0 {
			values[out] = append(values[out], place.Moved(value, out))
		}
	}
}

// Has reports whether the file has the column.
func (v *Values) Has(column string) bool {
	return slices.ContainsFunc(v.Layout.Columns, func(n *schema.Node) bool { return n.Name == column })
}

// Size returns the size of the values.
func (v *Values) Size() int64 {
	n := int64(32 * len(v.Values))
	for _, value := range v.Values {
		n += schema.ValueSize(value)
	}
	return n
}
