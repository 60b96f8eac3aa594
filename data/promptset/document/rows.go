// Package document reads prompts from files that are one JSON document: an array of rows, or an object of columns. It
// streams them, with one row in memory.
package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
)

// Begins reports whether a file is a document, rather than lines of objects: it starts with a list, or is one object
// of columns.
func Begins(text []byte, f input.File) bool {
	if len(text) == 0 || text[0] != '{' {
		return len(text) > 0 && text[0] == '['
	}
	l, err := lines.Open("", io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return false
	}
	all, err := readColumns(context.Background(), l)
	return err == nil && len(all) > 0 && !isRow(all)
}

// Look reads a file once, for its rows, its columns and its digest.
func Look(ctx context.Context, s *input.Source, f input.File) (*input.Contents, error) {
	l, err := lines.Open("", io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return nil, err
	}
	if b, err := peek(l); err == nil && b == '{' {
		return lookAtColumns(ctx, s, f, l)
	}
	return lines.Look(ctx, s, f, func(l *lines.Reader) (lines.Rows, error) {
		if err := (array{}).Start(l); err != nil {
			return nil, s.Error("not a JSON array of rows", err)
		}
		return array{}, nil
	})
}

// array has the items of the document's list as rows.
type array struct{ object }

// Start skips the bracket.
func (array) Start(l *lines.Reader) error {
	_, err := expect(l, "[")
	return err
}

// Next returns the next item.
func (array) Next(l *lines.Reader) ([]byte, error) {
	err := item(l)
	if err == io.EOF {
		if _, after := peek(l); after == nil {
			return nil, fmt.Errorf("there is more after the end of the list, at byte %d", l.Offset)
		} else if after != io.EOF {
			return nil, after
		}
	}
	return l.Line, err
}

// object is a row whose text is a JSON object, which may span several lines.
type object struct{}

// Members splits the text into keys and values.
func (object) Members(t lines.Text) ([]jsonvalue.Member, error) {
	switch {
	case !utf8.Valid(t.Bytes):
		return nil, errors.New("the row is not valid UTF-8; re-encode it as UTF-8")
	case jsonvalue.HasLoneSurrogate(t.Bytes):
		return nil, errors.New(`the row has an unpaired \uD800-\uDFFF escape, which is not a character; remove it`)
	case !json.Valid(t.Bytes):
		var v any
		return nil, fmt.Errorf("JSON syntax error: %w; write the row as a JSON object", json.Unmarshal(t.Bytes, &v))
	case t.Bytes[0] != '{':
		return nil, fmt.Errorf(`the row is %s and not a JSON object; write {"prompt": ...}`,
			jsonvalue.Describe(t.Bytes))
	}
	return jsonvalue.Members(t.Bytes)
}

// IDIn returns the id if it precedes the damage.
func (object) IDIn(t lines.Text, key string) string { return jsonvalue.FindID(t.Bytes, key) }
