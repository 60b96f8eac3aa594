package promptset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// source is one input file.
type source struct {
	name    string
	parquet bool
	base    int64 // index of its first row
	rows    int64
}

// Reader streams the rows of a job's input files.
type Reader struct {
	sources []source
	schema  *Schema
	rows    int64
	err     error
}

// Open finds the files that paths name and looks into each of them: the footer of a Parquet file, the whole of a JSONL file
// (for its rows and the types of its keys). A path is a file, a glob, or a folder, which stands for the .parquet, .jsonl,
// .jsonl.gz and .jsonl.zst files in it and the folders below, in order of name, without those whose name starts with a dot
// or an underscore. A file that is named twice is read once.
//
// Errors are of type [*FileError], or ctx's.
func Open(ctx context.Context, paths []string) (*Reader, error) {
	files, err := expand(paths)
	if err != nil {
		return nil, err
	}
	r := &Reader{schema: newSchema()}
	for _, name := range files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s := source{name: name, base: r.rows}
		var columns []*node
		if s.parquet, err = isParquet(name); err != nil {
			return nil, err
		}
		if s.parquet {
			pf, err := openParquet(name)
			if err != nil {
				return nil, err
			}
			s.rows, columns = pf.file.NumRows(), pf.root.fields
			pf.os.Close()
		} else if s.rows, columns, err = scanJSONL(ctx, name); err != nil {
			return nil, err
		}
		if err := r.schema.add(name, columns); err != nil {
			return nil, err
		}
		r.sources = append(r.sources, s)
		r.rows += s.rows
	}
	return r, nil
}

// NumRows returns the number of rows of all files, bad ones included.
func (r *Reader) NumRows() int64 { return r.rows }

// Files returns the names of the files in the order in which they are read.
func (r *Reader) Files() []string {
	names := make([]string, len(r.sources))
	for i, s := range r.sources {
		names[i] = s.name
	}
	return names
}

// Schema returns the columns of all files together, which [WriterOptions] takes.
func (r *Reader) Schema() *Schema { return r.schema }

// Rows gives every row once, in order, with Index 0 to NumRows-1. It stops early when ctx is done; [Reader.Err] then says so.
// Each call starts anew.
func (r *Reader) Rows(ctx context.Context) iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		r.err = nil
		for _, s := range r.sources {
			if !r.file(ctx, s, yield) {
				break
			}
		}
		r.err = ctx.Err()
	}
}

// Err returns why the last iteration stopped before the last row: ctx's error, or nil.
func (r *Reader) Err() error { return r.err }

func (r *Reader) file(ctx context.Context, s source, yield func(*Row) bool) bool {
	if !s.parquet {
		return readJSONL(ctx, s.name, s.base, s.rows, yield)
	}
	pf, err := openParquet(s.name)
	if err == nil {
		defer pf.os.Close()
		if pf.file.NumRows() == s.rows {
			l, lerr := r.schema.place(pf.root)
			if lerr == nil {
				return pf.rows(ctx, s.base, l, yield)
			}
			err = lerr
		} else {
			err = fmt.Errorf("it had %d rows when the job started and has %d now", s.rows, pf.file.NumRows())
		}
	}
	for at := range s.rows {
		row := &Row{Index: s.base + at, File: s.name, FileRow: at}
		row.fail("it cannot be read any more: %v; do not change inputs during a job", err)
		row.finish(nil)
		if ctx.Err() != nil || !yield(row) {
			return false
		}
	}
	return true
}

var extensions = []string{".parquet", ".jsonl", ".jsonl.gz", ".jsonl.zst"}

func hasExtension(name string) bool {
	return slices.ContainsFunc(extensions, func(e string) bool { return strings.HasSuffix(name, e) })
}

// isParquet tells the two formats apart by name, or by the first bytes of a file with another name.
func isParquet(name string) (bool, error) {
	if hasExtension(name) {
		return strings.HasSuffix(name, ".parquet"), nil
	}
	f, err := os.Open(name)
	if err != nil {
		return false, &FileError{File: name, What: "cannot open it", Err: errors.Unwrap(err)}
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err == nil && string(magic[:]) == "PAR1" {
		return true, nil
	}
	return false, &FileError{File: name, What: "neither a Parquet file nor named " + strings.Join(extensions[1:], ", ")}
}

// expand turns paths into files.
func expand(paths []string) ([]string, error) {
	var files []string
	add := func(name string) {
		if name = filepath.Clean(name); !slices.Contains(files, name) {
			files = append(files, name)
		}
	}
	if len(paths) == 0 {
		return nil, errors.New("no input files; name at least one file, glob or folder")
	}
	for _, path := range paths {
		matches := []string{path}
		if _, err := os.Stat(path); err != nil {
			if !errors.Is(err, fs.ErrNotExist) {
				return nil, &FileError{File: path, What: "cannot read it", Err: errors.Unwrap(err)}
			}
			if matches, err = filepath.Glob(path); err != nil {
				return nil, &FileError{File: path, What: "not a well-formed glob", Err: err}
			}
			if len(matches) == 0 {
				what := "there is no such file or folder"
				if strings.ContainsAny(path, "*?[") {
					what = "no file matches"
				}
				return nil, &FileError{File: path, What: what}
			}
		}
		for _, match := range matches {
			info, err := os.Stat(match)
			switch {
			case err != nil:
				return nil, &FileError{File: match, What: "cannot read it", Err: errors.Unwrap(err)}
			case info.IsDir():
				if err := folder(match, add); err != nil {
					return nil, err
				}
			case !info.Mode().IsRegular():
				return nil, &FileError{File: match, What: "not a regular file; inputs are looked into before they are read, so write it to a file first"}
			default:
				add(match)
			}
		}
	}
	return files, nil
}

// folder gives the prompt files below a folder to add.
func folder(root string, add func(string)) error {
	found := false
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != root && (d.Name()[0] == '.' || d.Name()[0] == '_') {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		if d.IsDir() || !hasExtension(path) {
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		found = true
		add(path)
		return nil
	})
	if err != nil {
		return &FileError{File: root, What: "cannot list it", Err: err}
	}
	if !found {
		return &FileError{File: root, What: "the folder has no files named " + strings.Join(extensions, ", ")}
	}
	return nil
}
