package promptset

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/quire/quire/vfs"
)

// Destination is where whole parts go: see [OutputFolder].
type Destination interface {
	Published
	// Create starts a file that nobody sees before it is published.
	Create(name string) (Unpublished, error)
}

// Published is where whole parts are read back from: every [Destination] is.
type Published interface {
	// Names returns the names of what was published.
	Names() ([]string, error)
	// Open opens what was published under a name.
	Open(name string) (File, error)
}

// Unpublished is a file that is written and not visible.
type Unpublished interface {
	io.Writer
	// Publish makes the file last under its name, whole or not at all.
	Publish() error
	// Discard gives the file up.
	Discard()
}

// MetaName is the file with the metadata of JSONL parts.
const MetaName = "_meta.json"

var (
	partPattern = regexp.MustCompile(`^part-(\d{5,9})\.(` + extensionsPattern() + `)$`)
	tempPattern = regexp.MustCompile(`^\.(part-\d+\.(` + extensionsPattern() + `)|_meta\.json)\.tmp(-[\w-]+)?$`)
)

// PartName is the name of a part of the output.
func PartName(part int, format string) string {
	if f := formatNamed(format); f != nil {
		format = f.extension
	}
	return fmt.Sprintf("part-%05d.%s", part, format)
}

// ParsePartName is the inverse of [PartName]; ok says whether name is one of a part.
func ParsePartName(name string) (part int, format string, ok bool) {
	m := partPattern.FindStringSubmatch(name)
	if m == nil {
		return 0, "", false
	}
	part, err := strconv.Atoi(m[1])
	format = formatOfFile(name)
	return part, format, err == nil && PartName(part, format) == name
}

// Folder is an output folder. One process at a time may write to it, or several, each with an owner's name of its own
// and parts that are no other's.
type Folder struct {
	fs    vfs.FS
	dir   string
	owner string
}

// NewFolder makes a folder if need be, and removes files that a writer which died left unpublished.
func NewFolder(fs vfs.FS, dir string) (*Folder, error) { return NewSharedFolder(fs, dir, "") }

// NewSharedFolder is [NewFolder] for one of several writers. What others have not published stays. Owners are names of
// letters, digits, "-" and "_".
func NewSharedFolder(fs vfs.FS, dir, owner string) (*Folder, error) {
	if err := fs.MkdirAll(dir); err != nil {
		return nil, fmt.Errorf("cannot make the output folder: %w", err)
	}
	f := &Folder{fs, dir, owner}
	names, err := f.Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if m := tempPattern.FindStringSubmatch(name); m != nil && (owner == "" || m[3] == "-"+owner) {
			if err := fs.Remove(filepath.Join(dir, name)); err != nil {
				return nil, fmt.Errorf("cannot clear the output folder: %w", err)
			}
		}
	}
	// Whoever goes on from what is published there must not lose it any more: its writer may have died before this.
	if err := fs.SyncDir(dir); err != nil {
		return nil, fmt.Errorf("cannot sync the output folder: %w", err)
	}
	return f, nil
}

// Names returns the names in the folder.
func (f *Folder) Names() ([]string, error) {
	names, err := f.fs.List(f.dir)
	if err != nil {
		return nil, fmt.Errorf("cannot list the output folder: %w", err)
	}
	return names, nil
}

// OpenFolder returns a folder for reading: it makes, changes and removes nothing.
func OpenFolder(fs vfs.FS, dir string) Published { return &Folder{fs: fs, dir: dir} }

// Open opens a file of the folder.
func (f *Folder) Open(name string) (File, error) {
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

// publishedFile is an open file of a folder. It is not written again under its name: another one takes its place.
type publishedFile struct {
	io.ReaderAt
	io.Closer
	size int64
}

func (f publishedFile) Size() int64     { return f.size }
func (f publishedFile) Version() string { return "" }

// Clear removes all that writers have published there.
func (f *Folder) Clear() error {
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
	if err := f.fs.SyncDir(f.dir); err != nil {
		return fmt.Errorf("cannot clear the output folder: %w", err)
	}
	return nil
}

// Condemn does nothing: a file takes the place of the one before it.
func (f *Folder) Condemn(name, version string) {}

// Note returns nil: the notes of a local output are in the job's state alone.
func (f *Folder) Note(part int) (*PartSummary, error) { return nil, nil }

// AddNote does nothing: the notes of a local output are in the job's state alone.
func (f *Folder) AddNote(p PartSummary, format string) error { return nil }

// folderFile is a file that appears in a folder when it is whole.
type folderFile struct {
	folder      *Folder
	temp, final string
	file        vfs.File
	*bufio.Writer
}

// Create starts a file under a hidden name.
func (f *Folder) Create(name string) (Unpublished, error) {
	temp := "." + name + ".tmp"
	if f.owner != "" {
		temp += "-" + f.owner
	}
	p := &folderFile{folder: f, temp: filepath.Join(f.dir, temp), final: filepath.Join(f.dir, name)}
	var err error
	if p.file, err = f.fs.Create(p.temp); err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", p.final, err)
	}
	p.Writer = bufio.NewWriterSize(p.file, 256<<10)
	return p, nil
}

// Publish puts the file on disk, then under its name, then the name on disk.
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
		err = p.folder.fs.SyncDir(p.folder.dir)
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

// MetaText is the content of the file [MetaName].
func MetaText(meta map[string]string) ([]byte, error) {
	b, err := json.MarshalIndent(meta, "", "  ") // keys in order
	return append(b, '\n'), err
}

// WriteMeta publishes the metadata of JSONL parts.
func WriteMeta(d Destination, meta map[string]string) error {
	b, err := MetaText(meta)
	if err != nil {
		return err
	}
	p, err := d.Create(MetaName)
	if err != nil {
		return err
	}
	if _, err := p.Write(b); err != nil {
		p.Discard()
		return err
	}
	return p.Publish()
}
