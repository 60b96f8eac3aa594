package promptset

// NewRow returns a row whose prompt is a text that comes from no file: errors call its place from. As a message it is
// a conversation of one message of the user.
func (m *Mapping) NewRow(index int64, from, text string, message bool) *Row {
	r := &Builder{Row: &Row{Index: index, File: from, FileRow: index, Prompt: text}}
	r.finish([]string{"prompt"}, m)
	if message {
		m.converse(r, nil)
	}
	return r.Row
}
