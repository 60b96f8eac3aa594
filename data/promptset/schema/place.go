package schema

import (
	"bytes"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
)

// Placement maps the values of a file's rows to the job's schema.
type Placement struct {
	Columns []*Node // the file's columns, numbered as in the file
	Leaves  []LeafPlace
}

// LeafPlace maps one leaf of a file.
type LeafPlace struct {
	Column int    // number in the job's schema
	defs   []byte // maps a definition level in the file to one in the job's schema
	kind   parquet.Kind
	text   bool
}

// Place returns the placement of the values of a file's columns. It fails if the file was not merged into the schema.
func (s *Schema) Place(fileRoot *Node) (*Placement, error) {
	l := &Placement{Columns: fileRoot.Fields, Leaves: make([]LeafPlace, fileRoot.Leaves)}
	var walk func(src, dst *Node, defs []byte, def int)
	walk = func(src, dst *Node, defs []byte, def int) {
		// defs[i] is the level that is reached if i levelled nodes of the file are present. Levels that only the
		// job's schema has are reached with the node above them.
		defs = slices.Clone(defs)
		if dst.Rep != Required {
			def++
		}
		if src.Rep != Required {
			defs = append(defs, byte(def))
		} else {
			defs[len(defs)-1] = byte(def)
		}
		if src.IsLeaf {
			// A null column that was merged with a group has no leaf of its own there: its nulls go to every leaf.
			l.Leaves[src.Column] = LeafPlace{Column: dst.Column, defs: defs, kind: dst.kindOfFirst(),
				text: dst.IsLeaf &&
					dst.isText()}
			if !dst.IsLeaf {
				l.Leaves[src.Column].Column = -1
			}
			return
		}
		for i, f := range src.Fields {
			walk(f, dst.Fields[i], defs, def)
		}
	}
	for _, f := range fileRoot.Fields {
		dst := s.Root.Field(f.Name)
		if dst == nil || mergeColumns(dst, f) == nil {
			return nil, fmt.Errorf("column %q is not what it was when the job started", f.Name)
		}
		walk(f, dst, []byte{0}, 0)
	}
	return l, nil
}

func (n *Node) kindOfFirst() parquet.Kind {
	for !n.IsLeaf {
		n = n.Fields[0]
	}
	return n.Type.Kind()
}

// Passed lists the input columns that an output passes through.
type Passed struct {
	Input  []*Node        // the columns as they are in the output
	Source []string       // their names in the input
	Rename map[string]int // index in Input by the name in the output
	Leaf   []int          // output leaf of each leaf of the input schema, -1 for the id's leaf
}

// Moved returns a value at its place in the output leaf out.
func (p *LeafPlace) Moved(v parquet.Value, out int) parquet.Value {
	return p.convert(v).Level(v.RepetitionLevel(), int(p.defs[v.DefinitionLevel()]), out)
}

// convert widens a value to the type of the job's column, and replaces invalid UTF-8 in text, which readers may
// reject.
func (p *LeafPlace) convert(v parquet.Value) parquet.Value {
	switch {
	case v.IsNull():
	case p.text && !utf8.Valid(v.ByteArray()):
		return parquet.ByteArrayValue(bytes.ToValidUTF8(v.ByteArray(), []byte("\uFFFD")))
	case v.Kind() == p.kind:
	case v.Kind() == parquet.Int32 && p.kind == parquet.Int64:
		return parquet.Int64Value(int64(v.Int32()))
	case v.Kind() == parquet.Float && p.kind == parquet.Double:
		return parquet.DoubleValue(float64(v.Float()))
	}
	return v
}

// ValueSize returns about how many bytes a value takes in memory and, before compression, in a file.
func ValueSize(v parquet.Value) int64 {
	if !v.IsNull() && (v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray) {
		return 4 + int64(len(v.ByteArray()))
	}
	return 8
}
