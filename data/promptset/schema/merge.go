package schema

import (
	"encoding/json"
	"slices"

	"github.com/parquet-go/parquet-go"
)

// SameTypes reports whether columns have the same names and types, regardless of their encodings.
func SameTypes(a, b []*Node) bool {
	return slices.EqualFunc(a, b, func(a, b *Node) bool {
		return a.Name == b.Name && a.Rep == b.Rep && a.IsLeaf == b.IsLeaf && SameTypes(a.Fields, b.Fields) &&
			(!a.IsLeaf || widest(a.Type, b.Type) == a.Type && widest(b.Type, a.Type) == b.Type)
	})
}

// Held reports whether a value may be one of those that determined the type of a JSON column.
func (n *Node) Held(raw json.RawMessage) bool {
	valueType := TypeOfJSON(raw)
	if valueType == JSONNull {
		return true
	}
	like := func(t JSONType) bool { return SameTypes([]*Node{t.Node(n.Name)}, []*Node{n}) }
	for _, t := range []JSONType{JSONBool, JSONInt, JSONDouble, JSONText, JSONMessages, JSONAny, jsonList + JSONBool,
		jsonList + JSONInt, jsonList + JSONDouble, jsonList + JSONText} {
		if like(t) {
			return Unify(t, valueType) == t
		}
	}
	return false
}

// mergeColumns is Merge for whole columns. In the output, ids are text, even if they have other types in the files.
func mergeColumns(a, b *Node) *Node {
	if merged := Merge(a, b); merged != nil || a.Name != IDName || !Fits(a.Name, a) || !Fits(b.Name, b) {
		return merged
	}
	return a
}

// Merge returns a node that can represent the values of both, nil if there is none.
func Merge(a, b *Node) *Node {
	switch {
	case a.IsNull() && a.Rep != Repeated:
		return asOptional(b)
	case b.IsNull() && b.Rep != Repeated:
		return asOptional(a)
	case a.isEmptyList() && b.IsJSON():
		return asOptional(b)
	case b.isEmptyList() && a.IsJSON():
		return asOptional(a)
	case a.IsLeaf != b.IsLeaf, (a.Rep == Repeated) != (b.Rep == Repeated):
		return nil
	}
	c := a.Clone()
	if b.Rep == Optional {
		c.Rep = Optional
	}
	if a.IsLeaf {
		c.Type = widest(a.Type, b.Type)
		if c.Type == nil {
			return nil
		}
		return c
	}
	if a.IsMap() != b.IsMap() || a.IsList() != b.IsList() || len(a.Fields) != len(b.Fields) {
		return nil
	}
	for i := range a.Fields {
		// Names inside lists and maps have no meaning ("element", "item", "array").
		named := !a.IsList() && !a.IsMap()
		if named && a.Fields[i].Name != b.Fields[i].Name {
			return nil
		}
		if c.Fields[i] = mergeInside(a, a.Fields[i], b.Fields[i]); c.Fields[i] == nil {
			return nil
		}
	}
	return c
}

// mergeInside merges the fields of a group. The fields of a list's or map's repeated group are merged by position.
func mergeInside(parent, a, b *Node) *Node {
	if (parent.IsList() || parent.IsMap()) && !a.IsLeaf && !b.IsLeaf && a.Rep == Repeated && b.Rep == Repeated &&
		len(a.Fields) == len(b.Fields) &&
		(len(a.Fields) == 1 || parent.IsMap()) {
		c := a.Clone()
		for i := range a.Fields {
			if c.Fields[i] = Merge(a.Fields[i], b.Fields[i]); c.Fields[i] == nil {
				return nil
			}
		}
		return c
	}
	return Merge(a, b)
}

func asOptional(n *Node) *Node {
	if n.Rep == Repeated {
		return nil // a bare repeated field cannot be null
	}
	c := n.Clone()
	c.Rep = Optional
	return c
}

// widest returns the type that can represent the values of both, nil if there is none.
func widest(a, b parquet.Type) parquet.Type {
	if parquet.EqualTypes(a, b) || a.String() == b.String() && a.Kind() == b.Kind() && a.Length() == b.Length() {
		return a
	}
	rank := func(t parquet.Type) int {
		if lt := t.LogicalType(); lt != nil {
			if signed, ok := Integer(t); !ok || !signed {
				return 0
			}
		}
		switch t.Kind() {
		case parquet.Int32:
			return 1
		case parquet.Int64:
			return 2
		case parquet.Float:
			return 11
		case parquet.Double:
			return 12
		}
		return 0
	}
	ra, rb := rank(a), rank(b)
	switch {
	case ra == 0 || rb == 0 || ra/10 != rb/10:
		return nil
	case ra == rb && ra == 1: // int8 and int16 are annotated, a plain int32 is not
		return parquet.Int32Type
	case ra == rb && ra == 2:
		return parquet.Int64Type
	case ra > rb:
		return a
	}
	return b
}
