package promptset

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset/lines"
	"github.com/quire/quire/data/promptset/schema"
)

// Before returns the reader of a job that had fewer inputs: the first files, and only the first bytes of the last one.
// These bytes must end with a complete row. The error is a [*FileError], or an error of reading.
func (r *Reader) Before(ctx context.Context, files int, bytes int64) (*Reader, error) {
	old := &Reader{files: r.files, mapping: r.mapping, schema: schema.New()}
	for i := range files {
		s := r.sources[i]
		if i == files-1 && s.Bytes != bytes {
			old.files = firstBytes{r.files, s.Name, bytes}
			var err error
			if s, err = old.cut(ctx, s); err != nil {
				return nil, err
			}
		}
		if err := old.add(s); err != nil {
			return nil, err
		}
	}
	return old, r.endsAs(ctx, old)
}

// cut looks into the first bytes of a file.
func (r *Reader) cut(ctx context.Context, whole Source) (s Source, err error) {
	if !whole.Format.Appends {
		return s, whole.Error(fmt.Sprintf("it is %s, in which old rows cannot be told from new ones: put new rows "+
			"into a file of their own, and give both", whole.Format.Any()), nil)
	}
	f, err := r.files.Open(ctx, whole.Name)
	if err != nil {
		return s, err
	}
	defer f.Close()
	s = whole
	s.Bytes, s.Version, s.Called = f.Size(), f.Version(), ""
	found, err := s.Format.Look(ctx, &s, f)
	switch {
	case err == nil:
		s.Contents = *found
	case ctx.Err() == nil && lines.IsCompressed(s.Name):
		return s, recompressed(s.Name)
	}
	return s, err
}

// recompressed returns the error for a compressed file whose first bytes do not end where rows were added.
func recompressed(name string) error {
	return &FileError{File: name, What: fmt.Sprintf("it was compressed again, and old rows cannot be told from new "+
		"ones: append new rows compressed by themselves (%s), or put them into a file of their own, and give both",
		Append(name))}
}

// Append returns the command that appends rows to a compressed file; "" for a file that is not compressed.
func Append(name string) string {
	switch {
	case !lines.IsCompressed(name):
		return ""
	case strings.HasSuffix(strings.ToLower(name), ".zst"):
		return "zstd -c MORE >> " + name
	}
	return "gzip -c MORE >> " + name
}

// endsAs checks that the last row of old is the same row in r, and that the last file of old starts in the same way.
func (r *Reader) endsAs(ctx context.Context, old *Reader) error {
	last := len(old.sources) - 1
	if last < 0 {
		return nil
	}
	s := &old.sources[last]
	if !slices.Equal(s.Header, r.sources[last].Header) {
		return &FileError{File: s.Name, What: "its header is not what it was"}
	}
	if s.Rows == 0 || s.Bytes == r.sources[last].Bytes {
		return nil
	}
	var rows [2]*Row
	for i, reader := range []*Reader{old, r.Beside()} {
		for row := range reader.Range(ctx, old.rows-1, old.rows) {
			rows[i] = row
		}
		if err := reader.Err(); err != nil {
			return err
		}
	}
	a, b := rows[0], rows[1]
	if a == nil || b == nil || a.Line != b.Line || (a.Err == nil) != (b.Err == nil) ||
		!reflect.DeepEqual(a.Source, b.Source) {
		return &FileError{File: s.Name,
			What: fmt.Sprintf("what was added continues row %d: start a new line", s.Rows-1)}
	}
	return nil
}

// firstBytes are files of which the last one has only its first bytes.
type firstBytes struct {
	Files
	name string
	size int64
}

// firstOf is a file restricted to its first bytes.
type firstOf struct {
	File
	size int64
}

func (f firstOf) Size() int64 { return f.size }

func (f firstBytes) Open(ctx context.Context, name string) (File, error) {
	file, err := f.Files.Open(ctx, name)
	if err != nil || name != f.name {
		return file, err
	}
	if file.Size() < f.size {
		file.Close()
		return nil, &FileError{File: name, What: fmt.Sprintf("it has %d bytes, and had %d", file.Size(), f.size)}
	}
	return firstOf{file, f.size}, nil
}
