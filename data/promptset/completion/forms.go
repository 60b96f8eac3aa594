package completion

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// form defines how values of a type are stored in files. A value is passed by a pointer to it.
type form interface {
	node(name string, rep schema.Repetition) *schema.Node
	// fits reports whether a file's column has values of this form.
	fits(n *schema.Node) bool
	appendJSON(b []byte, ptr any) []byte
	appendValues(row parquet.Row, ptr any, column, def int) parquet.Row
	// setJSON and set read a value back; set gets one item of a list at a time, or null for an empty one.
	setJSON(ptr any, raw json.RawMessage) error
	set(ptr any, v parquet.Value)
}

var (
	textForm = scalarForm[string]{typ: parquet.String().Type(), json: jsonvalue.AppendText,
		value: func(s string) parquet.Value {
			if !utf8.ValidString(s) {
				s = strings.ToValidUTF8(s, "\uFFFD")
			}
			return parquet.ByteArrayValue([]byte(s))
		},
		decode: func(v parquet.Value) string { return string(v.ByteArray()) }}
	textsForm   = listForm[string]{textForm}
	integerForm = scalarForm[int]{typ: parquet.Int32Type,
		json:   func(b []byte, n int) []byte { return strconv.AppendInt(b, int64(n), 10) },
		value:  func(n int) parquet.Value { return parquet.Int32Value(int32(n)) },
		decode: func(v parquet.Value) int { return int(v.Int32()) }}
	numberForm = scalarForm[float64]{typ: parquet.DoubleType,
		json:   func(b []byte, f float64) []byte { return jsonvalue.AppendFloat(b, f, 64) },
		value:  parquet.DoubleValue,
		decode: parquet.Value.Double}
	integersForm = listForm[int32]{scalarForm[int32]{typ: parquet.Int32Type,
		json:   func(b []byte, n int32) []byte { return strconv.AppendInt(b, int64(n), 10) },
		value:  parquet.Int32Value,
		decode: parquet.Value.Int32}}
	expertsForm = listForm[uint16]{scalarForm[uint16]{typ: parquet.Uint(16).Type(),
		json:   func(b []byte, n uint16) []byte { return strconv.AppendUint(b, uint64(n), 10) },
		value:  func(n uint16) parquet.Value { return parquet.Int32Value(int32(n)) },
		decode: func(v parquet.Value) uint16 { return uint16(v.Int32()) }}}
	// bytesForm is of a slice of bytes, which JSON has in base64.
	bytesForm = scalarForm[[]byte]{typ: parquet.ByteArrayType,
		json: func(b, bytes []byte) []byte {
			return append(base64.StdEncoding.AppendEncode(append(b, '"'), bytes), '"')
		},
		value:  parquet.ByteArrayValue,
		decode: func(v parquet.Value) []byte { return append([]byte{}, v.ByteArray()...) }}
	floatsForm = listForm[float32]{scalarForm[float32]{typ: parquet.FloatType,
		json:   func(b []byte, f float32) []byte { return jsonvalue.AppendFloat(b, float64(f), 32) },
		value:  parquet.FloatValue,
		decode: parquet.Value.Float}}
)

type scalarForm[T any] struct {
	typ    parquet.Type
	json   func([]byte, T) []byte
	value  func(T) parquet.Value
	decode func(parquet.Value) T
}

func (f scalarForm[T]) node(name string, rep schema.Repetition) *schema.Node {
	return schema.Leaf(name, rep, f.typ)
}

func (f scalarForm[T]) fits(n *schema.Node) bool { return n.MaxRep == 0 && f.holds(n) }

func (f scalarForm[T]) holds(n *schema.Node) bool { return n.IsLeaf && n.Type.Kind() == f.typ.Kind() }

func (f scalarForm[T]) appendJSON(b []byte, ptr any) []byte { return f.json(b, *ptr.(*T)) }

func (f scalarForm[T]) setJSON(ptr any, raw json.RawMessage) error { return json.Unmarshal(raw, ptr) }

func (f scalarForm[T]) set(ptr any, v parquet.Value) { *ptr.(*T) = f.decode(v) }

func (f scalarForm[T]) appendValues(row parquet.Row, ptr any, column, def int) parquet.Row {
	return append(row, f.value(*ptr.(*T)).Level(0, def, column))
}

type listForm[T any] struct{ scalarForm[T] }

func (f listForm[T]) node(name string, rep schema.Repetition) *schema.Node {
	return schema.List(name, rep, schema.Leaf("", schema.Required, f.typ))
}

func (f listForm[T]) fits(n *schema.Node) bool {
	e := n.Element()
	return e != nil && e.MaxRep > 0 && f.holds(e)
}

func (f listForm[T]) appendJSON(b []byte, ptr any) []byte {
	b = append(b, '[')
	for i, v := range *ptr.(*[]T) {
		if i > 0 {
			b = append(b, ',')
		}
		b = f.json(b, v)
	}
	return append(b, ']')
}

func (f listForm[T]) appendValues(row parquet.Row, ptr any, column, def int) parquet.Row {
	items := *ptr.(*[]T)
	if len(items) == 0 {
		return append(row, parquet.NullValue().Level(0, def, column))
	}
	for i, v := range items {
		row = append(row, f.value(v).Level(min(i, 1), def+1, column))
	}
	return row
}

