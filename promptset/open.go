package promptset

import (
	"context"
	"errors"
	"iter"
	"path/filepath"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset/input"
	"github.com/quire/quire/promptset/requests"
	"github.com/quire/quire/promptset/schema"
	"github.com/quire/quire/storage"
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

// Open finds the local files that paths name; see [OpenFrom].
func Open(ctx context.Context, paths []string) (*Reader, error) {
	return OpenFrom(ctx, LocalFiles, paths)
}

// OpenFrom finds the files that paths name and looks into each of them: the footer of a Parquet file, the whole of
// others (for their rows, and the types of keys). A file that is named twice is read once.
//
// Errors are of type [*FileError], or those of files, or ctx's.
func OpenFrom(ctx context.Context, files Files, paths []string) (*Reader, error) {
	return OpenMapped(ctx, files, paths, Mapping{})
}

// OpenMapped is [OpenFrom] for rows whose prompts are what m says.
func OpenMapped(ctx context.Context, files Files, paths []string, m Mapping) (*Reader, error) {
	if len(paths) == 0 {
		return nil, errors.New("no input files; name at least one file, glob or folder")
	}
	r := &Reader{files: files, mapping: &m, schema: schema.New()}
	seen := seenFiles{files: map[string]bool{}, folders: map[string]string{}}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names, err := files.Expand(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			place := seen.place(name)
			if seen.files[place] {
				continue
			}
			seen.files[place] = true
			if err := r.look(ctx, path, name); err != nil {
				return nil, err
			}
		}
	}
	var batches []*requests.File
	for i := range r.sources {
		if f := r.sources[i].Requests; f != nil {
			batches = append(batches, f)
		}
	}
	requests.FindRepeated(batches)
	if err := r.checkPartitions(); err != nil {
		return nil, err
	}
	return r, r.checkTemplate()
}

// seenFiles are the files that inputs stand for, so that no row is read twice.
type seenFiles struct {
	files   map[string]bool
	folders map[string]string // by name: without links
}

// place is the name of a file in the folder that it is in, whatever links lead there. A link to a file is a file.
func (s seenFiles) place(name string) string {
	if storage.IsRemote(name) {
		return name
	}
	dir, base := filepath.Split(name)
	real, known := s.folders[dir]
	if !known {
		var err error
		if real, err = filepath.EvalSymlinks(dir); err != nil { // of files that are elsewhere than on this machine
			real = dir
		}
		s.folders[dir] = real
	}
	return filepath.Join(real, base)
}

// look adds a file that an input stands for.
func (r *Reader) look(ctx context.Context, given, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := r.files.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := Source{Name: name, Bytes: f.Size(), Version: f.Version(), Base: r.rows, Mapping: r.mapping}
	if s.Format, err = formatOfInput(name, f); err != nil {
		return err
	}
	if s.Partitions, err = input.PartitionsOf(r.mapping, given, name); err != nil {
		return err
	}
	found, err := s.Format.Look(ctx, &s, f)
	if err != nil {
		return err
	}
	s.Contents = *found
	return r.add(s)
}

// add adds a file that was looked into.
func (r *Reader) add(s Source) error {
	columns := make([]*schema.Node, len(s.Columns))
	for i, c := range s.Columns {
		columns[i] = c.Clone()
	}
	if err := r.schema.Add(s.Name, columns); err != nil {
		return s.Error(err.Error(), nil)
	}
	if s.Requests != nil {
		r.schema.Bodies = append(r.schema.Bodies, s.Requests.Bodies...)
	}
	r.sources = append(r.sources, s)
	r.rows += s.Rows
	return nil
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
	more, err = s.Reader.Read(ctx, &input.Opened{Source: s, File: f, Schema: r.schema}, from, to, yield)
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
