package lines

import (
	"fmt"
	"slices"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/setting"
)

// keyTypes has the keys of a file's rows, in order of first appearance, with the types of their values.
type keyTypes struct {
	keys  []string
	types map[string]schema.JSONType
}

// add adds the keys of a row.
func (k *keyTypes) add(file string, object []jsonvalue.Member) error {
	for _, m := range object {
		t, ok := k.types[m.Key]
		if !ok {
			if k.keys = append(k.keys, m.Key); len(k.keys) > schema.MaxKeys {
				return &record.FileError{File: file,
					What: fmt.Sprintf("more than %d different keys; nest them in one object", schema.MaxKeys)}
			}
		}
		if t != schema.JSONAny {
			t = schema.Unify(t, schema.TypeOfJSON(m.Raw))
		}
		k.types[m.Key] = t
	}
	return nil
}

// columns sets the columns that rows with these keys make.
func (k *keyTypes) columns(s *input.Source, c *input.Contents) (err error) {
	m := s.Mapping
	for _, p := range s.Partitions {
		if !slices.Contains(k.keys, p.Name) { // no row can be read
			k.keys = append(k.keys, p.Name)
		}
	}
	if c.Requests != nil && (m.PromptColumn != "" || m.Template != nil || m.IDColumn != "") {
		return &record.FileError{File: s.Name, Err: setting.Errorf("it is a file of OpenAI's batch API, whose " +
			"prompts are in its bodies and whose ids are its custom_ids; leave out `prompt-column`, `template` and " +
			"`id-column`")}
	}
	if err := m.MayHaveIDs(k.keys); err != nil && len(k.keys) > 0 {
		return &record.FileError{File: s.Name, Err: err}
	}
	if c.Lacks = m.Lacks(k.keys); m.Mapped() {
		if err := m.MayHavePrompts(k.keys); err != nil && len(k.keys) > 0 && c.Requests == nil {
			return record.WithFile(s.Name, err)
		}
	} else if len(k.keys) > 0 && c.Requests == nil && !slices.Contains(k.keys, schema.ParentName) &&
		!slices.ContainsFunc(schema.PromptNames, func(p string) bool { return slices.Contains(k.keys, p) }) {
		err := record.NoPrompts("no prompt key: its rows need", "have", k.keys)
		if c.Header != nil {
			err = record.NoPrompts("no prompt column: it needs", "has", k.keys)
		}
		return record.WithFile(s.Name, err)
	}
	has := func(key string) bool { return slices.Contains(k.keys, key) }
	for _, key := range k.keys {
		n := schema.KnownNode(key)
		switch {
		case m.Mapped() && key == m.ColumnOf("prompt"), s.IsPartition(key):
			n = schema.JSONText.Node(key)
		case n == nil, m.ColumnOf(key) != key,
			k.types[key] > schema.JSONMessages && schema.IsResult(key, has):
			n = k.types[key].Node(key)
		}
		n.Name, _ = m.Renamed(key)
		c.Columns = append(c.Columns, n)
	}
	if m.Template != nil {
		c.Columns = append(c.Columns, schema.JSONText.Node(record.MadeColumn))
	}
	if c.Requests != nil {
		c.Columns = c.Requests.Columns(c.Columns)
	}
	schema.Number(schema.Group("row", schema.Required, c.Columns...))
	return nil
}