// setJSON reads null as NaN. Infinities are written as null, too.
func (f listForm[T]) setJSON(ptr any, raw json.RawMessage) error {
	list, floats := ptr.(*[]float32)
	if !floats || !bytes.Contains(raw, []byte("null")) || bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, ptr)
	}
	var items []*float32
	err := json.Unmarshal(raw, &items)
	*list = floatsOf(items)
	return err
}

func (f listForm[T]) set(ptr any, v parquet.Value) {
	items := ptr.(*[]T)
	if v.IsNull() {
		*items = []T{}
		return
	}
	*items = append(*items, f.decode(v))
}

var (
	integerListsForm = nestedForm[int32]{integersForm.scalarForm}
	floatListsForm   = nestedForm[float32]{floatsForm.scalarForm}
	// scoresForm is a list of floats in which NaN stands for null.
	scoresForm = nullsForm{floatsForm}
)

// nestedForm is lists of lists. Its columns may be null.
type nestedForm[T any] struct{ scalarForm[T] }

// The definition levels of a column that may be null and whose items are not null.
const (
	emptyOuter = 1 + iota
	emptyInner
	itemOfInner
)

func (f nestedForm[T]) node(name string, rep schema.Repetition) *schema.Node {
	return schema.List(name, rep, schema.List("", schema.Required, schema.Leaf("", schema.Required, f.typ)))
}

func (f nestedForm[T]) fits(n *schema.Node) bool {
	e := n.Element()
	if e == nil {
		return false
	}
	inner := e.Element()
	return inner != nil && inner.MaxRep == 2 && inner.MaxDef == itemOfInner && f.holds(inner)
}

func (f nestedForm[T]) appendJSON(b []byte, ptr any) []byte {
	b = append(b, '[')
	for i, items := range *ptr.(*[][]T) {
		if i > 0 {
			b = append(b, ',')
		}
		b = listForm[T]{f.scalarForm}.appendJSON(b, &items)
	}
	return append(b, ']')
}

func (f nestedForm[T]) appendValues(row parquet.Row, ptr any, column, _ int) parquet.Row {
	lists := *ptr.(*[][]T)
	if len(lists) == 0 {
		return append(row, parquet.NullValue().Level(0, emptyOuter, column))
	}
	n := 0
	for _, items := range lists {
		n += max(1, len(items))
	}
	row = slices.Grow(row, n)
	for i, items := range lists {
		if len(items) == 0 {
			row = append(row, parquet.NullValue().Level(min(i, 1), emptyInner, column))
		}
		for k, v := range items {
			level := 2
			if k == 0 {
				level = min(i, 1)
			}
			row = append(row, f.value(v).Level(level, itemOfInner, column))
		}
	}
	return row
}

// setJSON reads null as NaN. Infinities are written as null, too.
func (f nestedForm[T]) setJSON(ptr any, raw json.RawMessage) error {
	lists, floats := ptr.(*[][]float32)
	if !floats || !bytes.Contains(raw, []byte("null")) || bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, ptr)
	}
	var all [][]*float32
	err := json.Unmarshal(raw, &all)
	*lists = [][]float32{}
	for _, items := range all {
		*lists = append(*lists, floatsOf(items))
	}
	return err
}

// floatsOf returns numbers, with NaN for missing ones.
func floatsOf(items []*float32) []float32 {
	list := make([]float32, len(items))
	for i, v := range items {
		if list[i] = float32(math.NaN()); v != nil {
			list[i] = *v
		}
	}
	return list
}

func (f nestedForm[T]) set(ptr any, v parquet.Value) {
	lists := ptr.(*[][]T)
	switch {
	case v.DefinitionLevel() == emptyOuter:
		*lists = [][]T{}
		return
	case v.RepetitionLevel() < 2:
		*lists = append(*lists, []T{})
	}
	if last := len(*lists) - 1; v.DefinitionLevel() == itemOfInner && last >= 0 {
		(*lists)[last] = append((*lists)[last], f.decode(v))
	}
}

// nullsForm is a list whose items may be null.
type nullsForm struct{ listForm[float32] }

func (f nullsForm) node(name string, rep schema.Repetition) *schema.Node {
	return schema.List(name, rep, schema.Leaf("", schema.Optional, f.typ))
}

func (f nullsForm) appendValues(row parquet.Row, ptr any, column, def int) parquet.Row {
	items := *ptr.(*[]float32)
	if len(items) == 0 {
		return append(row, parquet.NullValue().Level(0, def, column))
	}
	for i, v := range items {
		if math.IsNaN(float64(v)) {
			row = append(row, parquet.NullValue().Level(min(i, 1), def+1, column))
			continue
		}
		row = append(row, f.value(v).Level(min(i, 1), def+2, column))
	}
	return row
}

func (f nullsForm) setJSON(ptr any, raw json.RawMessage) error {
	if bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, ptr)
	}
	var items []*float32
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	*ptr.(*[]float32) = floatsOf(items)
	return nil
}

func (f nullsForm) set(ptr any, v parquet.Value) {
	items := ptr.(*[]float32)
	switch {
	case !v.IsNull():
		*items = append(*items, f.decode(v))
	case v.DefinitionLevel() == 1: // the column may be null
		*items = []float32{}
	default:
		*items = append(*items, float32(math.NaN()))
	}
}
