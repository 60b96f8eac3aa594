package schema

import (
	"fmt"
	"slices"
	"strings"
)

// Schema is the union of the columns of a job's input files, in order of first appearance. Columns with the same name
// must have the same type, except that one file may allow null and another not, integers or floats may be narrower
// (the widest is kept), and a column may be all null. All top-level columns are nullable, because a row that cannot
// be read has none of them.
type Schema struct {
	Root *Node // columns in order; numbered
	from map[string]string
	// Bodies are the members in the bodies of batch files' lines: they are parameters, like the columns of other
	// files.
	Bodies []string
}

// Columns returns the names of the columns.
func (s *Schema) Columns() []string {
	names := make([]string, len(s.Root.Fields))
	for i, f := range s.Root.Fields {
		names[i] = f.Name
	}
	return names
}

// Parameters returns the names of columns and of members in the bodies of batch files. Everything that gives rows
// parameters is among them. List columns of an earlier output are left out; text that holds JSON is kept, because it
// may be either.
func (s *Schema) Parameters() []string {
	own := slices.DeleteFunc(s.Columns(), func(name string) bool {
		return s.Root.Field(name).Element() != nil &&
			IsResult(name, func(column string) bool { return s.Root.Field(column) != nil })
	})
	return slices.Concat(own, s.Bodies)
}

// String lists the columns with their types, for people.
func (s *Schema) String() string {
	parts := make([]string, len(s.Root.Fields))
	for i, f := range s.Root.Fields {
		parts[i] = f.Name + " " + f.Describe()
	}
	return strings.Join(parts, ", ")
}

func New() *Schema {
	return &Schema{Root: Group("row", Required), from: map[string]string{}}
}

// Add merges the columns of a file into s.
func (s *Schema) Add(file string, columns []*Node) error {
	seen := map[string]bool{}
	for _, c := range columns {
		if seen[c.Name] {
			return fmt.Errorf("two columns are named %q; rename one", c.Name)
		}
		seen[c.Name] = true
		i := slices.IndexFunc(s.Root.Fields, func(f *Node) bool { return f.Name == c.Name })
		if i < 0 {
			c = c.Clone()
			if c.Rep == Required {
				c.Rep = Optional
			}
			s.Root.Fields = append(s.Root.Fields, c)
			s.from[c.Name] = file
			continue
		}
		merged := mergeColumns(s.Root.Fields[i], c)
		if merged == nil {
			return fmt.Errorf("column %q is %s here and %s in %s; give it one type, or run the files as separate jobs",
				c.Name, c.Describe(), s.Root.Fields[i].Describe(), s.from[c.Name])
		}
		if s.Root.Fields[i].IsNull() || s.Root.Fields[i].isEmptyList() {
			s.from[c.Name] = file
		}
		s.Root.Fields[i] = merged
	}
	Number(s.Root)
	return nil
}
