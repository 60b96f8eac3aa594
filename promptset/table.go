package promptset

import (
	"fmt"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/parameter"
)

// table is a file whose columns have types: of Parquet, or of Arrow, whose columns are those that it would have as
// Parquet.
type table struct {
	name    string
	root    *node // its columns, numbered as in the file
	known   map[string]*node
	foreign []*node // columns whose values the table of parameters judges
	mapping *Mapping
	used    []*node         // columns that the template uses
	made    *node           // what it makes
	lacks   []string        // columns that it wants
	folders []parquet.Value // of the columns that the file's folders give
}

// newTable finds the columns of a file that have a meaning, and adds those that its folders give.
func newTable(name string, root *node, m *Mapping, folders []Partition) (*table, error) {
	t := &table{name: name, root: root, known: map[string]*node{}, mapping: m}
	if err := t.partition(folders); err != nil {
		return nil, err
	}
	if err := t.findKnown(); err != nil {
		return nil, withFile(name, err)
	}
	return t, nil
}

// findKnown finds the columns that have a meaning.
func (t *table) findKnown() error {
	m, names := t.mapping, []string{}
	for _, c := range t.root.fields {
		names = append(names, c.name)
	}
	beside := m.forms(names)
	if m.mapped() {
		beside = m.forms([]string{"prompt"})
	}
	for _, c := range t.root.fields {
		if m.Template != nil && slices.Contains(m.Template.Uses(), c.name) {
			t.used = append(t.used, c)
			c.readAsText()
		}
		if len(foreignNames(c.name)) > 0 && !c.isNull() {
			t.foreign = append(t.foreign, c)
			if parameter.TypeOf(c.name) == parameter.TextList {
				c.readAsText()
			}
		}
		for _, name := range m.namesOf(c.name) {
			if c.isNull() || !concerns(name, beside) {
				continue
			}
			if !fits(name, c) && c.element() != nil && isResult(name, t.has) {
				continue
			}
			if !fits(name, c) {
				return fmt.Errorf("column %q is %s; it must be %s", c.name, c.describe(), wanted(name))
			}
			t.known[name] = c
			c.readAsText()
		}
	}
	if err := m.mayHaveIDs(names); err != nil {
		return err
	}
	for _, c := range t.root.fields {
		c.name, _ = m.renamed(c.name)
	}
	if m.Template != nil {
		t.lacks = m.lacks(names)
		t.make()
		return nil
	}
	if err := m.mayHavePrompts(names); err != nil {
		return err
	}
	if !slices.ContainsFunc(append([]string{parentName}, promptNames...), func(name string) bool {
		c := t.root.field(m.columnOf(name)) // a column of nulls has no prompt in any row
		return t.known[name] != nil || c != nil && c.isNull()
	}) {
		return noPrompts("no prompt column: it needs", "has", names)
	}
	return nil
}

func (t *table) has(column string) bool { return t.root.field(column) != nil }

// make adds the column of what the template makes.
func (t *table) make() {
	t.made = jsonText.node(madeColumn)
	t.root.fields = append(t.root.fields, t.made)
	number(t.root)
}

func list(names []string) string {
	if len(names) == 0 {
		return "no columns"
	}
	return strings.Join(names, ", ")
}
