package promptset

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/parameter"
)

// CSV is that of RFC 4180: fields with commas between, records with line ends between, fields with any of these in
// quotes, and quotes doubled there. Another delimiter may stand for the commas. A line ends with LF, CR LF, or CR
// alone, as pandas and pyarrow have it. encoding/csv takes CR alone for text, drops it before LF within quotes, bounds
// no record, and does not tell an empty field from an empty text.

// LookCSV reads a CSV file, whose delimiter its header tells.
func LookCSV(ctx context.Context, s *Source, f File) (*Contents, error) {
	return LookAtObjects(ctx, s, f, func(l *LineReader) (Rows, error) {
		return readHeader(s.Name, l, delimiterOf(l.Ahead()), s.Mapping)
	})
}

// LookTSV reads a CSV file with tabs.
func LookTSV(ctx context.Context, s *Source, f File) (*Contents, error) {
	return LookAtObjects(ctx, s, f, func(l *LineReader) (Rows, error) { return readHeader(s.Name, l, '\t', s.Mapping) })
}

// csvPlace is where in a record the text of CSV is.
type csvPlace int8

const (
	atField     csvPlace = iota // at the start of a field
	inPlain                     // in a field without quotes
	inQuotes                    // in a field with quotes
	behindQuote                 // behind a quote in one, which ends it unless another quote follows
)

// delimiter is what may stand between fields.
type delimiter struct {
	is   byte
	name string // of many
}

var delimiters = []delimiter{{',', "commas"}, {';', "semicolons"}, {'\t', "tabs"}, {'|', "vertical bars"}}

// delimiterOf is the delimiter of a text: the comma if its first line that is not empty has one outside of quotes, else
// what that line has most of.
func delimiterOf(text []byte) byte {
	counts, quoted := map[byte]int{}, false
	for _, b := range bytes.TrimLeft(text, "\r\n") {
		if quoted = quoted != (b == '"'); isLineEnd(b) && !quoted {
			break
		} else if !quoted {
			counts[b]++
		}
	}
	most := delimiters[0].is
	for _, d := range delimiters {
		if counts[','] == 0 && counts[d.is] > counts[most] {
			most = d.is
		}
	}
	return most
}

// isLineEnd reports whether a byte ends a line, or is one of the two that do.
func isLineEnd(b byte) bool { return b == '\n' || b == '\r' }

// step is the place behind the byte b, which does not end a record.
func (p csvPlace) step(b, delimiter byte) csvPlace {
	switch {
	case p == inQuotes && b == '"':
		return behindQuote
	case p == inQuotes:
		return inQuotes
	case b == '"' && (p == atField || p == behindQuote):
		return inQuotes
	case b == delimiter:
		return atField
	}
	return inPlain
}

// nextRecord returns the next record that is not an empty line, without its line end, as next does lines.
func nextRecord(l *LineReader, delimiter byte) ([]byte, error) {
	for {
		tooLong, err := addRecord(l, delimiter)
		switch {
		case err != nil:
			return nil, err
		case tooLong:
			return nil, ErrTooLong
		case len(l.line) > 0:
			return l.line, nil
		}
	}
}

// addRecord makes the next record, which may be an empty line, the current one. At the end of the file the error is
// io.EOF, unless there is an unended record.
func addRecord(l *LineReader, delimiter byte) (tooLong bool, err error) {
	l.line = l.line[:0]
	l.first = l.number + 1
	place, newLine, last := atField, true, byte(0)
	for {
		if _, err := l.buf.Peek(1); err != nil {
			if err == io.EOF && l.number >= l.first {
				err = nil
			}
			return tooLong, err
		}
		piece, _ := l.buf.Peek(l.buf.Buffered())
		end := -1 // of the record, in the piece
		for i, b := range piece {
			if second := b == '\n' && last == '\r'; newLine && !second { // of the two bytes of a line end
				l.number++
				newLine = false
			}
			last = b
			if isLineEnd(b) {
				if newLine = true; place != inQuotes {
					end = i
					break
				}
			}
			place = place.step(b, delimiter)
		}
		text := piece
		if end >= 0 {
			text = piece[:end]
		}
		if len(l.line)+len(text) > maxLine {
			tooLong, l.line = true, l.line[:0]
		}
		l.line = append(l.line, text...)
		if end < 0 {
			l.skip(len(piece))
			continue
		}
		l.skip(end + 1)
		if next, _ := l.buf.Peek(1); last == '\r' && string(next) == "\n" {
			l.skip(1)
		}
		return tooLong, nil
	}
}

