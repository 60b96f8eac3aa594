package arrow

import (
	"errors"
	"fmt"
	"math"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/schema"
)

// Bounds of a row of an Arrow file, because lists may share their items, and views their text.
const (
	maxRowValues = 4 << 20
	maxRowBytes  = 256 << 20
)

// shredder splits the rows of a record batch into the values that they have in Parquet.
type shredder struct {
	columns [][]parquet.Value // by leaf; reused
	values  int               // how many more the row may have
	bytes   int
}

// row appends the values of a row.
func (s *shredder) row(to parquet.Row, fields []*schema.Node, batch arrow.RecordBatch, i int) (parquet.Row, error) {
	for j := range s.columns {
		s.columns[j] = s.columns[j][:0]
	}
	s.values, s.bytes = maxRowValues, maxRowBytes
	for j, f := range fields {
		if err := s.put(f, batch.Column(j), i, 0, 0); err != nil {
			return nil, fmt.Errorf("column %q: %w", f.Name, err)
		}
	}
	for _, values := range s.columns {
		to = append(to, values...)
	}
	return to, nil
}

// put appends an item of an array; the nodes above it reach the definition level def.
func (s *shredder) put(n *schema.Node, a arrow.Array, i, rep, def int) error {
	if i < 0 || i >= a.Len() {
		return errors.New("it is corrupt: it has fewer items than it claims")
	}
	switch typed := a.(type) {
	case *array.Dictionary:
		if !typed.IsNull(i) {
			return s.put(n, typed.Dictionary(), typed.GetValueIndex(i), rep, def)
		}
	case array.ExtensionArray:
		return s.put(n, typed.Storage(), i, rep, def)
	}
	if a.DataType().ID() == arrow.NULL || a.IsNull(i) {
		if n.Rep == schema.Required {
			return errors.New("it has a null and is said to have none")
		}
		return s.null(n, rep, def)
	}
	if n.Rep == schema.Optional {
		def++
	}
	switch typed := a.(type) {
	case array.ListLike: // also a map
		start, end := typed.ValueOffsets(i)
		if start < 0 || end < start || end > int64(typed.ListValues().Len()) {
			return errors.New("it is corrupt: a list has items that are not there")
		}
		return s.list(n, typed.ListValues(), int(start), int(end), rep, def)
	case *array.Struct:
		for j, f := range n.Fields {
			if err := s.put(f, typed.Field(j), i, rep, def); err != nil {
				return err
			}
		}
		return nil
	}
	v, err := valueOf(a, i, n.Type)
	if err != nil {
		return err
	}
	if s.values--; !v.IsNull() && (v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray) {
		s.bytes -= len(v.ByteArray())
	}
	s.columns[n.Column] = append(s.columns[n.Column], v.Level(rep, def, n.Column))
	return s.full()
}

// list appends the items of a list or a map.
func (s *shredder) list(n *schema.Node, items arrow.Array, start, end, rep, def int) error {
	middle := n.Fields[0]
	if start == end {
		return s.null(middle, rep, def)
	}
	for i := start; i < end; i++ {
		var err error
		if entries, ok := items.(*array.Struct); ok && n.IsMap() {
			for j, f := range middle.Fields {
				if err == nil {
					err = s.put(f, entries.Field(j), i, rep, def+1)
				}
			}
		} else {
			err = s.put(middle.Fields[0], items, i, rep, def+1)
		}
		if err != nil {
			return err
		}
		rep = middle.MaxRep
	}
	return nil
}

// null appends a null to all leaves of a node.
func (s *shredder) null(n *schema.Node, rep, def int) error {
	for c := n.Column; c < n.Column+n.Leaves; c++ {
		s.values--
		s.columns[c] = append(s.columns[c], parquet.NullValue().Level(rep, def, c))
	}
	return s.full()
}

func (s *shredder) full() error {
	if s.values < 0 || s.bytes < 0 {
		return fmt.Errorf("a row has more than %d values or %d MiB; split it", maxRowValues, maxRowBytes>>20)
	}
	return nil
}

// valueOf converts an item that is not null to a value of a Parquet column.
func valueOf(a arrow.Array, i int, typ parquet.Type) (parquet.Value, error) {
	switch a := a.(type) {
	case *array.Boolean:
		return parquet.BooleanValue(a.Value(i)), nil
	case *array.Int8:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Int16:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Int32:
		return parquet.Int32Value(a.Value(i)), nil
	case *array.Int64:
		return parquet.Int64Value(a.Value(i)), nil
	case *array.Uint8:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Uint16:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Uint32:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Uint64:
		return parquet.Int64Value(int64(a.Value(i))), nil
	case *array.Float16:
		return parquet.FixedLenByteArrayValue(a.Value(i).ToLEBytes()), nil
	case *array.Float32:
		return parquet.FloatValue(a.Value(i)), nil
	case *array.Float64:
		return parquet.DoubleValue(a.Value(i)), nil
	case *array.FixedSizeBinary:
		return parquet.FixedLenByteArrayValue(a.Value(i)), nil
	case interface{ Value(int) string }: // all types of text
		return parquet.ByteArrayValue([]byte(a.Value(i))), nil
	case interface{ Value(int) []byte }:
		return parquet.ByteArrayValue(a.Value(i)), nil
	}
	if v, ok := decimalOf(a, i); ok {
		return fixedValue(v, typ.Length())
	}
	return timeOf(a, i)
}

func decimalOf(a arrow.Array, i int) (*big.Int, bool) {
	switch a := a.(type) {
	case *array.Decimal32:
		return big.NewInt(int64(a.Value(i))), true
	case *array.Decimal64:
		return big.NewInt(int64(a.Value(i))), true
	case *array.Decimal128:
		return a.Value(i).BigInt(), true
	case *array.Decimal256:
		return a.Value(i).BigInt(), true
	}
	return nil, false
}

// fixedValue returns a number in two's complement, big endian.
func fixedValue(v *big.Int, size int) (parquet.Value, error) {
	if v.Sign() < 0 {
		v = v.Add(v, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	if v.Sign() < 0 || v.BitLen() > 8*size {
		return parquet.Value{}, errors.New("it is corrupt: a decimal has more digits than its type")
	}
	return parquet.FixedLenByteArrayValue(v.FillBytes(make([]byte, size))), nil
}

const dayMillis = 24 * 60 * 60 * 1000

func timeOf(a arrow.Array, i int) (parquet.Value, error) {
	switch a := a.(type) {
	case *array.Date32:
		return parquet.Int32Value(int32(a.Value(i))), nil
	case *array.Date64:
		return parquet.Int32Value(int32(math.Floor(float64(a.Value(i)) / dayMillis))), nil
	case *array.Time32:
		v := int32(a.Value(i))
		if a.DataType().(*arrow.Time32Type).Unit == arrow.Second {
			v *= 1000
		}
		return parquet.Int32Value(v), nil
	case *array.Time64:
		return parquet.Int64Value(int64(a.Value(i))), nil
	case *array.Duration:
		return parquet.Int64Value(int64(a.Value(i))), nil
	case *array.Timestamp:
		v := int64(a.Value(i))
		if a.DataType().(*arrow.TimestampType).Unit == arrow.Second {
			if v > math.MaxInt64/1000 || v < math.MinInt64/1000 {
				return parquet.Value{}, fmt.Errorf("the time of %d seconds does not fit in milliseconds", v)
			}
			v *= 1000
		}
		return parquet.Int64Value(v), nil
	}
	return parquet.Value{}, fmt.Errorf("values of %s are not read", a.DataType())
}
