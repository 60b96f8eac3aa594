package promptset

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/quire/quire/data/promptset/input"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/storage"
)

// Open finds the local files that paths name; see [OpenFrom].
func Open(ctx context.Context, paths []string) (*Reader, error) {
	return OpenFrom(ctx, LocalFiles, paths)
}

// OpenFrom finds the files that paths name and looks into each of them: the footer of a Parquet file, and all of
// other files (for their rows, and the types of keys). A file that is named twice is read once.
//
// Errors are of type [*FileError], errors of files, or ctx's error.
func OpenFrom(ctx context.Context, files Files, paths []string) (*Reader, error) {
	return OpenMapped(ctx, files, paths, Mapping{})
}

// OpenMapped is [OpenFrom] for rows whose prompts m defines.
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
			place := seen.locate(name)
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
	folders map[string]string // real paths of folders by name, without links
}

// locate returns the name of a file in its real folder, regardless of the links that lead there. A link to a file
// counts as a file.
func (s seenFiles) locate(name string) string {
	if storage.IsRemote(name) {
		return name
	}
	dir, base := filepath.Split(name)
	real, known := s.folders[dir]
	if !known {
		var err error
		if real, err = filepath.EvalSymlinks(dir); err != nil { // the file is not on this machine
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

// add adds a file after looking into it.
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
