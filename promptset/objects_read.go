package promptset

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/klauspost/compress/zstd"

	"github.com/quire/quire/promptset/openai"
)

// maxLine is the longest line of a JSONL file and record of a CSV file, in bytes.
const maxLine = 64 << 20

var errLineTooLong = fmt.Errorf("it is longer than %d MiB; split the row", maxLine>>20)

// lines reads the non-blank lines of a JSONL file, or records of a CSV file.
type lines struct {
	buf       *bufio.Reader
	first     int64 // line at which the last one begins, from 1
	number    int64 // line at which it ends
	offset    int64 // bytes of text up to its end
	line      []byte
	delimiter byte // of records
	close     func()
}

func compressed(name string) bool {
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// byteOrderMark may begin a file of UTF-8, and is no part of its text.
const byteOrderMark = "\xef\xbb\xbf"

// openLines reads the lines of a file from its start.
func openLines(name string, r io.Reader) (*lines, error) {
	l := &lines{close: func() {}}
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := newPadded(r)
		if err != nil {
			return nil, &FileError{File: name, What: "not a readable gzip file", Err: err}
		}
		r = z
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, &FileError{File: name, What: "not a readable zstd file", Err: err}
		}
		l.close = z.Close
		r = z
	}
	l.buf = bufio.NewReaderSize(r, 64<<10)
	if head, _ := l.buf.Peek(3); string(head) == byteOrderMark {
		l.buf.Discard(3)
		l.offset = 3
	}
	return l, nil
}

func (l *lines) Close() { l.close() }

// next returns the next line that is not blank, valid until the next call; errLineTooLong leaves the reader after the
// line.
func (l *lines) next() ([]byte, error) {
	for {
		l.line = l.line[:0]
		l.number++
		l.first = l.number
		tooLong, err := l.add(func([]byte) {})
		if err != nil {
			return nil, err
		}
		if tooLong {
			return nil, errLineTooLong
		}
		if line := bytes.TrimSpace(l.line); len(line) > 0 {
			return line, nil
		}
	}
}

// add adds the next line, with its end, to the current one, and shows it to scan piece by piece. The current one is cut
// where it is too long. At the end of the file the error is io.EOF, unless there is an unended line.
func (l *lines) add(scan func(piece []byte)) (tooLong bool, err error) {
	some := false
	for {
		piece, err := l.buf.ReadSlice('\n')
		some = some || len(piece) > 0
		l.offset += int64(len(piece))
		if len(l.line)+len(piece) > maxLine {
			tooLong = true
			l.line = l.line[:0]
		}
		l.line = append(l.line, piece...)
		scan(piece)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && some {
			err = nil
		}
		return tooLong, err
	}
}

// objects reads the rows of a file that are objects: lines of JSONL, or records of CSV by the names in the header.
type objects struct {
	*lines
	table *csvTable // of a CSV file, else nil
}

// openObjects reads the rows of a file from its start, or from the mark before the row from. It returns the row at
// which the reader is.
func openObjects(s *Source, r io.ReaderAt, from int64) (*objects, int64, error) {
	o := &objects{}
	if s.header != nil {
		o.table = newCSVTable(s.header, s.delimiter, s.mapping)
	}
	if m := from / markEvery; m > 0 && m < int64(len(s.marks)) {
		start := s.marks[m]
		text := io.NewSectionReader(r, start.offset, s.Bytes-start.offset)
		o.lines = &lines{buf: bufio.NewReaderSize(text, 64<<10), number: start.line, delimiter: s.delimiter,
			close: func() {}}
		return o, m * markEvery, nil
	}
	l, err := openLines(s.Name, io.NewSectionReader(r, 0, s.Bytes))
	if err != nil {
		return nil, 0, err
	}
	l.delimiter = s.delimiter
	if o.lines = l; o.table != nil {
		_, err = l.record()
	}
	return o, 0, err
}

// next returns the text of the next row, valid until the next call; errLineTooLong leaves the reader after it.
func (o *objects) next() ([]byte, error) {
	if o.table != nil {
		return o.record()
	}
	return o.lines.next()
}

// members splits the text of a row into keys and values. The error says what is wrong with it and what to do.
func (o *objects) members(row []byte) ([]member, error) {
	if o.table != nil {
		return o.table.members(row, o.first, o.number)
	}
	return members(row)
}

// idIn returns the id in the text of a damaged row; it is empty if it can't be read.
func (o *objects) idIn(row []byte, key string) (id string) {
	if o.table == nil {
		return idIn(row, key)
	}
	at := slices.Index(o.table.names, key)
	fields, err := splitRecord(row, o.delimiter, o.first, o.number)
	if err != nil || at < 0 || len(fields) != len(o.table.names) || !utf8.ValidString(fields[at].text) {
		return ""
	}
	if raw := o.table.kinds[at].json(fields[at]); isNullJSON(raw) || !decodeID(raw, &id) {
		return ""
	}
	return id
}

// idKey is the key of a row's id.
func (s *Source) idKey() string {
	if s.requests {
		return openai.Keys[0]
	}
	return s.mapping.columnOf(idName)
}

