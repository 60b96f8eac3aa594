package promptset

import (
	"context"
	"iter"
	"slices"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/internal/plural"
)

// Reader streams the rows of a job's input files.
type Reader struct {
	files   Files
	mapping *Mapping
	sources []Source
	schema  *Schema
	rows    int64
	err     error
}

// NumRows returns the number of rows of all files, including bad ones.
func (r *Reader) NumRows() int64 { return r.rows }

// Sources returns the files in the order in which they are read.
func (r *Reader) Sources() []Source { return slices.Clone(r.sources) }

// Call sets the names that rows use for their files, in the order of the files, regardless of where they were opened.
// Errors of rows are part of an output, and must name a job's files as they were named when it started.
func (r *Reader) Call(names []string) {
	for i := range min(len(names), len(r.sources)) {
		s := &r.sources[i]
		if s.Called == names[i] { // do not write needlessly, because others may read rows meanwhile
			continue
		}
		if s.Called = names[i]; s.Requests != nil {
			s.Requests.Called = names[i]
		}
	}
}

// Schema returns the union of the columns of all files, for [WriterOptions].
func (r *Reader) Schema() *Schema { return r.schema }

// Rows yields every row once, in order, with Index 0 to NumRows-1; see [Reader.Range].
func (r *Reader) Rows(ctx context.Context) iter.Seq[*Row] { return r.Range(ctx, 0, r.rows) }

// Range yields the rows with Index from to to-1, in order. It does not read earlier row groups, nor more than
// markEvery rows before from in an uncompressed JSONL or CSV file. It stops early when ctx is done, when a file
// cannot be read, and when one has changed since Open; [Reader.Err] then returns the reason. A fault in the content
// of a file is an error of the rows that it concerns, and reading continues.
func (r *Reader) Range(ctx context.Context, from, to int64) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		r.err = nil
		for i := range r.sources {
			s := &r.sources[i]
			first, last := max(from-s.Base, 0), min(to-s.Base, s.Rows)
			if first >= last {
				continue
			}
			if more, err := r.file(ctx, s, first, last, yield); err != nil || !more {
				if r.err = err; ctx.Err() != nil {
					r.err = ctx.Err()
				}
				return
			}
		}
		r.err = ctx.Err()
	}
}

// Err returns why the last iteration stopped before the last row: ctx's error or a [*FileError], or nil.
func (r *Reader) Err() error { return r.err }

// file yields rows of a file, numbered within the file. It returns false if yield did.
func (r *Reader) file(ctx context.Context, s *Source, from, to int64, yield func(*Row) bool) (more bool, err error) {
	file, err := r.files.Open(ctx, s.Name)
	if err != nil {
		return false, err
	}
	f := &input.Watched{File: file}
	defer f.Close()
	if f.Size() != s.Bytes {
		return false, s.Changed("it had %s when the job started and has %d now", plural.Count(s.Bytes, "byte"),
			f.Size())
	}
	if f.Version() != s.Version {
		return false, s.Changed("it was written again since the job started")
	}
	more, err = s.Reader.Range(ctx, &input.Opened{Source: s, File: f, Schema: r.schema}, from, to, yield)
	if f.Err != nil {
		err = s.Error("cannot read it", f.Err)
	}
	return more, err
}

// HasParents reports whether the inputs have a column of parents.
func (r *Reader) HasParents() bool {
	c := r.schema.Root.Field(r.mapping.ColumnOf(schema.ParentName))
	return c != nil && !c.IsNull()
}

// Beside returns a reader of the same files, for a concurrent iteration.
func (r *Reader) Beside() *Reader {
	other := *r
	other.err = nil
	return &other
}

// HasRequests reports whether an input is a batch file of OpenAI.
func (r *Reader) HasRequests() bool {
	return slices.ContainsFunc(r.sources, func(s Source) bool { return s.Requests != nil })
}

// NoRequests returns the name of the first file that has rows and is not a batch file of OpenAI, "" if there is none.
func (r *Reader) NoRequests() string {
	for _, s := range r.sources {
		if s.Requests == nil && s.Rows > 0 {
			return s.Name
		}
	}
	return ""
}

// Partitions returns the columns that folders named key=value define.
func (r *Reader) Partitions() (names []string) {
	for _, s := range r.sources {
		for _, p := range s.Partitions {
			if !slices.Contains(names, p.Name) {
				names = append(names, p.Name)
			}
		}
	}
	slices.Sort(names)
	return names
}
