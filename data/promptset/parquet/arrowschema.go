package parquet

import (
	"bytes"
	"encoding/base64"
	"maps"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/schema"
)

// arrowKey is the key of a file's metadata under which readers look for its Arrow schema.
const arrowKey = "ARROW:schema"

// arrowSchema returns the Arrow schema of an output with vectors, for its metadata: Parquet has no lists of a fixed
// length, and readers make them of lists if this says so. It is "" if a column of the input has a type that it leaves
// to the reader. Readers take the file's other metadata from it, too.
func arrowSchema(columns *completion.Layout, meta map[string]string) string {
	var fields []arrow.Field
	for _, n := range columns.Root.Fields {
		f, ok := arrowField(n)
		if !ok {
			return ""
		}
		fields = append(fields, f)
	}
	for i, c := range columns.Results {
		switch f := &fields[len(columns.Input)+i]; {
		case c.IsVector():
			f.Type = fixed(f.Type, columns.Vectors.Length())
		case c.HasVectors():
			item := f.Type.(*arrow.ListType).ElemField()
			item.Type = fixed(item.Type, columns.Vectors.Length())
			f.Type = arrow.ListOfField(item)
		}
	}
	var keys, values []string
	for _, key := range slices.Sorted(maps.Keys(meta)) {
		keys, values = append(keys, key), append(values, meta[key])
	}
	metadata := arrow.NewMetadata(keys, values)
	var b bytes.Buffer
	if ipc.NewWriter(&b, ipc.WithSchema(arrow.NewSchema(fields, &metadata))).Close() != nil {
		return ""
	}
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// fixed returns the type of a list, for lists of that length.
func fixed(list arrow.DataType, length int) arrow.DataType {
	return arrow.FixedSizeListOfField(int32(length), list.(*arrow.ListType).ElemField())
}

// arrowField returns the field that readers make of a column.
func arrowField(n *schema.Node) (f arrow.Field, ok bool) {
	f = arrow.Field{Name: n.Name, Nullable: n.Rep == schema.Optional}
	switch {
	case n.Rep == schema.Repeated:
		return f, false
	case n.IsLeaf:
		f.Type = arrowLeaf(n)
		if n.IsJSON() {
			f.Type = arrow.BinaryTypes.String
			f.Metadata = arrow.NewMetadata([]string{"ARROW:extension:name", "ARROW:extension:metadata"},
				[]string{"arrow.json", ""})
		}
		return f, f.Type != nil
	case n.IsMap():
		return f, false
	case n.IsList():
		if n.Element() == n.Fields[0] { // in two levels
			return f, false
		}
		element, ok := arrowField(n.Element())
		f.Type = arrow.ListOfField(element)
		return f, ok
	}
	var members []arrow.Field
	for _, field := range n.Fields {
		member, ok := arrowField(field)
		if !ok {
			return f, false
		}
		members = append(members, member)
	}
	f.Type = arrow.StructOf(members...)
	return f, true
}

// arrowLeaf returns the type of a column of single values; nil for types that readers disagree about.
func arrowLeaf(n *schema.Node) arrow.DataType {
	logical := n.Type.LogicalType()
	if signed, whole := schema.Integer(n.Type); whole {
		return arrowInteger(n.Type, signed)
	}
	if logical != nil {
		switch t := logical.Value.(type) {
		case *format.StringType, *format.EnumType:
			return arrow.BinaryTypes.String
		case *format.Float16Type:
			return arrow.FixedWidthTypes.Float16
		case *format.DateType:
			return arrow.FixedWidthTypes.Date32
		case *format.TimestampType:
			zone := ""
			if t.IsAdjustedToUTC {
				zone = "UTC"
			}
			return &arrow.TimestampType{Unit: arrowUnit(t.Unit), TimeZone: zone}
		}
		return nil
	}
	switch n.Type.Kind() {
	case parquet.Boolean:
		return arrow.FixedWidthTypes.Boolean
	case parquet.Float:
		return arrow.PrimitiveTypes.Float32
	case parquet.Double:
		return arrow.PrimitiveTypes.Float64
	case parquet.ByteArray:
		return arrow.BinaryTypes.Binary
	}
	return nil
}

func arrowUnit(u format.TimeUnit) arrow.TimeUnit {
	switch u.Value.(type) {
	case *format.NanoSeconds:
		return arrow.Nanosecond
	case *format.MicroSeconds:
		return arrow.Microsecond
	}
	return arrow.Millisecond
}

// arrowInteger returns the type of integers.
func arrowInteger(t parquet.Type, signed bool) arrow.DataType {
	width := 64
	if t.Kind() == parquet.Int32 {
		width = 32
	}
	if logical := t.LogicalType(); logical != nil {
		if integer, ok := logical.Value.(*format.IntType); ok {
			width = int(integer.BitWidth)
		}
	}
	types := map[int]arrow.DataType{8: arrow.PrimitiveTypes.Uint8, 16: arrow.PrimitiveTypes.Uint16,
		32: arrow.PrimitiveTypes.Uint32, 64: arrow.PrimitiveTypes.Uint64}
	if signed {
		types = map[int]arrow.DataType{8: arrow.PrimitiveTypes.Int8, 16: arrow.PrimitiveTypes.Int16,
			32: arrow.PrimitiveTypes.Int32, 64: arrow.PrimitiveTypes.Int64}
	}
	return types[width]
}
