package arrow

import (
	"fmt"
	"math/big"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/schema"
)

// halfType is a 16-bit float.
var halfType = schema.Annotated{Type: parquet.FixedLenByteArrayType(2),
	Logical: &format.LogicalType{Value: new(format.Float16Type)}}

// The metadata keys and values of fields with extension types.
const (
	extensionKey  = "ARROW:extension:name"
	extensionJSON = "arrow.json"
	extensionUUID = "arrow.uuid"
)

// nodeOf returns the column that pyarrow writes to a Parquet file for a field. An extension is written as its storage
// type.
func nodeOf(f arrow.Field) (*schema.Node, error) {
	rep := schema.Required
	if f.Nullable || f.Type.ID() == arrow.NULL {
		rep = schema.Optional
	}
	typ := f.Type
	for {
		if d, ok := typ.(*arrow.DictionaryType); ok {
			typ = d.ValueType
		} else if e, ok := typ.(arrow.ExtensionType); ok {
			typ = e.StorageType()
		} else {
			break
		}
	}
	switch t := typ.(type) {
	case *arrow.MapType:
		key, err := nodeOf(arrow.Field{Name: "key", Type: t.KeyType()})
		if err != nil {
			return nil, err
		}
		value, err := nodeOf(arrow.Field{Name: "value", Type: t.ItemType(), Nullable: t.ItemField().Nullable})
		if err != nil {
			return nil, err
		}
		return &schema.Node{Name: f.Name, Rep: rep, Type: mapGroup,
			Fields: []*schema.Node{schema.Group("key_value", schema.Repeated, key, value)}}, nil
	case *arrow.StructType:
		if t.NumFields() == 0 {
			return nil, fmt.Errorf("column %q is a struct without members, which Parquet does not have; leave it out",
				f.Name)
		}
		n := schema.Group(f.Name, rep)
		for _, member := range t.Fields() {
			m, err := nodeOf(member)
			if err != nil {
				return nil, err
			}
			n.Fields = append(n.Fields, m)
		}
		return n, nil
	case arrow.ListLikeType:
		element, err := nodeOf(t.ElemField())
		if err != nil {
			return nil, err
		}
		return schema.List(f.Name, rep, element), nil
	}
	leaf, err := leafOf(f, typ)
	if err != nil {
		return nil, err
	}
	return schema.Leaf(f.Name, rep, leaf), nil
}

var mapGroup = parquet.Map(parquet.String(), parquet.String()).Type()

// leafOf returns the type of a column of single values.
func leafOf(f arrow.Field, typ arrow.DataType) (parquet.Type, error) {
	extension, _ := f.Metadata.GetValue(extensionKey)
	switch t := typ.(type) {
	case *arrow.NullType:
		return schema.NullType, nil
	case *arrow.BooleanType:
		return parquet.BooleanType, nil
	case *arrow.Int32Type:
		return parquet.Int32Type, nil
	case *arrow.Int64Type, *arrow.DurationType:
		return parquet.Int64Type, nil
	case *arrow.Int8Type, *arrow.Int16Type:
		return parquet.Int(t.(arrow.FixedWidthDataType).BitWidth()).Type(), nil
	case *arrow.Uint8Type, *arrow.Uint16Type, *arrow.Uint32Type, *arrow.Uint64Type:
		return parquet.Uint(t.(arrow.FixedWidthDataType).BitWidth()).Type(), nil
	case *arrow.Float16Type:
		return halfType, nil
	case *arrow.Float32Type:
		return parquet.FloatType, nil
	case *arrow.Float64Type:
		return parquet.DoubleType, nil
	case *arrow.StringType, *arrow.LargeStringType, *arrow.StringViewType:
		if extension == extensionJSON {
			return parquet.JSON().Type(), nil
		}
		return parquet.String().Type(), nil
	case *arrow.BinaryType, *arrow.LargeBinaryType, *arrow.BinaryViewType:
		return parquet.ByteArrayType, nil
	case *arrow.FixedSizeBinaryType:
		if t.ByteWidth <= 0 {
			break
		}
		if extension == extensionUUID && t.ByteWidth == 16 {
			return parquet.UUID().Type(), nil
		}
		return parquet.FixedLenByteArrayType(t.ByteWidth), nil
	case arrow.DecimalType:
		p, s := int(t.GetPrecision()), int(t.GetScale())
		if p < 1 || p > mostDigits || s < 0 || s > p {
			break
		}
		return parquet.Decimal(s, p, parquet.FixedLenByteArrayType(decimalSize(p))).Type(), nil
	case *arrow.Date32Type, *arrow.Date64Type:
		return parquet.Date().Type(), nil
	case *arrow.Time32Type:
		return parquet.TimeAdjusted(parquet.Millisecond, false).Type(), nil
	case *arrow.Time64Type:
		return parquet.TimeAdjusted(parquetUnit(t.Unit), false).Type(), nil
	case *arrow.TimestampType:
		return parquet.TimestampAdjusted(parquetUnit(t.Unit), t.TimeZone != "").Type(), nil
	}
	return nil, fmt.Errorf("column %q has the Arrow type %s, which Parquet does not have; convert it, to text for "+
		"one, or leave it out", f.Name, typ)
}

// parquetUnit returns the unit in which a time is written: seconds become milliseconds.
func parquetUnit(u arrow.TimeUnit) parquet.TimeUnit {
	switch u {
	case arrow.Nanosecond:
		return parquet.Nanosecond
	case arrow.Microsecond:
		return parquet.Microsecond
	}
	return parquet.Millisecond
}

// mostDigits are the digits of Arrow's widest decimal. A damaged file may claim any number.
const mostDigits = 76

// decimalSize returns how many bytes can hold every number with so many digits.
func decimalSize(precision int) int {
	most := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(precision)), nil)
	return most.Sub(most, big.NewInt(1)).BitLen()/8 + 1
}
