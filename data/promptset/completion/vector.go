package completion

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes/float16"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/schema"
)

// The columns by which outputs of tasks are told apart.
const (
	vectorColumn = "embedding"
	scoresColumn = "scores"
	reasonColumn = "finish_reason"
)

// VectorType is the type of an output's vectors.
type VectorType struct {
	Element    Element
	Dimensions int // of the vectors; 0 is not known
}

// Element is how the numbers of a vector are stored.
type Element string

// The elements.
const (
	Float32 Element = "float32"
	Float16 Element = "float16"
	Int8    Element = "int8"   // a number is the integer times [VectorType.Scale]
	Binary  Element = "binary" // a byte holds whether each of 8 numbers is more than 0, the first in the highest bit
)

// Elements lists all elements.
func Elements() []string {
	return []string{string(Float32), string(Float16), string(Int8), string(Binary)}
}

// Length returns the number of items in the list of a vector.
func (t VectorType) Length() int {
	if t.Element == Binary {
		return (t.Dimensions + 7) / 8
	}
	return t.Dimensions
}

// int8Deviations is how many standard deviations of a component the range of int8 has on either side, for a vector of
// length 1 whose components are about equal in size. Components of real embeddings stay within it; what exceeds it is
// cut off.
const int8Deviations = 8

// Scale returns what the integers of [Int8] are multiplied with, for vectors of length 1; 0 for other elements. It
// depends on nothing but the dimensions, so that a row's bytes do not depend on other rows.
func (t VectorType) Scale() float64 {
	if t.Element != Int8 {
		return 0
	}
	return min(1, int8Deviations/math.Sqrt(float64(max(1, t.Dimensions)))) / math.MaxInt8
}

// Stored returns a vector as the output stores it: as float32 numbers, which hold those of all elements exactly.
func (t VectorType) Stored(vector []float32) []float32 {
	stored := make([]float32, t.Length())
	switch t.Element {
	case Float16:
		for i, v := range vector {
			stored[i] = float16.FromFloat32(v).Float32()
		}
	case Int8:
		for i, v := range vector {
			whole := math.RoundToEven(float64(v) / t.Scale())
			stored[i] = float32(min(max(whole, -math.MaxInt8), math.MaxInt8)) + 0 // integers have no -0
		}
	case Binary:
		for i, v := range vector {
			if v > 0 {
				stored[i/8] += float32(int(1) << (7 - i%8))
			}
		}
	default:
		copy(stored, vector)
	}
	return stored
}

// String describes the type, for people.
func (t VectorType) String() string { return fmt.Sprintf("%s[%d]", t.Element, t.Dimensions) }

var halfType = schema.Annotated{Type: parquet.FixedLenByteArrayType(2),
	Logical: &format.LogicalType{Value: new(format.Float16Type)}}

// vectorForm is a list of numbers of an element's type. In memory they are float32 numbers.
type vectorForm struct{ element Element }

func (f vectorForm) typ() parquet.Type {
	switch f.element {
	case Float16:
		return halfType
	case Int8:
		return parquet.Int(8).Type()
	case Binary:
		return parquet.Uint(8).Type()
	}
	return parquet.FloatType
}

func (f vectorForm) node(name string, rep schema.Repetition) *schema.Node {
	return schema.List(name, rep, schema.Leaf("", schema.Required, f.typ()))
}

// fits accepts vectors of all elements: values have the kind of theirs.
func (vectorForm) fits(n *schema.Node) bool {
	e := n.Element()
	return e != nil && e.MaxRep > 0 && e.IsLeaf && slices.ContainsFunc(Elements(), func(element string) bool {
		t := vectorForm{Element(element)}.typ()
		return e.Type.Kind() == t.Kind() && e.Type.Length() == t.Length()
	})
}

func (vectorForm) appendJSON(b []byte, ptr any) []byte { return floatsForm.appendJSON(b, ptr) }

func (vectorForm) setJSON(ptr any, raw json.RawMessage) error { return floatsForm.setJSON(ptr, raw) }

func (f vectorForm) appendValues(row parquet.Row, ptr any, column, def int) parquet.Row {
	items := *ptr.(*[]float32)
	if len(items) == 0 {
		return append(row, parquet.NullValue().Level(0, def, column))
	}
	row = slices.Grow(row, len(items))
	for i, v := range items {
		value := parquet.FloatValue(v)
		switch f.element {
		case Float16:
			value = parquet.FixedLenByteArrayValue(binary.LittleEndian.AppendUint16(nil, float16.FromFloat32(v).Bits()))
		case Int8, Binary:
			value = parquet.Int32Value(int32(v))
		}
		row = append(row, value.Level(min(i, 1), def+1, column))
	}
	return row
}

func (vectorForm) set(ptr any, v parquet.Value) {
	items := ptr.(*[]float32)
	switch {
	case v.IsNull():
		*items = []float32{}
	case v.Kind() == parquet.Float:
		*items = append(*items, v.Float())
	case v.Kind() == parquet.Int32:
		*items = append(*items, float32(v.Int32()))
	default:
		*items = append(*items, float16.FromBits(binary.LittleEndian.Uint16(v.ByteArray())).Float32())
	}
}

// flagForm is a boolean.
var flagForm = scalarForm[bool]{typ: parquet.BooleanType,
	json: func(b []byte, set bool) []byte { return fmt.Append(b, set) }, value: parquet.BooleanValue,
	decode: parquet.Value.Boolean}

// VectorText returns what an encoder's task gave, for people: the beginning of the vector, and the label, or the labels
// and characters of the parts of the text.
func (r *Result) VectorText() string {
	if r.Labels != nil {
		parts := make([]string, len(r.Labels))
		for i, label := range r.Labels {
			parts[i] = fmt.Sprintf("%s %d:%d", label, r.Starts[i], r.Ends[i])
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	const shown = 4
	vector := r.Vector
	var b strings.Builder
	for i, v := range vector[:min(len(vector), shown)] {
		if i > 0 {
			b.WriteString(", ")
		}
		b.Write(jsonvalue.AppendFloat(nil, float64(v), 32))
	}
	if len(vector) > shown {
		fmt.Fprintf(&b, ", ... (%d)", len(vector))
	}
	if r.Label != "" {
		return r.Label + " [" + b.String() + "]"
	}
	return "[" + b.String() + "]"
}
