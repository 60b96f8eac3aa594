package schema

import (
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
)

// parquetField adapts a node to the Parquet library.
type parquetField struct{ n *Node }

// AsParquet returns a tree for the Parquet library.
func AsParquet(n *Node) parquet.Field { return parquetField{n} }

func (f parquetField) ID() int { return 0 }

func (f parquetField) String() string { return f.n.Describe() }

func (f parquetField) Type() parquet.Type { return f.n.Type }

func (f parquetField) Optional() bool { return f.n.Rep == Optional }

func (f parquetField) Repeated() bool { return f.n.Rep == Repeated }

func (f parquetField) Required() bool { return f.n.Rep == Required }

func (f parquetField) Leaf() bool { return f.n.IsLeaf }

func (f parquetField) Encoding() encoding.Encoding { return f.n.enc }

func (f parquetField) Compression() compress.Codec { return nil }

func (f parquetField) GoType() reflect.Type { return reflect.TypeFor[any]() }

func (f parquetField) Name() string { return f.n.Name }

func (f parquetField) Value(base reflect.Value) reflect.Value { return base }

func (f parquetField) Fields() []parquet.Field {
	fields := make([]parquet.Field, len(f.n.Fields))
	for i, c := range f.n.Fields {
		fields[i] = AsParquet(c)
	}
	return fields
}
