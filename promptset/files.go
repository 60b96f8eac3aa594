package promptset

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Files is where inputs are: [LocalFiles], or an object store.
type Files interface {
	// Expand returns the files that a path stands for, sorted by name: a file, a glob, or a folder.
	Expand(ctx context.Context, path string) ([]string, error)
	// Open opens a file for reading by range.
	Open(ctx context.Context, name string) (File, error)
}

// File is an input file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version is another one when the file was written again: an object's ETag, or the time at which a local file was
	// last written.
	Version() string
}

// LocalFiles are the files of the machine. A folder stands for the files in it and the folders below whose names tell
// a format (.parquet, .jsonl.gz, .csv, ...), without those whose name starts with a dot or an underscore. Of a data set
// that datasets.save_to_disk saved it stands for the files that its state.json names, in their order.
var LocalFiles Files = localFiles{}

type localFiles struct{}

type localFile struct {
	*os.File
	info os.FileInfo
}

func (f localFile) Size() int64     { return f.info.Size() }
func (f localFile) Version() string { return f.info.ModTime().UTC().Format(time.RFC3339Nano) }

func (localFiles) Open(_ context.Context, name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, &FileError{File: name, What: "cannot open it", Err: errors.Unwrap(err)}
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, &FileError{File: name, What: "cannot read it", Err: err}
	}
	return localFile{f, info}, nil
}

func (localFiles) Expand(_ context.Context, path string) (files []string, err error) {
	add := func(name string) { files = append(files, filepath.Clean(name)) }
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
			} else if strings.Contains(path, ",") {
				what += "; names of several files are given one by one"
			}
			return nil, &FileError{File: path, What: what, Missing: true}
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
			return nil, &FileError{File: match,
				What: "not a regular file; inputs are looked into before they are read, so write it to a file first"}
		default:
			add(match)
		}
	}
	return files, nil
}

// folder gives the prompt files below a folder to add.
func folder(root string, add func(string)) error {
	var names []string
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
		if d.IsDir() || !hasExtension(path) && d.Name() != savedInfo && d.Name() != savedState {
			return nil
		}
		if info, err := os.Stat(path); err != nil || !info.Mode().IsRegular() {
			return err
		}
		name, err := filepath.Rel(root, path)
		names = append(names, filepath.ToSlash(name))
		return err
	})
	if err != nil {
		return &FileError{File: root, What: "cannot list it", Err: err}
	}
	files, err := chosen(root, names, func(name string) ([]byte, error) {
		text, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			return nil, &FileError{File: filepath.Join(root, name), What: "cannot read it", Err: errors.Unwrap(err)}
		}
		return text, nil
	})
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return &FileError{File: root, What: "the folder has no files named " + listExtensions(),
			Missing: true}
	}
	for _, name := range files {
		add(filepath.Join(root, name))
	}
	return nil
}

// watched remembers that reading a file failed, as opposed to what was read being wrong.
type watched struct {
	File
	err error
}

func (w *watched) ReadAt(b []byte, at int64) (int, error) {
	n, err := w.File.ReadAt(b, at)
	switch {
	case err == nil || err == io.EOF && at+int64(n) >= w.Size():
	case err == io.EOF:
		w.err = fmt.Errorf("it was %d bytes long and ends at %d now; do not change inputs during a job", w.Size(),
			at+int64(n))
	default:
		w.err = err
	}
	return n, err
}
