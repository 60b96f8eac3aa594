package folder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/data/storage"
)

// Objects is an output folder in an object store. A part is written to a local file, and then put as a whole if no
// object has its name: if two processes do the same job, one writes a part and the other finds it.
//
// The notes on parts are there, too, so that another machine can continue if this one is lost.
type Objects struct {
	ctx  context.Context
	url  string
	work string // local folder for unpublished files

	mu        sync.Mutex
	condemned map[string]string // versions of damaged objects, by name
}

// newObjects opens the output folder at url for writing. It removes what an earlier process left unpublished in the
// folder work. Objects are put even if ctx is cancelled.
func newObjects(ctx context.Context, url, work string) (*Objects, error) {
	f := &Objects{ctx: context.WithoutCancel(ctx), url: url, work: filepath.Join(work, "unpublished")}
	if err := os.RemoveAll(f.work); err != nil {
		return nil, fmt.Errorf("cannot clear what an earlier process left: %w", err)
	}
	if err := os.MkdirAll(f.work, 0o777); err != nil {
		return nil, fmt.Errorf("cannot make the work folder: %w", err)
	}
	return f, nil
}

// Names lists the names in the folder itself, and the paths of parts in folders below. A folder with its own job is
// another output and is left out.
func (f *Objects) Names() ([]string, error) {
	files, err := storage.List(f.ctx, f.url)
	if err != nil {
		return nil, err
	}
	var names []string
	var others []string // folders of other outputs
	for _, info := range files {
		name := f.relative(info.Name)
		if above, _, job := strings.Cut(name, "/"+JobFolder+"/"); job {
			others = append(others, above+"/")
		}
		if _, _, part := ParsePartName(name); part || !strings.Contains(name, "/") {
			names = append(names, name)
		}
	}
	others = slices.Compact(others)
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(others, func(folder string) bool { return strings.HasPrefix(name, folder) })
	}), nil
}

func (f *Objects) relative(name string) string {
	root := strings.TrimSuffix(storage.Path(f.url), "/")
	return strings.TrimPrefix(strings.TrimPrefix(storage.Path(name), root), "/")
}

// Open opens an object of the folder.
func (f *Objects) Open(name string) (File, error) {
	return storage.Open(f.ctx, storage.Join(f.url, name))
}

// Create starts a file.
func (f *Objects) Create(name string) (Unpublished, error) {
	file, err := os.Create(filepath.Join(f.work, filepath.Base(name)))
	if err != nil {
		return nil, fmt.Errorf("cannot start %s: %w", name, err)
	}
	return &objectFile{folder: f, name: name, File: file}, nil
}

// objectFile is a file that becomes an object when it is complete.
type objectFile struct {
	folder *Objects
	name   string
	*os.File
}

// Publish puts the complete object.
func (p *objectFile) Publish() error {
	err := p.folder.clearTheWay(p.name)
	if err == nil {
		err = storage.Put(p.folder.ctx, storage.Join(p.folder.url, p.name), p.File)
	}
	p.Discard()
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w: another job writes to this folder; choose another output", err)
	}
	return err
}

// Discard removes the local file.
func (p *objectFile) Discard() {
	p.Close()
	os.Remove(p.File.Name())
}

// Clear removes the parts, their notes and their metadata.
func (f *Objects) Clear() error {
	names, err := f.Names()
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, _, part := ParsePartName(name); part || name == MetaName {
			if err := storage.Remove(f.ctx, storage.Join(f.url, name)); err != nil {
				return err
			}
		}
	}
	notes, err := storage.List(f.ctx, storage.Join(f.url, notesFolder))
	if err != nil {
		return err
	}
	for _, info := range notes {
		if err := storage.Remove(f.ctx, info.Name); err != nil {
			return err
		}
	}
	return nil
}

// Condemn marks an object, in the version that was read, for removal when a new one replaces it.
func (f *Objects) Condemn(name, version string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.condemned == nil {
		f.condemned = map[string]string{}
	}
	f.condemned[name] = version
}

// clearTheWay removes a condemned object if it still has that version: another process may have replaced it since.
func (f *Objects) clearTheWay(name string) error {
	f.mu.Lock()
	version, condemned := f.condemned[name]
	delete(f.condemned, name)
	f.mu.Unlock()
	if !condemned {
		return nil
	}
	url := storage.Join(f.url, name)
	file, err := storage.Open(f.ctx, url)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	now := file.Version()
	if err := file.Close(); err != nil || now != version {
		return err
	}
	return storage.Remove(f.ctx, url)
}

// Note reads the note of a part.
func (f *Objects) Note(part int) (*PartSummary, error) {
	text, err := storage.ReadFile(f.ctx, storage.Join(f.url, fmt.Sprintf(notesFolder+noteName, part)), maxNote)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	p, err := ParsePartSummary(text)
	if err != nil || p.Part != part {
		return nil, nil
	}
	return &p, nil
}

// Notes reads all notes and calls each with every note and its file's name; err is [ErrNote] for a damaged one.
func (f *Objects) Notes(each func(name string, p PartSummary, err error)) error {
	all, err := storage.List(f.ctx, storage.Join(f.url, notesFolder))
	if err != nil {
		return err
	}
	texts := make([][]byte, len(all))
	err = inParallel(together, len(all), func(i int) (err error) {
		if err = f.ctx.Err(); err == nil {
			texts[i], err = storage.ReadFile(f.ctx, all[i].Name, maxNote)
		}
		if errors.Is(err, fs.ErrNotExist) { // a run is replacing it
			err = nil
		}
		return err
	})
	for i, text := range texts {
		if err == nil && text != nil {
			p, noteErr := ParsePartSummary(text)
			each(f.relative(all[i].Name), p, noteErr)
		}
	}
	return err
}

// AddNote puts the note on a part into the store. An existing note that differs comes from an older version of the
// program, or concerns a damaged or missing part, and is replaced. If the existing note matches an intact part,
// another process wrote that part, and AddNote fails.
func (f *Objects) AddNote(p PartSummary, name string) error {
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return err
	}
	url := storage.Join(f.url, fmt.Sprintf(notesFolder+noteName, p.Part))
	put := func() error { return storage.Put(f.ctx, url, bytes.NewReader(append(text, '\n'))) }
	err = put()
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	if whole, lookErr := f.hasWhole(p.Part, name); whole || lookErr != nil {
		return errors.Join(err, lookErr)
	}
	if err := storage.Remove(f.ctx, url); err != nil {
		return err
	}
	return put()
}

// hasWhole reports whether a part exists and matches its note.
func (f *Objects) hasWhole(part int, name string) (bool, error) {
	note, err := f.Note(part)
	if note == nil || err != nil || !note.Sealed() {
		return false, err
	}
	file, err := f.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer file.Close()
	seal, err := SealOf(file)
	return seal == note.Seal, err
}
