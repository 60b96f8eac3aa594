package completion

import (
	"encoding/binary"
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
	VectorColumn  = "embedding"
	vectorsColumn = "embeddings"
	scoresColumn  = "scores"
	reasonColumn  = "finish_reason"
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

// form is how a number is stored. In memory it is a float32 number.
func (e Element) form() scalarForm[float32] {
	f := floatsForm.scalarForm
	switch e {
	case Float16:
		f.typ = halfType
		f.value = func(v float32) parquet.Value {
			return parquet.FixedLenByteArrayValue(binary.LittleEndian.AppendUint16(nil, float16.FromFloat32(v).Bits()))
		}
	case Int8, Binary:
		if f.typ = parquet.Int(8).Type(); e == Binary {
			f.typ = parquet.Uint(8).Type()
		}
		f.value = func(v float32) parquet.Value { return parquet.Int32Value(int32(v)) }
	}
	f.decode = func(v parquet.Value) float32 {
		switch v.Kind() {
		case parquet.Float:
			return v.Float()
		case parquet.Int32:
			return float32(v.Int32())
		}
		return float16.FromBits(binary.LittleEndian.Uint16(v.ByteArray())).Float32()
	}
	return f
}

// vectorForm is a list of numbers of an element's type, and vectorsForm a list of such lists.
type (
	vectorForm  struct{ listForm[float32] }
	vectorsForm struct{ nestedForm[float32] }
)

func vectorOfType(e Element) vectorForm { return vectorForm{listForm[float32]{e.form()}} }

func vectorsOfType(e Element) vectorsForm { return vectorsForm{nestedForm[float32]{e.form()}} }

// fits accepts vectors of all elements: values have the kind of theirs.
func (vectorForm) fits(n *schema.Node) bool {
	e := n.Element()
	return e != nil && e.MaxRep > 0 && isElement(e)
}

func (vectorsForm) fits(n *schema.Node) bool {
	e := n.Element()
	if e == nil {
		return false
	}
	inner := e.Element()
	return inner != nil && inner.MaxRep == 2 && inner.MaxDef == itemOfInner && isElement(inner)
}

// isElement reports whether a column has numbers of an element.
func isElement(n *schema.Node) bool {
	return n.IsLeaf && slices.ContainsFunc(Elements(), func(element string) bool {
		t := Element(element).form().typ
		return n.Type.Kind() == t.Kind() && n.Type.Length() == t.Length()
	})
}

// flagForm is a boolean.
var flagForm = scalarForm[bool]{typ: parquet.BooleanType,
	json: func(b []byte, set bool) []byte { return fmt.Append(b, set) }, value: parquet.BooleanValue,
	decode: parquet.Value.Boolean}

// VectorText returns what an encoder's task gave, for people: the beginning of the vector, or of the first one of how
// many, and the label, or the labels and characters of the parts of the text.
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
	if len(r.Vectors) > 0 {
		vector = r.Vectors[0]
	}
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
	if n := len(r.Vectors); n > 0 {
		return fmt.Sprintf("%d of [%s]", n, b.String())
	}
	return "[" + b.String() + "]"
}
