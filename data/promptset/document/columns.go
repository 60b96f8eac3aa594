package document

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
)

// column is a member of a document whose value is a list.
type column struct {
	name  string
	marks []int64 // the start of every lines.MarkEvery-th item, after the comma before it
	items int64
	first byte // start of the first item
}

// readColumns reads a document that is an object, to its end.
func readColumns(ctx context.Context, l *lines.Reader) (all []column, err error) {
	if _, err = expect(l, "{"); err != nil {
		return nil, err
	}
	if b, err := peek(l); err == nil && b == '}' {
		l.Skip(1)
		return nil, nil
	}
	for next := byte(','); next == ','; {
		c, err := readColumn(ctx, l)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(all, func(o column) bool { return o.name == c.name }) {
			return nil, fmt.Errorf("the column %q is there twice; keep one", c.name)
		}
		if all = append(all, c); len(all) > schema.MaxKeys {
			return nil, fmt.Errorf("more than %d columns", schema.MaxKeys)
		}
		if next, err = expect(l, ",}"); err != nil {
			return nil, err
		}
	}
	if _, err := peek(l); err == nil {
		return nil, fmt.Errorf("there is more after the end of the object, at byte %d", l.Offset)
	} else if err != io.EOF {
		return nil, err
	}
	return all, nil
}

func readColumn(ctx context.Context, l *lines.Reader) (c column, err error) {
	if err := value(l); err != nil {
		return c, err
	}
	if json.Unmarshal(l.Line, &c.name) != nil || l.Line[0] != '"' {
		return c, fmt.Errorf("there is no name of a column before byte %d", l.Offset)
	}
	if _, err := expect(l, ":"); err != nil {
		return c, err
	}
	if b, err := peek(l); err != nil || b != '[' {
		if err = value(l); err == nil {
			err = fmt.Errorf("its member %q is %s: write an array of rows, or an object whose members are lists",
				c.name, jsonvalue.Describe(l.Line))
		}
		return c, err
	}
	l.Skip(1)
	for l.Number = 0; ; c.items++ {
		if c.items%lines.MarkEvery == 0 {
			if c.marks = append(c.marks, l.Offset); ctx.Err() != nil {
				return c, ctx.Err()
			}
		}
		switch err := item(l); {
		case err == io.EOF:
			return c, nil
		case err != nil && !errors.Is(err, lines.ErrTooLong):
			return c, fmt.Errorf("column %q, item %d: %w", c.name, c.items, err)
		case c.items == 0 && err == nil:
			c.first = l.Line[0]
		}
	}
}

// isRow reports whether an object of lists is the only row of a file of lines.
func isRow(all []column) bool {
	return slices.ContainsFunc(all, func(c column) bool {
		return c.name == "messages" && c.first == '{' || c.name == "prompt_token_ids" && c.first != 0 && c.first != '['
	})
}

// lookAtColumns reads a document that is an object: once to find its columns, and once for its rows.
func lookAtColumns(ctx context.Context, s *input.Source, f input.File, l *lines.Reader) (*input.Contents, error) {
	all, err := readColumns(ctx, l)
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, s.Error("not a JSON object of columns", err)
	}
	for _, c := range all {
		if c.items != all[0].items {
			return nil, s.Error("not a JSON object of columns",
				fmt.Errorf("column %q has %d items and column %q has %d",
					all[0].name, all[0].items, c.name, c.items))
		}
	}
	found := columns(all)
	reader, err := found.open(f, 0)
	if err != nil {
		return nil, err
	}
	contents, err := lines.Look(ctx, s, f, func(*lines.Reader) (lines.Rows, error) { return reader, nil })
	if contents != nil {
		contents.Reader = found
	}
	return contents, err
}

// columns are the columns of a document, all with the same number of items.
type columns []column

// cursor reads the columns of a document in parallel.
type cursor struct {
	object
	columns columns
	readers []*lines.Reader
	left    int64
	text    []byte
}

// bufferBytes is the total size of the buffers of all columns' readers.
const bufferBytes = 4 << 20

// open reads the columns of a file from the mark before a row.
func (c columns) open(f input.File, row int64) (*cursor, error) {
	r := &cursor{columns: c}
	if len(c) == 0 {
		return r, nil
	}
	mark := row / lines.MarkEvery
	r.left = c[0].items - mark*lines.MarkEvery
	for _, one := range c {
		text := io.NewSectionReader(f, one.marks[mark], f.Size()-one.marks[mark])
		r.readers = append(r.readers, lines.At(text, mark*lines.MarkEvery, max(4<<10, min(64<<10, bufferBytes/len(c)))))
	}
	for range row % lines.MarkEvery {
		if _, err := r.Next(nil); err != nil && err != lines.ErrTooLong {
			return nil, err
		}
	}
	return r, nil
}

// Start does nothing, because the readers are at the first row.
func (r *cursor) Start(*lines.Reader) error { return nil }

// Next returns the next row as an object.
func (r *cursor) Next(*lines.Reader) ([]byte, error) {
	if r.left == 0 {
		return nil, io.EOF
	}
	r.left--
	r.text = append(r.text[:0], '{')
	tooLong := false
	for i, l := range r.readers {
		switch err := item(l); {
		case err == lines.ErrTooLong:
			tooLong = true
		case err == io.EOF:
			return nil, errCutOff
		case err != nil:
			return nil, fmt.Errorf("column %q: %w", r.columns[i].name, err)
		}
		if tooLong = tooLong || len(r.text)+len(l.Line) > lines.MaxLine; !tooLong {
			r.text = append(jsonvalue.AppendKey(r.text, r.columns[i].name), l.Line...)
		}
	}
	if tooLong {
		return nil, lines.ErrTooLong
	}
	r.text = append(r.text, '}')
	return r.text, nil
}

// Range yields rows of a file, numbered within the file. It returns false if yield did.
func (c columns) Range(ctx context.Context, in *input.Opened, from, to int64, yield func(*record.Row) bool) (bool,
	error) {
	reader, err := c.open(in.File, from)
	if err != nil {
		return false, in.Changed("%v", err)
	}
	for row := from; row < to; row++ {
		text, err := reader.Next(nil)
		if err != nil && err != lines.ErrTooLong {
			return false, in.Changed("row %d: %v", row, err)
		}
		r, err := lines.RowOf(in.Source, reader, row, lines.Text{Bytes: text, Err: err})
		if err != nil {
			return false, err
		}
		if ctx.Err() != nil || !yield(r) {
			return false, nil
		}
	}
	return true, nil
}
