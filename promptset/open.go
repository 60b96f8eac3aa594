package promptset

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"

	"github.com/quire/quire/internal/plural"
)

// Source is one input file, as [Open] found it.
type Source struct {
	Name  string
	Bytes int64
	Rows  int64
	// Digest tells the content from another: the SHA-256 in hex of a JSONL file, or of the footer of a Parquet file,
	// which names every column chunk's place, sizes and bounds.
	Digest string

	parquet bool
	version string // the file's
	base    int64  // index of its first row
	marks   []mark // of an uncompressed JSONL file: where every markEvery-th row begins
	texts   []span // rows among which all are whose prompt is text or messages

	requests bool               // it is a batch file of OpenAI
	customID []customID         // of its lines, until repeated is known
	repeated map[int64]customID // by row: the line before it that has its custom_id
	bodies   []string           // the parameters that its lines have, in order of first appearance
}

// mark is a place in a JSONL file where a row begins.
type mark struct {
	offset int64
	line   int64 // lines before it
}

// markEvery is how many rows are passed over, at most, to get to one in the middle of a JSONL file.
const markEvery = 4096

// Reader streams the rows of a job's input files.
type Reader struct {
	files   Files
	sources []Source
	schema  *Schema
	rows    int64
	err     error
}

// Open finds the local files that paths name; see [OpenFrom].
func Open(ctx context.Context, paths []string) (*Reader, error) {
	return OpenFrom(ctx, LocalFiles, paths)
}

// OpenFrom finds the files that paths name and looks into each of them: the footer of a Parquet file, the whole of a
// JSONL file (for its rows and the types of its keys). A file that is named twice is read once.
//
// Errors are of type [*FileError], or those of files, or ctx's.
func OpenFrom(ctx context.Context, files Files, paths []string) (*Reader, error) {
	if len(paths) == 0 {
		return nil, errors.New("no input files; name at least one file, glob or folder")
	}
	r := &Reader{files: files, schema: newSchema()}
	seen := map[string]bool{}
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		names, err := files.Expand(ctx, path)
		if err != nil {
			return nil, err
		}
		for _, name := range names {
			if seen[name] {
				continue
			}
			seen[name] = true
			if err := r.look(ctx, name); err != nil {
				return nil, err
			}
		}
	}
	r.findRepeated()
	return r, nil
}

// look adds a file.
func (r *Reader) look(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	f, err := r.files.Open(ctx, name)
	if err != nil {
		return err
	}
	defer f.Close()
	s := Source{Name: name, Bytes: f.Size(), version: f.Version(), base: r.rows}
	if s.parquet, err = isParquet(name, f); err != nil {
		return err
	}
	var columns []*node
	if s.parquet {
		pf, err := parseParquet(name, f, f.Size())
		if err != nil {
			return err
		}
		s.Rows, columns, s.texts = pf.file.NumRows(), pf.root.fields, pf.texts()
		s.Digest, err = footerDigest(f)
		if err != nil {
			return &FileError{File: name, What: "cannot read it", Err: err}
		}
	} else if columns, err = scanJSONL(ctx, &s, f); err != nil {
		return err
	}
	if err := r.schema.add(name, columns); err != nil {
		return err
	}
	r.schema.bodies = append(r.schema.bodies, s.bodies...)
	r.sources = append(r.sources, s)
	r.rows += s.Rows
	return nil
}

// NumRows returns the number of rows of all files, bad ones included.
func (r *Reader) NumRows() int64 { return r.rows }

// Sources returns the files in the order in which they are read.
func (r *Reader) Sources() []Source { return slices.Clone(r.sources) }

// Schema returns the columns of all files together, which [WriterOptions] takes.
func (r *Reader) Schema() *Schema { return r.schema }

// Rows gives every row once, in order, with Index 0 to NumRows-1; see [Reader.Range].
func (r *Reader) Rows(ctx context.Context) iter.Seq[*Row] { return r.Range(ctx, 0, r.rows) }

// Range gives the rows with Index from to to-1, in order. Row groups before them are not read, nor more than markEvery
// lines of a JSONL file that is not compressed. It stops early when ctx is done, when a file cannot be read, and when
// one is not what it was in Open; [Reader.Err] then says so. What is wrong with what a file holds is the error of the
// rows it concerns, and reading goes on.
func (r *Reader) Range(ctx context.Context, from, to int64) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		r.err = nil
		for i := range r.sources {
			s := &r.sources[i]
			first, last := max(from-s.base, 0), min(to-s.base, s.Rows)
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
	f := &watched{File: file}
	defer f.Close()
	changed := func(format string, args ...any) error {
		return &FileError{File: s.Name, What: fmt.Sprintf(format, args...) + "; do not change inputs during a job"}
	}
	if f.Size() != s.Bytes {
		return false, changed("it had %s when the job started and has %d now", plural.Count(s.Bytes, "byte"), f.Size())
	}
	if f.Version() != s.version {
		return false, changed("it was written again since the job started")
	}
	if !s.parquet {
		more, err = readJSONL(ctx, s, f, from, to, yield)
	} else {
		var pf *parquetFile
		if pf, err = parseParquet(s.Name, f, f.Size()); err == nil && pf.file.NumRows() != s.Rows {
			return false, changed("it had %s when the job started and has %d now", plural.Count(s.Rows, "row"),
				pf.file.NumRows())
		} else if err == nil {
			var l *layout
			if l, err = r.schema.place(pf.root); err != nil {
				return false, changed("%v", err)
			}
			more, err = pf.rows(ctx, s.base, from, to, l, yield)
		}
	}
	if f.err != nil {
		err = &FileError{File: s.Name, What: "cannot read it", Err: f.err}
	}
	return more, err
}

// isParquet tells the two formats apart by name, or by the first bytes of a file with another name.
func isParquet(name string, f File) (bool, error) {
	if hasExtension(name) {
		return strings.HasSuffix(name, ".parquet"), nil
	}
	var magic [4]byte
	if n, _ := f.ReadAt(magic[:], 0); n == len(magic) && string(magic[:]) == "PAR1" {
		return true, nil
	}
	return false, &FileError{File: name, What: "neither a Parquet file nor named " + strings.Join(extensions[1:], ", ")}
}

// footerDigest is the digest of a Parquet file.
func footerDigest(f File) (string, error) {
	var tail [8]byte
	if n, err := f.ReadAt(tail[:], f.Size()-8); n < len(tail) {
		return "", err
	}
	size := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24
	h := sha256.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, f.Size()-8-size, size+8)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
