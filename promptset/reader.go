package promptset

import (
	"context"
	"iter"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset/input"
	"github.com/quire/quire/promptset/schema"
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

// NumRows returns the number of rows of all files, bad ones included.
func (r *Reader) NumRows() int64 { return r.rows }

// Sources returns the files in the order in which they are read.
func (r *Reader) Sources() []Source { return slices.Clone(r.sources) }

// Call has rows name their files as names do, in the order of the files, wherever they were opened: errors of rows are
// part of an output, and those of a job name its files as they were when it began.
func (r *Reader) Call(names []string) {
	for i := range min(len(names), len(r.sources)) {
		s := &r.sources[i]
		if s.Called == names[i] { // others may read rows meanwhile
			continue
		}
		if s.Called = names[i]; s.Requests != nil {
			s.Requests.Called = names[i]
		}
	}
}

// Schema returns the columns of all files together, which [WriterOptions] takes.
func (r *Reader) Schema() *Schema { return r.schema }

// Rows gives every row once, in order, with Index 0 to NumRows-1; see [Reader.Range].
func (r *Reader) Rows(ctx context.Context) iter.Seq[*Row] { return r.Range(ctx, 0, r.rows) }

// Range gives the rows with Index from to to-1, in order. Row groups before them are not read, nor more than markEvery
// rows of a JSONL or CSV file that is not compressed. It stops early when ctx is done, when a file cannot be read,
// and when one is not what it was in Open; [Reader.Err] then says so. What is wrong with what a file holds is the error
// of the rows it concerns, and reading goes on.
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

// file gives rows of a file, numbered there, to yield. It returns false when yield did.
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

// HasParents says whether the inputs have a column that names parents.
func (r *Reader) HasParents() bool {
	c := r.schema.Root.Field(schema.ParentName)
	return c != nil && !c.IsNull()
}

// Beside returns a reader of the same files, for an iteration beside others.
func (r *Reader) Beside() *Reader {
	other := *r
	other.err = nil
	return &other
}

// HasRequests says whether an input is a batch file of OpenAI.
func (r *Reader) HasRequests() bool {
	return slices.ContainsFunc(r.sources, func(s Source) bool { return s.Requests != nil })
}

// NoRequests names the first file that has rows and is no batch file of OpenAI, "" where there is none.
func (r *Reader) NoRequests() string {
	for _, s := range r.sources {
		if s.Requests == nil && s.Rows > 0 {
			return s.Name
		}
	}
	return ""
}

// Partitions are the columns that folders named key=value give.
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