// rowsOfObjects gives rows of a file, numbered there, to yield. It returns false when yield did.
func rowsOfObjects(ctx context.Context, in *opened, from, to int64, yield func(*Row) bool) (more bool, err error) {
	s := in.Source
	o, at, err := openObjects(s, in.file, from)
	if err != nil {
		return false, err
	}
	defer o.Close()
	for ; at < to; at++ {
		text, err := o.next()
		if err != nil && err != errLineTooLong {
			if err == io.EOF {
				return false, s.changedRows(at)
			}
			return false, &FileError{File: s.Name, What: fmt.Sprintf("cannot read it after line %d", o.first-1),
				Err: fmt.Errorf("%w; do not change inputs during a job", err)}
		}
		if at < from {
			continue
		}
		row, err := s.object(o, at, o.first, text, err)
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil || !yield(row) {
			return false, nil
		}
	}
	return true, nil
}

// object returns the row of a text, which failed says why it could not be read.
func (s *Source) object(o *objects, at, line int64, text []byte, failed error) (*Row, error) {
	row := &Row{Index: s.base + at, File: s.rowsName(), FileRow: at, Line: line}
	var given []string
	err := failed
	if err == nil {
		row.object, err = o.members(text)
	}
	if err == nil {
		if row.object, err = s.addPartitions(row.object); err != nil {
			return nil, err
		}
	}
	if err != nil {
		row.blame("", openai.CodeInvalidLine, func() { row.fail("%v", err) })
		row.lostID = true
		if row.ID = o.idIn(text, s.idKey()); s.requests {
			row.request = &request{customID: row.ID}
		}
	} else {
		given = row.decode(s)
	}
	row.finish(given, s.mapping)
	return row, nil
}

// scanObjects reads a file once, for its number of rows, its digest and marks, which it sets, and its columns.
func scanObjects(ctx context.Context, s *Source, f File) (columns []*node, err error) {
	digest := sha256.New()
	raw := io.TeeReader(io.NewSectionReader(f, 0, f.Size()), digest)
	l, err := openLines(s.Name, raw)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	o := &objects{lines: l}
	types := &keyTypes{types: map[string]jsonType{}}
	if s.format.csv {
		if s.delimiter = s.format.delimiter; s.delimiter == 0 {
			head, _ := l.buf.Peek(l.buf.Size()) // what there is
			s.delimiter = delimiterOf(head)
		}
		l.delimiter = s.delimiter
		if o.table, err = readHeader(s.Name, l, s.mapping); err != nil {
			return nil, err
		}
		s.header = o.table.names
		for _, name := range s.header {
			types.keys, types.types[name] = append(types.keys, name), o.table.column(name)
		}
	}
	for ; ; s.Rows++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if s.Rows%markEvery == 0 && !compressed(s.Name) {
			s.marks = append(s.marks, mark{l.offset, l.number})
		}
		text, err := o.next()
		if err == errLineTooLong {
			continue
		}
		if err != nil {
			if err == io.EOF {
				break
			}
			return nil, &FileError{File: s.Name, What: fmt.Sprintf("cannot read it after line %d", l.first-1), Err: err}
		}
		object, err := o.members(text)
		if err != nil {
			continue // the row's error, when it is read
		}
		if object, err = s.addPartitions(object); err != nil {
			return nil, err
		}
		s.noteText(object)
		if s.header == nil {
			s.noteRequest(object, l.number)
		}
		if err := types.add(s.Name, object); err != nil {
			return nil, err
		}
	}
	if columns, err = s.columnsOf(types); err != nil {
		return nil, err
	}
	// A decompressor may leave bytes behind what it takes for the end.
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return nil, &FileError{File: s.Name, What: "cannot read it", Err: err}
	}
	s.Digest = hex.EncodeToString(digest.Sum(nil))
	return columns, nil
}

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

// columnsOf returns the columns that rows with these keys make.
func (s *Source) columnsOf(k *keyTypes) (columns []*node, err error) {
	m := s.mapping
	for _, p := range s.partitions {
		if !slices.Contains(k.keys, p.name) { // no row can be read
			k.keys = append(k.keys, p.name)
		}
	}
	if s.requests && (m.mapped() || m.IDColumn != "") {
		return nil, &FileError{File: s.Name, What: "it is a file of OpenAI's batch API, whose prompts are in its " +
			"bodies and whose ids are its custom_ids; leave out `prompt-column`, `template` and `id-column`"}
	}
	if err := m.mayHaveIDs(k.keys); err != nil && len(k.keys) > 0 {
		return nil, &FileError{File: s.Name, What: err.Error()}
	}
	if s.lacks = m.lacks(k.keys); m.mapped() {
		if err := m.mayHavePrompts(k.keys); err != nil && len(k.keys) > 0 {
			return nil, withFile(s.Name, err)
		}
	} else if len(k.keys) > 0 && !s.requests && !slices.Contains(k.keys, parentName) &&
		!slices.ContainsFunc(promptNames, func(p string) bool { return slices.Contains(k.keys, p) }) {
		err := noPrompts("no prompt key: its rows need", "have", k.keys)
		if s.header != nil {
			err = noPrompts("no prompt column: it needs", "has", k.keys)
		}
		return nil, withFile(s.Name, err)
	}
	has := func(key string) bool { return slices.Contains(k.keys, key) }
	for _, key := range k.keys {
		c := knownNode(key)
		switch {
		case m.mapped() && key == m.PromptColumn, s.isPartition(key):
			c = jsonText.node(key)
		case c == nil, m.columnOf(key) != key,
			k.types[key] > jsonMessages && isResult(key, has):
			c = k.types[key].node(key)
		}
		c.name, _ = m.renamed(key)
		columns = append(columns, c)
	}
	if m.Template != nil {
		columns = append(columns, jsonText.node(madeColumn))
	}
	columns = s.requestColumns(columns)
	number(groupNode("row", required, columns...))
	return columns, nil
}
