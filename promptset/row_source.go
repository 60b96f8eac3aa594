package promptset

import (
	"slices"

	"github.com/parquet-go/parquet-go"
)

// RowSource has a row's own columns in the form that they have in the file of the row. Writers ask it for them.
type RowSource interface {
	// AppendJSON appends the columns as members of an object, under the names that rename returns; it leaves out the
	// columns for which rename returns false.
	AppendJSON(b []byte, rename func(column string) (name string, ok bool)) []byte
	// AppendValues adds the values of the columns that an output passes through to its values, which are by leaf.
	AppendValues(values [][]parquet.Value, passed *Passed)
	// Has reports whether the row has a column.
	Has(column string) bool
	// Size estimates the memory that the columns take.
	Size() int64
}

// Object is a row whose file has it as the members of an object.
type Object []member

// AppendJSON appends the members.
func (o Object) AppendJSON(b []byte, rename func(key string) (string, bool)) []byte {
	for _, m := range o {
		if name, ok := rename(m.key); ok {
			b = append(appendKey(b, name), compactJSON(m.raw)...)
		}
	}
	return b
}

// AppendValues adds the members as values.
func (o Object) AppendValues(values [][]parquet.Value, passed *Passed) {
	s := shredder{columns: values}
	for _, m := range o {
		if i, ok := passed.rename[m.key]; ok {
			s.put(passed.input[i], m.raw, 0, 0)
		}
	}
}

// Members are the row.
func (o Object) Members() Object { return o }

// Has reports whether there is a member of that key.
func (o Object) Has(key string) bool { return valueOf(o, key) != nil }

// Size is that of the text.
func (o Object) Size() (n int64) {
	for _, m := range o {
		n += int64(len(m.key) + len(m.raw))
	}
	return n
}

// Values is a row whose file has it as values of columns with types.
type Values struct {
	values []parquet.Value // by leaf
	layout *layout         // where the job's schema has them
}

// AppendJSON appends the columns.
func (v *Values) AppendJSON(b []byte, rename func(column string) (string, bool)) []byte {
	a := assembler{values: v.values, next: make([]int, 0, 16)}
	a.index()
	for _, c := range v.layout.columns {
		if name, ok := rename(c.name); ok {
			b = a.column(appendKey(b, name), c)
		}
	}
	return b
}

// AppendValues adds the values, widened to the types of the output.
func (v *Values) AppendValues(values [][]parquet.Value, passed *Passed) {
	for _, value := range v.values {
		place := &v.layout.leaves[value.Column()]
		if place.column < 0 {
			continue
		}
		if out := passed.leaf[place.column]; out >= 0 {
			values[out] = append(values[out], place.moved(value, out))
		}
	}
}

// Has reports whether the file has the column.
func (v *Values) Has(column string) bool {
	return slices.ContainsFunc(v.layout.columns, func(n *node) bool { return n.name == column })
}

// Size is that of the values.
func (v *Values) Size() int64 {
	n := int64(32 * len(v.values))
	for _, value := range v.values {
		n += valueSize(value)
	}
	return n
}

// appendKey appends the key of a member to an object that is written, behind a comma unless it is the first.
func appendKey(b []byte, name string) []byte {
	if b[len(b)-1] != '{' {
		b = append(b, ',')
	}
	return append(appendText(b, name), ':')
}
