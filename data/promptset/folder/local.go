package folder

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/quire/quire/data/vfs"
)

var tempPattern = regexp.MustCompile(`^\.(part-\d+\.(` + extensionsPattern() + `)|_meta\.json)\.tmp(-[\w-]+)?$`)

// Local is an output folder. One process at a time may write to it, or several, each with its own owner name and its
// own parts.
type Local struct {
	fs    vfs.FS
	dir   string
	owner string
}

// NewLocal creates a folder if needed, and removes files that a dead writer left unpublished.
func NewLocal(files vfs.FS, dir string) (*Local, error) { return NewShared(files, dir, "") }

// NewShared is [NewLocal] for one of several writers. Unpublished files of others are kept. An owner's name consists
// of letters, digits, "-" and "_".
func NewShared(files vfs.FS, dir, owner string) (*Local, error) {
	if err := files.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("cannot make the output folder: %w", err)
	}
	f := &Local{files, dir, owner}
	names, err := f.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		m := tempPattern.FindStringSubmatch(filepath.Base(name))
		if m != nil && (owner == "" || m[3] == "-"+owner) {
			// Who only reads leaves it.
			if err := files.Remove(filepath.Join(dir, name)); err != nil && !vfs.IsReadOnly(err) {
				return nil, fmt.Errorf("cannot clear the output folder: %w", err)
			}
		}
	}
	// Make the published names durable: their writer may have died before it did so, and this process relies on them
	// from now on.
	for _, folder := range foldersOf(names) {
		if err := files.SyncDir(filepath.Join(dir, folder)); err != nil {
			return nil, fmt.Errorf("cannot sync the output folder: %w", err)
		}
	}
	return f, nil
}

// foldersOf lists the folders of paths, including the folder that the paths are relative to.
func foldersOf(names []string) []string {
	all := []string{"."}
	for _, name := range names {
		all = append(all, filepath.Dir(name))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Names returns the names in the folder, and the paths of files in folders that may contain parts. A folder with its
// own job is another output and is left out.
func (f *Local) Names() (all []string, err error) {
	if all, err = f.names(""); err != nil {
		return nil, fmt.Errorf("cannot list the output folder: %w", err)
	}
	return all, nil
}

// names returns the names in a folder below, as paths that start with it.
func (f *Local) names(below string) (all []string, err error) {
	names, err := f.fs.List(filepath.Join(f.dir, below))
	if err != nil || below != "" && slices.Contains(names, JobFolder) {
		return nil, err
	}
	for _, name := range names {
		path := filepath.Join(below, name)
		all = append(all, path)
		if NoPartition(name) {
			continue
		}
		more, err := f.names(path)
		// it is a file, or it was removed
		if err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENOTDIR) {
			return nil, err
		}
		all = append(all, more...)
	}
	return all, nil
}

// OpenLocal returns a folder for reading: it does not create, change or remove anything.
func OpenLocal(files vfs.FS, dir string) Published { return &Local{fs: files, dir: dir} }

// Open opens a file of the folder.
func (f *Local) Open(name string) (File, error) {
	file, err := f.fs.Open(filepath.Join(f.dir, name))
	if err != nil {
		return nil, fmt.Errorf("cannot open a file of the output folder: %w", err)
	}
	size, err := file.Size()
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("cannot read %s: %w", filepath.Join(f.dir, name), err)
	}
	return publishedFile{file, file, size}, nil
}

// publishedFile is an open file of a folder. It never changes: a new file under its name replaces it.
type publishedFile struct {
	io.ReaderAt
	io.Closer
	size int64
}

func (f publishedFile) Size() int64 { return f.size }

func (f publishedFile) Version() string { return "" }

// Clear removes everything that writers have published there. Folders of parts stay, empty.
func (f *Local) Clear() error {
	names, err := f.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, part := ParsePartName(name); !part && name != MetaName {
			continue
		}
		if err := f.fs.Remove(filepath.Join(f.dir, name)); err != nil {
			return fmt.Errorf("cannot clear the output folder: %w", err)
		}
	}
	for _, folder := range foldersOf(names) {
		if err := f.fs.SyncDir(filepath.Join(f.dir, folder)); err != nil {
			return fmt.Errorf("cannot clear the output folder: %w", err)
		}
	}
	return nil
}

// Condemn does nothing, because a new file simply replaces the old one.
func (f *Local) Condemn(name, version string) {}

// Note returns nil: the notes of a local output are only in the job's state.
func (f *Local) Note(part int) (*PartSummary, error) { return nil, nil }

// AddNote does nothing: the notes of a local output are only in the job's state.
func (f *Local) AddNote(p PartSummary, name string) error { return nil }

// folderFile is a file that appears in a folder when it is complete.
type folderFile struct {
	folder      *Local
	temp, final string
	file        vfs.File
	*bufio.Writer
}

// Create starts a file under a hidden name.
func (f *Local) Create(name string) (Unpublished, error) {
	temp := "." + filepath.Base(name) + ".tmp"
	if f.owner != "" {
		temp += "-" + f.owner
	}
	dir := filepath.Join(f.dir, filepath.Dir(name))
	p := &folderFile{folder: f, temp: filepath.Join(dir, temp), final: filepath.Join(f.dir, name)}
	var err error
	if dir != filepath.Clean(f.dir) {
		if err = f.fs.MkdirAll(dir); err != nil {
			return nil, fmt.Errorf("cannot make a folder for %s: %w", p.final, err)
		}
	}
	if p.file, err = f.fs.Create(p.temp); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.final, err)
	}
	p.Writer = bufio.NewWriterSize(p.file, 256<<10)
	return p, nil
}

// Publish makes the file's content durable, renames it, and makes the name durable.
func (p *folderFile) Publish() error {
	err := p.Flush()
	if err == nil {
		err = p.file.Sync()
	}
	if cerr := p.file.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = p.folder.fs.Rename(p.temp, p.final)
	}
	if err == nil {
		err = p.folder.fs.SyncDir(filepath.Dir(p.final))
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", p.final, err)
	}
	return nil
}

// Discard removes the file.
func (p *folderFile) Discard() {
	p.file.Close()
	p.folder.fs.Remove(p.temp)
}
