package promptset

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
)

var (
	integerListsForm = nestedForm[int32]{integersForm.scalarForm}
	floatListsForm   = nestedForm[float32]{floatsForm.scalarForm}
	// scoresForm is a list of floats in which NaN stands for null.
	scoresForm = nullsForm{floatsForm}
)

// nestedForm is lists of lists. Its columns may be null.
type nestedForm[T any] struct{ scalarForm[T] }

// Definition levels of a column that may be null, whose items are not null.
const (
	emptyOuter = 1 + iota
	emptyInner
	itemOfInner
)

func (f nestedForm[T]) node(name string, rep repetition) *node {
	return listNode(name, rep, listNode("", required, leafNode("", required, f.typ)))
}

func (f nestedForm[T]) fits(n *node) bool {
	e := n.element()
	if e == nil {
		return false
	}
	inner := e.element()
	return inner != nil && inner.maxRep == 2 && inner.maxDef == itemOfInner && f.holds(inner)
}

func (f nestedForm[T]) appendJSON(b []byte, at any) []byte {
	b = append(b, '[')
	for i, items := range *at.(*[][]T) {
		if i > 0 {
			b = append(b, ',')
		}
		b = listForm[T]{f.scalarForm}.appendJSON(b, &items)
	}
	return append(b, ']')
}

func (f nestedForm[T]) appendValues(row parquet.Row, at any, column, _ int) parquet.Row {
	lists := *at.(*[][]T)
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

// setJSON takes null, as which infinities are written, for NaN, which is written as null too.
func (f nestedForm[T]) setJSON(at any, raw json.RawMessage) error {
	lists, floats := at.(*[][]float32)
	if !floats || !bytes.Contains(raw, []byte("null")) || bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, at)
	}
	var all [][]*float32
	err := json.Unmarshal(raw, &all)
	*lists = [][]float32{}
	for _, items := range all {
		*lists = append(*lists, floatsOf(items))
	}
	return err
}

// floatsOf returns numbers with NaN for those that are not there.
func floatsOf(items []*float32) []float32 {
	list := make([]float32, len(items))
	for i, v := range items {
		if list[i] = float32(math.NaN()); v != nil {
			list[i] = *v
		}
	}
	return list
}

func (f nestedForm[T]) set(at any, v parquet.Value) {
	lists := at.(*[][]T)
	switch {
	case v.DefinitionLevel() == emptyOuter:
		*lists = [][]T{}
		return
	case v.RepetitionLevel() < 2:
		*lists = append(*lists, []T{})
	}
	if last := len(*lists) - 1; v.DefinitionLevel() == itemOfInner && last >= 0 {
		(*lists)[last] = append((*lists)[last], f.of(v))
	}
}

// nullsForm is a list whose items may be null.
type nullsForm struct{ listForm[float32] }

func (f nullsForm) node(name string, rep repetition) *node {
	return listNode(name, rep, leafNode("", optional, f.typ))
}

func (f nullsForm) appendValues(row parquet.Row, at any, column, def int) parquet.Row {
	items := *at.(*[]float32)
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

func (f nullsForm) setJSON(at any, raw json.RawMessage) error {
	if bytes.Equal(raw, []byte("null")) {
		return json.Unmarshal(raw, at)
	}
	var items []*float32
	if err := json.Unmarshal(raw, &items); err != nil {
		return err
	}
	*at.(*[]float32) = floatsOf(items)
	return nil
}

func (f nullsForm) set(at any, v parquet.Value) {
	items := at.(*[]float32)
	switch {
	case !v.IsNull():
		*items = append(*items, f.of(v))
	case v.DefinitionLevel() == 1: // of a column that may be null
		*items = []float32{}
	default:
		*items = append(*items, float32(math.NaN()))
	}
}
