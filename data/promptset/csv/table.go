package csv

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/internal/plural"
)

// The format is RFC 4180: fields separated by commas, records by line ends; fields that contain these are quoted, and
// quotes in them are doubled. A different delimiter may replace the commas. A line ends with LF, CR LF, or CR alone, as
// in pandas and pyarrow. encoding/csv is not used because it takes CR alone for text, drops it before LF within quotes,
// does not bound records, and does not distinguish an empty field from an empty text.

// Extensions lists the extensions of CSV files, and of CSV files with tabs.
var Extensions = append(lines.Compressible(".csv"), tabs...)

var tabs = lines.Compressible(".tsv")

// Look reads a CSV file. The delimiter follows from its name or its header.
func Look(ctx context.Context, s *input.Source, f input.File) (*input.Contents, error) {
	return lines.Look(ctx, s, f, func(l *lines.Reader) (lines.Rows, error) {
		name := strings.ToLower(s.Name)
		if slices.ContainsFunc(tabs, func(extension string) bool { return strings.HasSuffix(name, extension) }) {
			return readHeader(s.Name, l, '\t', s.Mapping)
		}
		return readHeader(s.Name, l, delimiterOf(l.Ahead()), s.Mapping)
	})
}

// table reads the records of a CSV file.
type table struct {
	names     []string
	kinds     []kind
	delimiter byte
}

// kind is how the text of a field is interpreted.
type kind int8

const (
	asPassed kind = iota // as the text itself, and passed through
	asText               // as the text itself
	asValue              // as JSON: a number, a boolean, a list or an object
	asTexts              // as a JSON list, or else as one text
)

// kindOf returns how a column's fields are interpreted: as text, unless the column is named like a parameter.
func kindOf(name string, m *record.Mapping) kind {
	if m.Mapped() && name == m.ColumnOf("prompt") {
		return asText
	} else if m.ColumnOf(name) != name {
		return asPassed
	}
	switch name {
	case "prompt", "messages", "id", schema.ParentName:
		return asText
	case "prompt_token_ids", "parent_generation", "parent_length":
		return asValue
	}
	t := parameter.TypeOf(name)
	for _, p := range parameter.Lookup(name) {
		if t == 0 && !p.Passes() {
			if t = parameter.TypeOf(p.Sets); t == 0 { // a parameter that Quire does not have
				return asValue
			}
		}
	}
	switch t {
	case 0:
		return asPassed
	case parameter.Word:
		return asText
	case parameter.TextList, parameter.Structured, parameter.Object, parameter.List:
		return asTexts
	}
	return asValue
}

func newTable(names []string, delimiter byte, m *record.Mapping) *table {
	t := &table{names: names, delimiter: delimiter}
	for _, name := range names {
		t.kinds = append(t.kinds, kindOf(name, m))
	}
	return t
}

// readHeader reads the first record, which names the columns.
func readHeader(file string, l *lines.Reader, delimiter byte, m *record.Mapping) (*table, error) {
	fail := func(what string, err error) (*table, error) {
		return nil, &record.FileError{File: file, What: what, Err: err}
	}
	record, err := nextRecord(l, delimiter)
	if err == io.EOF {
		return fail("it is empty; its first line names the columns, such as id,prompt", nil)
	} else if err != nil {
		return fail("cannot read its header", err)
	}
	if !utf8.Valid(record) {
		return fail("its header is not valid UTF-8; re-encode it as UTF-8", nil)
	}
	fields, err := splitRecord(record, delimiter, l.First, l.Number)
	if err != nil {
		return fail("its header can't be read", err)
	}
	if len(fields) > schema.MaxKeys {
		return fail(fmt.Sprintf("more than %d columns", schema.MaxKeys), nil)
	}
	var names []string
	for i, f := range fields {
		if f.text == "" { // data frames name their index so
			f.text = fmt.Sprintf("column%d", i)
		}
		if slices.Contains(names, f.text) {
			return fail(fmt.Sprintf("two columns are named %q; rename one", f.text), nil)
		}
		names = append(names, f.text)
	}
	return newTable(names, delimiter, m), nil
}

// Header returns the columns.
func (t *table) Header() []string { return t.names }

// Type returns the type of a column in a file without rows: text if the column is passed through, otherwise the empty
// type.
func (t *table) Type(name string) schema.JSONType {
	if k := t.kinds[slices.Index(t.names, name)]; k == asPassed || k == asText {
		return schema.JSONText
	}
	return schema.JSONNull
}

// Start skips the header.
func (t *table) Start(l *lines.Reader) error {
	_, err := nextRecord(l, t.delimiter)
	return err
}

// Next returns the next record.
func (t *table) Next(l *lines.Reader) ([]byte, error) { return nextRecord(l, t.delimiter) }

// IDIn returns the id in a record that cannot be read as a row.
func (t *table) IDIn(record lines.Text, key string) (id string) {
	index := slices.Index(t.names, key)
	fields, err := splitRecord(record.Bytes, t.delimiter, record.Line, record.Last)
	if err != nil || index < 0 || len(fields) != len(t.names) || !utf8.ValidString(fields[index].text) {
		return ""
	}
	if raw := t.kinds[index].json(fields[index]); jsonvalue.IsNull(raw) || !jsonvalue.ParseID(raw, &id) {
		return ""
	}
	return id
}

// Members returns a record's fields by the names of their columns, as JSON.
func (t *table) Members(record lines.Text) ([]jsonvalue.Member, error) {
	if !utf8.Valid(record.Bytes) {
		return nil, errors.New("the row is not valid UTF-8; re-encode it as UTF-8")
	}
	fields, err := splitRecord(record.Bytes, t.delimiter, record.Line, record.Last)
	if err != nil {
		return nil, err
	}
	switch {
	case len(fields) > len(t.names):
		name := delimiters[slices.IndexFunc(delimiters, func(d delimiter) bool { return d.char == t.delimiter })].name
		return nil, fmt.Errorf("the row has %d fields and the header %d; put fields with %s in quotes", len(fields),
			len(t.names), name)
	case len(fields) < len(t.names):
		return nil, fmt.Errorf("the row has %s and the header %d; give each column a field, which may be empty",
			plural.Count(len(fields), "field"), len(t.names))
	}
	object := make([]jsonvalue.Member, len(fields))
	for i, f := range fields {
		object[i] = jsonvalue.Member{Key: t.names[i], Raw: t.kinds[i].json(f)}
	}
	return object, nil
}

// json returns a field as JSON. An empty field is null, but "" is an empty text if the column is passed through.
func (k kind) json(f field) json.RawMessage {
	if f.text == "" && (k != asPassed || !f.quoted) {
		return json.RawMessage("null")
	}
	text := strings.TrimSpace(f.text)
	switch {
	case k == asValue && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")): // True, as in Python
		return json.RawMessage(strings.ToLower(text))
	case k == asValue && text != "null", k == asTexts && strings.HasPrefix(text, "["),
		k == asTexts && strings.HasPrefix(text, "{"):
		if json.Valid([]byte(text)) && !jsonvalue.HasLoneSurrogate([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return jsonvalue.AppendText(nil, f.text)
}
