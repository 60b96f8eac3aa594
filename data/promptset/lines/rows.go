package lines

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/promptset/schema"
)

// Text is the text of a row.
type Text struct {
	Bytes []byte // valid until the next one
	Line  int64  // line of the file at which it starts, from 1; 0 in a file without lines
	Last  int64  // line at which it ends
	Err   error  // why it could not be read, such as [ErrTooLong]
}

// Rows defines how to find the rows of a text file, and their content. All files of a format may share one, or each may
// have its own.
type Rows interface {
	// Start skips what is before the first row.
	Start(l *Reader) error
	// Next returns the text of the next row, valid until the next call; io.EOF is the end, and after [ErrTooLong] the
	// reader is after the row.
	Next(l *Reader) ([]byte, error)
	// Members splits the text of a row into keys and values. The error states what is wrong with it and what to do.
	Members(t Text) ([]jsonvalue.Member, error)
	// IDIn returns the id that a damaged row has under a key; it is empty if it cannot be read.
	IDIn(t Text, key string) string
}

// namedRows are rows whose file names their columns before the first row, with the types of columns that are all
// null.
type namedRows interface {
	Rows
	Header() []string
	Type(column string) schema.JSONType
}

// nextText returns the next row.
func nextText(rows Rows, l *Reader) Text {
	text, err := rows.Next(l)
	return Text{text, l.First, l.Number, err}
}

// file has the rows of a file, as a look found them.
type file struct {
	rows  Rows
	marks []mark // for a file that is not compressed: the start of every MarkEvery-th row
}

// mark is the start of a row in a file.
type mark struct {
	offset int64
	line   int64 // number of lines before it
}

// MarkEvery is how many rows are skipped, at most, to reach one in the middle of a file.
const MarkEvery = 4096

// open reads the rows from the start, or from the last mark before the row from. It returns the row at which the
// reader is.
func (o *file) open(in *input.Opened, from int64) (*Reader, int64, error) {
	if m := from / MarkEvery; m > 0 && m < int64(len(o.marks)) {
		start := o.marks[m]
		text := io.NewSectionReader(in.File, start.offset, in.Bytes-start.offset)
		return At(text, start.line, 64<<10), m * MarkEvery, nil
	}
	l, err := Open(in.Name, io.NewSectionReader(in.File, 0, in.Bytes))
	if err != nil {
		return nil, 0, err
	}
	if err := o.rows.Start(l); err != nil {
		l.Close()
		return nil, 0, err
	}
	return l, 0, nil
}

// Range yields rows of a file, numbered within the file. It returns false if yield did.
func (o *file) Range(ctx context.Context, in *input.Opened, from, to int64, yield func(*record.Row) bool) (more bool,
	err error) {
	l, index, err := o.open(in, from)
	if err != nil {
		return false, err
	}
	defer l.Close()
	for ; index < to; index++ {
		text := nextText(o.rows, l)
		if text.Err != nil && text.Err != ErrTooLong {
			if text.Err == io.EOF {
				return false, in.ChangedRows(index)
			}
			return false, in.Error(l.lost(index),
				fmt.Errorf("%w; do not change inputs during a job", text.Err))
		}
		if index < from {
			continue
		}
		row, err := RowOf(in.Source, o.rows, index, text)
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil || !yield(row) {
			return false, nil
		}
	}
	return true, nil
}

// RowOf returns the row with this text.
func RowOf(s *input.Source, rows Rows, index int64, text Text) (*record.Row, error) {
	row := s.Row(index)
	row.Line = text.Line
	var given []string
	var object []jsonvalue.Member
	err := text.Err
	if err == nil {
		object, err = rows.Members(text)
	}
	if err == nil {
		if object, err = s.AddPartitions(object); err != nil {
			return nil, err
		}
	}
	switch {
	case err != nil:
		row.Blame("", openai.CodeInvalidLine, func() { row.Fail("%v", err) })
		row.LostID = true
		if row.ID = rows.IDIn(text, idKey(s)); s.Requests != nil {
			s.Requests.ReadDamaged(row)
		}
	case s.Requests != nil:
		given = s.Requests.Read(row, object, s.Mapping)
	default:
		given = row.DecodeJSON(object, s.Mapping)
		row.Source = record.Object(s.Mapping.Passed(row, object))
	}
	row.Finish(given, s.Mapping)
	return row.Row, nil
}

// idKey returns the key of a row's id.
func idKey(s *input.Source) string {
	if s.Requests != nil {
		return openai.Keys[0]
	}
	return s.Mapping.ColumnOf(schema.IDName)
}

// Look reads a file once, for its digest, its rows and their positions, and its columns. begin reads what is before
// the rows.
func Look(ctx context.Context, s *input.Source, f input.File, begin func(*Reader) (Rows, error)) (*input.Contents,
	error) {
	digest := sha256.New()
	raw := io.TeeReader(io.NewSectionReader(f, 0, f.Size()), digest)
	l, err := Open(s.Name, raw)
	if err != nil {
		return nil, err
	}
	defer l.Close()
	rows, err := begin(l)
	if err != nil {
		return nil, err
	}
	o, c, types := &file{rows: rows}, &input.Contents{}, &keyTypes{types: map[string]schema.JSONType{}}
	c.Reader = o
	requests := &requests.File{Name: s.Name}
	named, isNamed := rows.(namedRows)
	if isNamed {
		c.Header = named.Header()
		for _, name := range c.Header {
			types.keys, types.types[name] = append(types.keys, name), named.Type(name)
		}
	}
	for ; ; c.Rows++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if c.Rows%MarkEvery == 0 && !IsCompressed(s.Name) {
			o.marks = append(o.marks, mark{l.Offset, l.Number})
		}
		text := nextText(rows, l)
		if text.Err == ErrTooLong {
			continue
		}
		if text.Err != nil {
			if text.Err == io.EOF {
				break
			}
			return nil, s.Error(l.lost(c.Rows), text.Err)
		}
		object, err := rows.Members(text)
		if err != nil {
			continue // reported as the row's error when it is read
		}
		if object, err = s.AddPartitions(object); err != nil {
			return nil, err
		}
		if c.Texts == nil && hasText(s.Mapping, object) {
			c.Texts = []input.Span{{From: c.Rows, To: math.MaxInt64}}
		}
		if !isNamed && text.Line > 0 {
			requests.Note(object, c.Rows, l.Number)
		}
		if err := types.add(s.Name, object); err != nil {
			return nil, err
		}
	}
	if requests.Is {
		c.Requests, c.Texts = requests, []input.Span{{From: 0, To: math.MaxInt64}}
	}
	if err := types.columns(s, c); err != nil {
		return nil, err
	}
	// A decompressor may leave bytes after what it takes for the end.
	if _, err := io.Copy(io.Discard, raw); err != nil {
		return nil, s.Error("cannot read it", err)
	}
	c.Digest = hex.EncodeToString(digest.Sum(nil))
	return c, nil
}

// hasText reports whether a row has a key of text, which a model without a tokenizer cannot use.
func hasText(m *record.Mapping, object []jsonvalue.Member) bool {
	return m.Template != nil || slices.ContainsFunc(schema.TextNames, func(name string) bool {
		key := m.ColumnOf(name)
		return key != "" && !jsonvalue.IsNull(jsonvalue.Find(object, key))
	})
}
