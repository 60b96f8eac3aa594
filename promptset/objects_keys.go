package promptset

import (
	"fmt"
	"slices"
)

// keyTypes are the keys of the rows of a file, in order of first appearance, with the types of their values.
type keyTypes struct {
	keys  []string
	types map[string]jsonType
}

// add adds those of a row.
func (k *keyTypes) add(file string, object []member) error {
	for _, m := range object {
		t, ok := k.types[m.key]
		if !ok {
			if k.keys = append(k.keys, m.key); len(k.keys) > maxKeys {
				return &FileError{File: file,
					What: fmt.Sprintf("more than %d different keys; nest them in one object", maxKeys)}
			}
		}
		if t != jsonAny {
			t = unify(t, typeOfJSON(m.raw))
		}
		k.types[m.key] = t
	}
	return nil
}

// columns sets the columns that rows with these keys make.
func (k *keyTypes) columns(s *Source, c *Contents) (err error) {
	m := s.Mapping
	for _, p := range s.Partitions {
		if !slices.Contains(k.keys, p.name) { // no row can be read
			k.keys = append(k.keys, p.name)
		}
	}
	if c.Requests != nil && (m.mapped() || m.IDColumn != "") {
		return &FileError{File: s.Name, What: "it is a file of OpenAI's batch API, whose prompts are in its " +
			"bodies and whose ids are its custom_ids; leave out `prompt-column`, `template` and `id-column`"}
	}
	if err := m.mayHaveIDs(k.keys); err != nil && len(k.keys) > 0 {
		return &FileError{File: s.Name, What: err.Error()}
	}
	if c.Lacks = m.lacks(k.keys); m.mapped() {
		if err := m.mayHavePrompts(k.keys); err != nil && len(k.keys) > 0 {
			return withFile(s.Name, err)
		}
	} else if len(k.keys) > 0 && c.Requests == nil && !slices.Contains(k.keys, parentName) &&
		!slices.ContainsFunc(promptNames, func(p string) bool { return slices.Contains(k.keys, p) }) {
		err := noPrompts("no prompt key: its rows need", "have", k.keys)
		if c.Header != nil {
			err = noPrompts("no prompt column: it needs", "has", k.keys)
		}
		return withFile(s.Name, err)
	}
	has := func(key string) bool { return slices.Contains(k.keys, key) }
	for _, key := range k.keys {
		n := knownNode(key)
		switch {
		case m.mapped() && key == m.PromptColumn, s.isPartition(key):
			n = jsonText.node(key)
		case n == nil, m.columnOf(key) != key,
			k.types[key] > jsonMessages && isResult(key, has):
			n = k.types[key].node(key)
		}
		n.name, _ = m.renamed(key)
		c.Columns = append(c.Columns, n)
	}
	if m.Template != nil {
		c.Columns = append(c.Columns, jsonText.node(madeColumn))
	}
	if c.Requests != nil {
		c.Columns = c.Requests.columns(c.Columns)
	}
	number(groupNode("row", required, c.Columns...))
	return nil
}
