// Package table reads rows from files with typed columns: their values become the fields of rows, or errors of the
// rows.
package table

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// partition adds the columns of the file's folders, before the columns that have a meaning are found.
func (t *Table) partition(all []input.Partition) error {
	for i := range all {
		if t.Root.Field(all[i].Name) != nil {
			return all[i].Twice(t.name)
		}
		t.Root.Fields = append(t.Root.Fields, schema.JSONText.Node(all[i].Name))
	}
	schema.Number(t.Root)
	for _, p := range all {
		c := t.Root.Field(p.Name)
		v := parquet.NullValue().Level(0, 0, c.Column)
		var text string
		if p.Value != "null" && json.Unmarshal([]byte(p.Value), &text) == nil {
			v = parquet.ByteArrayValue([]byte(text)).Level(0, c.MaxDef, c.Column)
		}
		t.folders = append(t.folders, v)
	}
	return nil
}

// Table is a file with typed columns, of Parquet or of Arrow. An Arrow file has the columns that it would have as
// Parquet.
type Table struct {
	name    string
	Root    *schema.Node // its columns, numbered as in the file
	Known   map[string]*schema.Node
	foreign []*schema.Node // columns whose values the table of parameters judges
	seconds []*schema.Node // columns of texts that make pairs with prompts
	mapping *record.Mapping
	used    []*schema.Node  // columns that the template uses
	Made    *schema.Node    // the column of the rendered prompt
	Lacks   []string        // columns that the template needs but the file lacks
	folders []parquet.Value // values of the columns that the file's folders define
}

// New finds the columns of a file that have a meaning, and adds the columns that its folders define.
func New(name string, root *schema.Node, m *record.Mapping, folders []input.Partition) (*Table, error) {
	t := &Table{name: name, Root: root, Known: map[string]*schema.Node{}, mapping: m}
	if err := t.partition(folders); err != nil {
		return nil, err
	}
	if err := t.findKnown(); err != nil {
		return nil, record.WithFile(name, err)
	}
	return t, nil
}

// findKnown finds the columns that have a meaning.
func (t *Table) findKnown() error {
	m, names := t.mapping, []string{}
	for _, c := range t.Root.Fields {
		names = append(names, c.Name)
	}
	beside := m.Forms(names)
	if m.Mapped() {
		beside = m.Forms([]string{"prompt"})
	}
	for _, c := range t.Root.Fields {
		if m.Template != nil && slices.Contains(m.Template.Uses(), c.Name) {
			t.used = append(t.used, c)
			c.ReadAsText()
		}
		if slices.Contains(m.Reads.Seconds, c.Name) && !c.IsNull() {
			if !schema.FitsTexts(c) {
				return fmt.Errorf("column %q is %s; it must be text or a list of texts", c.Name, c.Describe())
			}
			t.seconds = append(t.seconds, c)
			c.ReadAsText()
		}
		if len(m.ForeignNames(c.Name)) > 0 && !c.IsNull() {
			t.foreign = append(t.foreign, c)
			if parameter.TypeOf(c.Name) == parameter.TextList {
				c.ReadAsText()
			}
		}
		for _, name := range m.NamesOf(c.Name) {
			if c.IsNull() || !schema.Concerns(name, beside) {
				continue
			}
			if !schema.Fits(name, c) && c.Element() != nil && schema.IsResult(name, t.has) {
				continue
			}
			if !schema.Fits(name, c) {
				return fmt.Errorf("column %q is %s; it must be %s", c.Name, c.Describe(), schema.Wanted(name))
			}
			t.Known[name] = c
			c.ReadAsText()
		}
	}
	if err := m.MayHaveIDs(names); err != nil {
		return err
	}
	for _, c := range t.Root.Fields {
		c.Name, _ = m.Renamed(c.Name)
	}
	if m.Template != nil {
		t.Lacks = m.Lacks(names)
		t.make()
		return nil
	}
	if err := m.MayHavePrompts(names); err != nil {
		return err
	}
	if !slices.ContainsFunc(append([]string{schema.ParentName}, schema.PromptNames...), func(name string) bool {
		c := t.Root.Field(m.ColumnOf(name)) // a column of nulls has no prompts
		return t.Known[name] != nil || c != nil && c.IsNull()
	}) {
		return record.NoPrompts("no prompt column: it needs", "has", names)
	}
	return nil
}

func (t *Table) has(column string) bool { return t.Root.Field(column) != nil }

// make adds the column of the template's prompts.
func (t *Table) make() {
	t.Made = schema.JSONText.Node(record.MadeColumn)
	t.Root.Fields = append(t.Root.Fields, t.Made)
	schema.Number(t.Root)
}