// linesIn counts the line ends in a text.
func linesIn(text string) int64 {
	return int64(strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n"))
}

// csvField is a field of a record.
type csvField struct {
	text   string
	quoted bool
}

// splitRecord splits a record into its fields. first and last are its lines.
func splitRecord(record []byte, delimiter byte, first, last int64) (fields []csvField, err error) {
	text := string(record)
	for at := 0; ; at++ { // behind a delimiter
		if !strings.HasPrefix(text[at:], `"`) {
			end := strings.IndexByte(text[at:], delimiter)
			if end < 0 {
				end = len(text) - at
			}
			f := csvField{text: text[at : at+end]}
			at += end
			if strings.Contains(f.text, `"`) {
				return nil, fmt.Errorf("field %d has a quote within: put the whole field in quotes and double those "+
					"in it", len(fields)+1)
			}
			fields = append(fields, f)
		} else {
			var b strings.Builder
			for at++; ; at += 2 {
				end := strings.IndexByte(text[at:], '"')
				if end < 0 {
					return nil, fmt.Errorf("the quotes around field %d, which begin on line %d, do not end by line "+
						"%d: end them, or double the quotes in the field", len(fields)+1,
						first+linesIn(text[:at]), last)
				}
				b.WriteString(text[at : at+end])
				if at += end; !strings.HasPrefix(text[at:], `""`) {
					break
				}
				b.WriteByte('"')
			}
			if at++; at < len(text) && text[at] != delimiter {
				return nil, fmt.Errorf("field %d has text behind its closing quote: double the quotes in the field",
					len(fields)+1)
			}
			fields = append(fields, csvField{b.String(), true})
		}
		if at == len(text) {
			return fields, nil
		}
	}
}

// csvTable reads the records of a CSV file.
type csvTable struct {
	names     []string
	kinds     []csvKind
	delimiter byte
}

// csvKind says what the text of a field stands for.
type csvKind int8

const (
	csvPassed csvKind = iota // itself, to be passed through
	csvText                  // itself
	csvValue                 // a number, a boolean, a list or an object as JSON
	csvTexts                 // a list as JSON, or else one text
)

// kindOfCSV is what the fields of a column stand for: text, but where the name is that of a parameter.
func kindOfCSV(name string, m *Mapping) csvKind {
	if m.mapped() && name == m.PromptColumn {
		return csvText
	} else if m.columnOf(name) != name {
		return csvPassed
	}
	switch name {
	case "prompt", "messages", "id", parentName:
		return csvText
	case "prompt_token_ids", "parent_generation", "parent_length":
		return csvValue
	}
	t := parameter.TypeOf(name)
	for _, p := range parameter.Lookup(name) {
		if t == 0 && !p.Passes() {
			if t = parameter.TypeOf(p.Sets); t == 0 { // a parameter that Quire lacks
				return csvValue
			}
		}
	}
	switch t {
	case 0:
		return csvPassed
	case parameter.Word:
		return csvText
	case parameter.TextList, parameter.Structured, parameter.Object, parameter.List:
		return csvTexts
	}
	return csvValue
}

func newCSVTable(names []string, delimiter byte, m *Mapping) *csvTable {
	t := &csvTable{names: names, delimiter: delimiter}
	for _, name := range names {
		t.kinds = append(t.kinds, kindOfCSV(name, m))
	}
	return t
}

// readHeader reads the first record, which names the columns.
func readHeader(file string, l *LineReader, delimiter byte, m *Mapping) (*csvTable, error) {
	fail := func(what string, err error) (*csvTable, error) {
		return nil, &FileError{File: file, What: what, Err: err}
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
	fields, err := splitRecord(record, delimiter, l.first, l.number)
	if err != nil {
		return fail("its header can't be read", err)
	}
	if len(fields) > maxKeys {
		return fail(fmt.Sprintf("more than %d columns", maxKeys), nil)
	}
	var names []string
	for i, f := range fields {
		if f.text == "" { // as data frames name their index
			f.text = fmt.Sprintf("column%d", i)
		}
		if slices.Contains(names, f.text) {
			return fail(fmt.Sprintf("two columns are named %q; rename one", f.text), nil)
		}
		names = append(names, f.text)
	}
	return newCSVTable(names, delimiter, m), nil
}

// Header are the columns.
func (t *csvTable) Header() []string { return t.names }

// Type is the type that a column has without rows: that of nothing, unless the column is passed through as text.
func (t *csvTable) Type(name string) jsonType {
	if k := t.kinds[slices.Index(t.names, name)]; k == csvPassed || k == csvText {
		return jsonText
	}
	return jsonNull
}

// Start passes over the header.
func (t *csvTable) Start(l *LineReader) error {
	_, err := nextRecord(l, t.delimiter)
	return err
}

// Next returns the next record.
func (t *csvTable) Next(l *LineReader) ([]byte, error) { return nextRecord(l, t.delimiter) }

// IDIn returns the id in a record that cannot be read as a row.
func (t *csvTable) IDIn(record Text, key string) (id string) {
	at := slices.Index(t.names, key)
	fields, err := splitRecord(record.Bytes, t.delimiter, record.Line, record.Last)
	if err != nil || at < 0 || len(fields) != len(t.names) || !utf8.ValidString(fields[at].text) {
		return ""
	}
	if raw := t.kinds[at].json(fields[at]); isNullJSON(raw) || !decodeID(raw, &id) {
		return ""
	}
	return id
}

// Members returns a record's fields by the names of their columns, as JSON.
func (t *csvTable) Members(record Text) ([]member, error) {
	if !utf8.Valid(record.Bytes) {
		return nil, errors.New("the row is not valid UTF-8; re-encode it as UTF-8")
	}
	fields, err := splitRecord(record.Bytes, t.delimiter, record.Line, record.Last)
	if err != nil {
		return nil, err
	}
	switch {
	case len(fields) > len(t.names):
		name := delimiters[slices.IndexFunc(delimiters, func(d delimiter) bool { return d.is == t.delimiter })].name
		return nil, fmt.Errorf("the row has %d fields and the header %d; put fields with %s in quotes", len(fields),
			len(t.names), name)
	case len(fields) < len(t.names):
		return nil, fmt.Errorf("the row has %s and the header %d; give each column a field, which may be empty",
			plural.Count(len(fields), "field"), len(t.names))
	}
	object := make([]member, len(fields))
	for i, f := range fields {
		object[i] = member{t.names[i], t.kinds[i].json(f)}
	}
	return object, nil
}

// json returns a field as JSON. An empty one is null, but "" is an empty text where the column is passed through.
func (k csvKind) json(f csvField) json.RawMessage {
	if f.text == "" && (k != csvPassed || !f.quoted) {
		return json.RawMessage("null")
	}
	text := strings.TrimSpace(f.text)
	switch {
	case k == csvValue && (strings.EqualFold(text, "true") || strings.EqualFold(text, "false")): // True, in Python
		return json.RawMessage(strings.ToLower(text))
	case k == csvValue && text != "null", k == csvTexts && strings.HasPrefix(text, "["),
		k == csvTexts && strings.HasPrefix(text, "{"):
		if json.Valid([]byte(text)) && !loneSurrogate([]byte(text)) {
			return json.RawMessage(text)
		}
	}
	return appendText(nil, f.text)
}
