package promptset

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
)

// Files is a source of inputs: [LocalFiles], or an object store.
type Files interface {
	// Expand returns the files that a path denotes, sorted by name: a file, a glob, or a folder.
	Expand(ctx context.Context, path string) ([]string, error)
	// Open opens a file for reading by range.
	Open(ctx context.Context, name string) (File, error)
}

// LocalFiles are the files of the machine. A folder stands for the files in it and in the folders below whose names
// identify a format (.parquet, .jsonl.gz, .csv, ...), except files whose name starts with a dot or an underscore, and
// except output folders of jobs. Links to folders are followed, and no folder is read twice. A data set saved by
// datasets.save_to_disk stands for the files that its state.json names, in their order.
var LocalFiles Files = localFiles{}

type localFiles struct{}

type localFile struct {
	*os.File
	info os.FileInfo
}

func (f localFile) Size() int64 { return f.info.Size() }

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
		if err := wellFormed(path); err != nil {
			return nil, err
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
			if err := promptFiles(match, add); err != nil {
				return nil, err
			}
		case !info.Mode().IsRegular():
			return nil, &FileError{File: match,
				What: "not a regular file; a pipe can only be the sole input, as JSONL: write it to a file first"}
		default:
			add(match)
		}
	}
	return files, nil
}

// wellFormed returns an error for a glob with **, which would match folders of one depth only.
func wellFormed(glob string) error {
	if !slices.Contains(strings.Split(glob, "/"), "**") {
		return nil
	}
	return &FileError{File: storage.Redact(glob), Missing: true,
		What: "** does not stand for folders of all depths: give the folder, which stands for all files below it"}
}

// promptFiles calls add for each prompt file below a folder.
func promptFiles(root string, add func(string)) error {
	var outputs []string
	found, err := storage.Walk(root, func(path string, d fs.DirEntry) bool {
		if !isInput(path, d) {
			return false
		}
		if d.IsDir() && isOutput(path) {
			outputs = append(outputs, path)
			return false
		}
		return true
	})
	if err != nil {
		return &FileError{File: root, What: "cannot list it", Err: err}
	}
	names := make([]string, len(found))
	for i, info := range found {
		name, err := filepath.Rel(root, info.Name)
		if err != nil {
			return &FileError{File: root, What: "cannot list it", Err: err}
		}
		names[i] = filepath.ToSlash(name)
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
		return noFiles(root, outputs)
	}
	for _, name := range files {
		add(filepath.Join(root, name))
	}
	return nil
}

// isInput reports whether a folder stands for an entry: a folder, a prompt file, or a file that lists the files of a
// saved data set. A broken link may have been any of them, unless its name shows otherwise.
func isInput(path string, d fs.DirEntry) bool {
	name := filepath.Base(path)
	switch {
	case name[0] == '.' || name[0] == '_':
		return false
	case d.IsDir() || hasExtension(name) || name == savedInfo || name == savedState:
		return true
	}
	return d.Type()&fs.ModeSymlink != 0 && filepath.Ext(name) == ""
}

// isOutput reports whether a folder is the output of a job. If the folder cannot be listed, the error is reported
// later.
func isOutput(dir string) bool {
	var m outputMarks
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		m.see(e.Name())
	}
	return m.ofOutput()
}

// outputMarks records which names in a folder identify the output of a job: the job's state, or parts with their
// metadata.
type outputMarks struct{ state, meta, parts bool }

func (m *outputMarks) see(name string) {
	_, _, part := folder.ParsePartName(name)
	m.state, m.meta, m.parts = m.state || name == folder.JobFolder, m.meta || name == folder.MetaName, m.parts || part
}

func (m *outputMarks) ofOutput() bool { return m.state || m.meta && m.parts }

// noFiles returns the error for a folder without prompt files but with these outputs of jobs below it.
func noFiles(root string, outputs []string) error {
	what := "the folder has no files named " + listExtensions()
	if len(outputs) > 0 {
		what += "; outputs of jobs below it, such as " + outputs[0] + ", are read if they are named themselves"
	}
	return &FileError{File: root, What: what, Missing: true}
}
