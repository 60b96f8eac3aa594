package promptset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
)

// Schema is the union of the columns of a job's input files, in order of first appearance. Columns of one name must
// have one type up to: one file allowing null where another does not, narrower integers or floats (the widest is kept),
// and columns of nothing but nulls. All top-level columns are nullable, for a row that cannot be read has none of them.
type Schema struct {
	root *node // columns in order; numbered
	from map[string]string
	// bodies are the members that bodies of lines of batch files have: parameters, as columns of other files are.
	bodies []string
}

// Columns returns the names of the columns.
func (s *Schema) Columns() []string {
	names := make([]string, len(s.root.fields))
	for i, f := range s.root.fields {
		names[i] = f.name
	}
	return names
}

// Parameters returns the names of columns, and of members of the bodies of batch files: what gives rows parameters is
// among them. Columns of lists that an earlier output has are not; text that holds JSON may be both.
func (s *Schema) Parameters() []string {
	own := slices.DeleteFunc(s.Columns(), func(name string) bool {
		return s.root.field(name).element() != nil &&
			isResult(name, func(column string) bool { return s.root.field(column) != nil })
	})
	return slices.Concat(own, s.bodies)
}

// String lists the columns with their types, for people.
func (s *Schema) String() string {
	parts := make([]string, len(s.root.fields))
	for i, f := range s.root.fields {
		parts[i] = f.name + " " + f.describe()
	}
	return strings.Join(parts, ", ")
}

func newSchema() *Schema {
	return &Schema{root: groupNode("row", required), from: map[string]string{}}
}

// add merges the columns of a file into s.
func (s *Schema) add(file string, columns []*node) error {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.name] {
			return &FileError{File: file, What: fmt.Sprintf("two columns are named %q; rename one", c.name)}
		}
		seen[c.name] = true
		i := slices.IndexFunc(s.root.fields, func(f *node) bool { return f.name == c.name })
		if i < 0 {
			c = c.clone()
			if c.rep == required {
				c.rep = optional
			}
			s.root.fields = append(s.root.fields, c)
			s.from[c.name] = file
			continue
		}
		merged := mergeColumns(s.root.fields[i], c)
		if merged == nil {
			return &FileError{File: file,
				What: fmt.Sprintf(
					"column %q is %s here and %s in %s; give it one type, or run the files as separate jobs",
					c.name, c.describe(), s.root.fields[i].describe(), s.from[c.name])}
		}
		if s.root.fields[i].isNull() || s.root.fields[i].isEmptyList() {
			s.from[c.name] = file
		}
		s.root.fields[i] = merged
	}
	number(s.root)
	return nil
}

// mergeColumns is merge for whole columns. Ids are texts in the output, whatever types they have in the files.
func mergeColumns(a, b *node) *node {
	if merged := merge(a, b); merged != nil || a.name != idColumn || !fits(a.name, a) || !fits(b.name, b) {
		return merged
	}
	return a
}

// merge returns a node that holds the values of both, nil if there is none.
func merge(a, b *node) *node {
	switch {
	case a.isNull() && a.rep != repeated:
		return asOptional(b)
	case b.isNull() && b.rep != repeated:
		return asOptional(a)
	case a.isEmptyList() && b.isJSON():
		return asOptional(b)
	case b.isEmptyList() && a.isJSON():
		return asOptional(a)
	case a.leaf != b.leaf, (a.rep == repeated) != (b.rep == repeated):
		return nil
	}
	c := a.clone()
	if b.rep == optional {
		c.rep = optional
	}
	if a.leaf {
		c.typ = widest(a.typ, b.typ)
		if c.typ == nil {
			return nil
		}
		return c
	}
	if a.isMap() != b.isMap() || a.isList() != b.isList() || len(a.fields) != len(b.fields) {
		return nil
	}
	for i := range a.fields {
		// Names inside of lists and maps carry no meaning ("element", "item", "array").
		named := !a.isList() && !a.isMap()
		if named && a.fields[i].name != b.fields[i].name {
			return nil
		}
		if c.fields[i] = mergeInside(a, a.fields[i], b.fields[i]); c.fields[i] == nil {
			return nil
		}
	}
	return c
}

// mergeInside merges fields of a group. The repeated group of a list or map is merged by position of its fields.
func mergeInside(parent, a, b *node) *node {
	if (parent.isList() || parent.isMap()) && !a.leaf && !b.leaf && a.rep == repeated && b.rep == repeated &&
		len(a.fields) == len(b.fields) &&
		(len(a.fields) == 1 || parent.isMap()) {
		c := a.clone()
		for i := range a.fields {
			if c.fields[i] = merge(a.fields[i], b.fields[i]); c.fields[i] == nil {
				return nil
			}
		}
		return c
	}
	return merge(a, b)
}

func asOptional(n *node) *node {
	if n.rep == repeated {
		return nil // a bare repeated field cannot be null
	}
	c := n.clone()
	c.rep = optional
	return c
}

// widest returns the type that holds the values of both, nil if there is none.
func widest(a, b parquet.Type) parquet.Type {
	if parquet.EqualTypes(a, b) || a.String() == b.String() && a.Kind() == b.Kind() && a.Length() == b.Length() {
		return a
	}
	rank := func(t parquet.Type) int {
		if lt := t.LogicalType(); lt != nil {
			if signed, ok := integer(t); !ok || !signed {
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
	case ra == rb && ra == 1: // int8 and int16 say so beside a plain int32
		return parquet.Int32Type
	case ra == rb && ra == 2:
		return parquet.Int64Type
	case ra > rb:
		return a
	}
	return b
}

// layout says how the values of a file's rows are placed in the job's schema.
type layout struct {
	columns []*node // the file's columns, numbered as in the file
	leaves  []leafPlace
}

// leafPlace is the place of one leaf of a file.
type leafPlace struct {
	column int    // in the job's schema
	defs   []byte // definition level in the job's schema of each definition level in the file
	kind   parquet.Kind
	text   bool
}

// place works out where the values of a file's columns go. It fails if the file is not one that was merged.
func (s *Schema) place(fileRoot *node) (*layout, error) {
	l := &layout{columns: fileRoot.fields, leaves: make([]leafPlace, fileRoot.leaves)}
	var walk func(src, dst *node, defs []byte, def int)
	walk = func(src, dst *node, defs []byte, def int) {
		// defs[i] is the level reached once i levelled nodes of the file are present; levels that only the job's schema
		// has are reached with the node above them.
		defs = slices.Clone(defs)
		if dst.rep != required {
			def++
		}
		if src.rep != required {
			defs = append(defs, byte(def))
		} else {
			defs[len(defs)-1] = byte(def)
		}
		if src.leaf {
			// A null column merged with a group has no leaf of its own there: its nulls go to every leaf.
			l.leaves[src.column] = leafPlace{column: dst.column, defs: defs, kind: dst.kindOfFirst(), text: dst.leaf &&
				dst.isText()}
			if !dst.leaf {
				l.leaves[src.column].column = -1
			}
			return
		}
		for i, f := range src.fields {
			walk(f, dst.fields[i], defs, def)
		}
	}
	for _, f := range fileRoot.fields {
		dst := s.root.field(f.name)
		if dst == nil || mergeColumns(dst, f) == nil {
			return nil, fmt.Errorf("column %q is not what it was when the job started", f.name)
		}
		walk(f, dst, []byte{0}, 0)
	}
	return l, nil
}

func (n *node) kindOfFirst() parquet.Kind {
	for !n.leaf {
		n = n.fields[0]
	}
	return n.typ.Kind()
}
