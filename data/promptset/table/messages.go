package table

import (
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"

	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// messages reads the column messages of a Parquet row.
func (r *groupReader) messages(row *record.Builder, c *schema.Node) {
	role, content := schema.PlainMessages(c)
	if role != nil && !slices.ContainsFunc(schema.MessageFields(c), func(f *schema.Node) bool {
		return f != role && f != content && r.hasValue(f)
	}) && !r.lacks(c, content) && !r.lacks(c, role) {
		r.elements(c, role, func(v parquet.Value, _ bool) {
			row.Messages = append(row.Messages, record.Message{
				Role: row.Text(fmt.Sprintf("messages[%d].role", len(row.Messages)), v.ByteArray())})
		})
		i := 0
		r.elements(c, content, func(v parquet.Value, _ bool) {
			row.Messages[i].Content = row.Text(fmt.Sprintf("messages[%d].content", i), v.ByteArray())
			i++
		})
		return
	}
	raw := r.json(c)
	if raw == nil {
		return
	}
	if c.Element() == nil && !c.IsLeaf {
		raw = row.Transposed(raw)
	}
	r.checkText(row, c)
	if !row.DecodeMessages(raw) {
		row.Fail("messages is %s; it must be %s", jsonvalue.Describe(raw), schema.Wanted("messages"))
	}
}

// checkText checks all text below a column.
func (r *groupReader) checkText(row *record.Builder, c *schema.Node) {
	for _, leaf := range r.columns[c.Column : c.Column+c.Leaves] {
		for _, v := range leaf {
			if v.Kind() == parquet.ByteArray && !v.IsNull() && !utf8.Valid(v.ByteArray()) {
				row.Fail("%s is not valid UTF-8; re-encode it as UTF-8", c.Name)
			}
		}
	}
}

// lacks reports whether a leaf of a list of structs is null in the current row.
func (r *groupReader) lacks(list, leaf *schema.Node) (null bool) {
	r.elements(list, leaf, func(_ parquet.Value, isNull bool) { null = null || isNull })
	return null
}

// hasValue reports whether anything below a node is not null in the current row.
func (r *groupReader) hasValue(n *schema.Node) bool {
	return slices.ContainsFunc(r.columns[n.Column:n.Column+n.Leaves], func(leaf []parquet.Value) bool {
		return slices.ContainsFunc(leaf, func(v parquet.Value) bool { return !v.IsNull() })
	})
}
