// Package folder keeps the parts of an output: their names, how rows are cut into parts, folders here and in object
// stores where parts appear whole, and notes and seals that tell what each part came to.
package folder

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/quire/quire/storage"
	"github.com/quire/quire/vfs"
)

// Destination is where whole parts go: see [Output].
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

const metaMissing = "is missing"

// MendMeta writes the file with the metadata of JSONL parts again if it is not what it was. It returns what was wrong
// with it; "" is nothing.
func MendMeta(folder Output, meta map[string]string) (what string, err error) {
	if what, err = MetaDamage(folder, meta); what == "" || err != nil {
		return what, err
	}
	if what != metaMissing {
		file, err := folder.Open(MetaName)
		if err != nil {
			return what, err
		}
		defer file.Close()
		folder.Condemn(MetaName, file.Version())
	}
	return what, WriteMeta(folder, meta)
}

// MetaDamage says what is wrong with the file with the metadata of JSONL parts; "" is nothing.
func MetaDamage(place Published, meta map[string]string) (what string, err error) {
	want, err := MetaText(meta)
	if err != nil {
		return "", err
	}
	file, err := place.Open(MetaName)
	if errors.Is(err, fs.ErrNotExist) {
		return metaMissing, nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	got := make([]byte, min(file.Size(), int64(len(want))+1))
	if n, err := file.ReadAt(got, 0); n < len(got) {
		return "", fmt.Errorf("cannot read %s: %w", MetaName, err)
	}
	if string(got) != string(want) {
		return "is not what was written", nil
	}
	return "", nil
}

// Output is where the parts of a job go: a [Local], or an [Objects].
type Output interface {
	Destination
	// Clear removes all parts and their metadata.
	Clear() error
	// Condemn says that a published file is damaged, in the version that was read. The next file of that name replaces
	// it.
	Condemn(name, version string)
	// Note returns what other machines find noted of a part; nil if there is nothing, or nothing that can be read.
	Note(part int) (*PartSummary, error)
	// AddNote puts the note of a part where other machines find it. It is called before the part of that name is
	// published.
	AddNote(p PartSummary, name string) error
}

// Open opens an output folder for writing: a local one, as [NewShared] does, or one in an object
// store, whose unpublished files are kept in the folder work.
func Open(ctx context.Context, files vfs.FS, output, owner, work string) (Output, error) {
	if storage.IsRemote(output) {
		return NewObjects(ctx, output, work)
	}
	return NewShared(files, output, owner)
}

// OpenToRead opens an output folder, local or in an object store, for reading: it changes nothing there.
func OpenToRead(ctx context.Context, files vfs.FS, output string) Published {
	if storage.IsRemote(output) {
		return &Objects{ctx: ctx, url: output}
	}
	return OpenLocal(files, output)
}

const (
	// notesFolder holds the notes, beside the rest of the job's state: see package jobstate.
	notesFolder = JobFolder + "/parts/"
	// jobFolder is the folder of a job's state in its output.
	JobFolder = "_job"
	noteName  = "part-%05d.json"
	// maxNote bounds what is read of a note.
	maxNote = 1 << 20
)

// File is a published file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version is another one when the file was written again, where files are: an object's ETag.
	Version() string
}
