// Package input says what a format of input files is: a look into a file, and a reader of its rows.
package input

import (
	"cmp"
	"context"
	"fmt"
	"io"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset/record"
	"github.com/quire/quire/promptset/requests"
	"github.com/quire/quire/promptset/schema"
)

// File is an input file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version is another one when the file was written again: an object's ETag, or the time at which a local file was
	// last written.
	Version() string
}

// Format is a format of input files.
type Format struct {
	Name       string   // for people: Parquet
	Article    string   // of the name
	Extensions []string // of its files
	Magics     []string // with one of which a file begins whose name says nothing
	// Begins says whether a file whose name says nothing begins as those of the format do; nil is never. text is its
	// start without white space.
	Begins func(text []byte, f File) bool
	// ByContent says that files of other formats, and such as have no rows, have the extensions, too: the content
	// tells, and a folder does not stand for these files.
	ByContent bool
	// Appends says that rows are added at the end, and those before stay bytes as they are.
	Appends bool
	// Look reads what has to be known of a file before its rows.
	Look func(ctx context.Context, s *Source, f File) (*Contents, error)
}

// Any is a file of the format, for people: "an Arrow file".
func (f *Format) Any() string { return f.Article + " " + f.Name + " file" }

// Contents is what a look into a file found.
type Contents struct {
	Rows int64
	// Digest tells the content from another: the SHA-256 in hex of the footer of a Parquet file, which names every
	// column chunk's place, sizes and bounds, and of the whole of other files.
	Digest   string
	Columns  []*schema.Node
	Header   []string       // the names of columns that the file begins with, as CSV does
	Texts    []Span         // rows among which all are whose prompt is text or messages
	Lacks    []string       // columns that the template wants
	Requests *requests.File // of a batch file of OpenAI, else nil
	Reader   RowReader
}

// Span is a range of a file's rows.
type Span struct{ From, To int64 }

// RowReader reads the rows of a file as a look found it.
type RowReader interface {
	// Range gives the rows from to to-1 of the file, numbered there, to yield. It returns false when yield did. in is
	// the file that is read, which may be opened anew each time.
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
	Version    string // the file's
	Base       int64  // index of its first row
	Called     string // what its rows call it; empty is Name
}

// rowsName is what rows call the file.
func (s *Source) rowsName() string { return cmp.Or(s.Called, s.Name) }

// Error is an error about the whole file.
func (s *Source) Error(what string, err error) error {
	return &record.FileError{File: s.Name, What: what, Err: err}
}

// Changed is the error for a file that is not what it was when the job started.
func (s *Source) Changed(format string, args ...any) error {
	return &record.FileError{File: s.Name, What: fmt.Sprintf(format, args...) + "; do not change inputs during a job"}
}

// ChangedRows is Changed for a file that has another number of rows now.
func (s *Source) ChangedRows(now int64) error {
	return s.Changed("it had %s when the job started and has %d now", plural.Count(s.Rows, "row"), now)
}

// Row starts the row at a place in the file.
func (s *Source) Row(at int64) *record.Builder {
	return &record.Builder{Row: &record.Row{Index: s.Base + at, File: s.rowsName(), FileRow: at}}
}

// Opened is a file whose rows are read.
type Opened struct {
	*Source
	File   *Watched
	Schema *schema.Schema // of the job
}

// Watched is a file that remembers that reading it failed, as opposed to what was read being wrong.
type Watched struct {
	File
	Err error
}

func (w *Watched) ReadAt(b []byte, at int64) (int, error) {
	n, err := w.File.ReadAt(b, at)
	switch {
	case err == nil || err == io.EOF && at+int64(n) >= w.Size():
	case err == io.EOF:
		w.Err = fmt.Errorf("it was %d bytes long and ends at %d now; do not change inputs during a job", w.Size(),
			at+int64(n))
	default:
		w.Err = err
	}
	return n, err
}
