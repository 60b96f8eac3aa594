// Package input defines what a format of input files provides: a look into a file, and a reader of its rows.
package input

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/internal/plural"
)

// File is an input file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // in bytes
	// Version changes when the file is written again: it is an object's ETag, or the modification time of a local
	// file.
	Version() string
}

// Format is a format of input files.
type Format struct {
	Name       string   // for people: Parquet
	Article    string   // indefinite article for the name
	Extensions []string // extensions of its files
	Magics     []string // a file whose name does not identify a format starts with one of these
	// Begins reports whether a file whose name does not identify a format starts like the format's files; nil means
	// never. text is its start without white space.
	Begins func(text []byte, f File) bool
	// ByContent reports whether files of other formats, and files without rows, have the extensions, too: the content
	// decides, and a folder does not stand for such files.
	ByContent bool
	// Appends reports whether rows are added at the end without changing earlier bytes.
	Appends bool
	// Look reads what must be known of a file before its rows.
	Look func(ctx context.Context, s *Source, f File) (*Contents, error)
}

// Any describes a file of the format, for people: "an Arrow file".
func (f *Format) Any() string { return f.Article + " " + f.Name + " file" }

// Contents is the result of a look into a file.
type Contents struct {
	Rows int64
	// Digest identifies the content: the SHA-256 in hex of a Parquet file's footer, which has every column chunk's
	// place, sizes and bounds, and of the whole of other files.
	Digest   string
	Columns  []*schema.Node
	Header   []string       // the names of columns that the file starts with, as in CSV
	Texts    []Span         // ranges of rows that include all rows whose prompt is text or messages
	Lacks    []string       // columns that the template needs
	Requests *requests.File // for a batch file of OpenAI, else nil
	Reader   RowReader
}

// Span is the range [From, To) of a file's rows.
type Span struct{ From, To int64 }

// RowReader reads the rows of a file after a look.
type RowReader interface {
	// Range yields the rows from to to-1 of the file, numbered within it. It returns false if yield did. in is the file
	// to read, which may be opened again for each call.
	Range(ctx context.Context, in *Opened, from, to int64, yield func(*record.Row) bool) (more bool, err error)
}

// Source is one input file.
type Source struct {
	Name  string
	Bytes int64
	Contents

	Format     *Format
	Mapping    *record.Mapping
	Partitions []Partition
	Version    string // version of the file
	Base       int64  // Index of its first row
	Called     string // name of the file in rows; empty is Name
}

// rowsName returns the name of the file in rows.
func (s *Source) rowsName() string { return cmp.Or(s.Called, s.Name) }

// Error returns an error about the whole file.
func (s *Source) Error(what string, err error) error {
	return &record.FileError{File: s.Name, What: what, Err: err}
}

// Changed returns the error for a file that has changed since the job started.
func (s *Source) Changed(format string, args ...any) error {
	return &record.FileError{File: s.Name, What: fmt.Sprintf(format, args...) + "; do not change inputs during a job",
		Changed: true}
}

// ChangedRows is Changed for a file that has a different number of rows now.
func (s *Source) ChangedRows(now int64) error {
	return s.Changed("it had %s when the job started and has %d now", plural.Count(s.Rows, "row"), now)
}

// Row starts the row with this number in the file.
func (s *Source) Row(fileRow int64) *record.Builder {
	return &record.Builder{Row: &record.Row{Index: s.Base + fileRow, File: s.rowsName(), FileRow: fileRow}}
}

// Opened is a file whose rows are being read.
type Opened struct {
	*Source
	File   *Watched
	Schema *schema.Schema // schema of the job
}

// Watched is a file that remembers whether a read failed, as opposed to the content being wrong.
type Watched struct {
	File
	Err error
}

func (w *Watched) ReadAt(b []byte, offset int64) (int, error) {
	n, err := w.File.ReadAt(b, offset)
	switch {
	case err == nil || err == io.EOF && offset+int64(n) >= w.Size():
	case err == io.EOF:
		w.Err = fmt.Errorf("it was %d bytes long and ends at %d now; do not change inputs during a job", w.Size(),
			offset+int64(n))
	default:
		w.Err = err
	}
	return n, err
}
