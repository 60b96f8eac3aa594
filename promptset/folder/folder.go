// Package folder keeps the parts of an output: their names, how rows are cut into parts, folders here and in object
// stores where parts appear whole, and notes and seals that tell what each part came to.
package folder

import (
	"io"
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

const (
	// notesFolder holds the notes, beside the rest of the job's state: see package jobstate.
	notesFolder = JobFolder + "/parts/"
	// jobFolder is the folder of a job's state in its output.
	JobFolder = "_job"
	noteName  = "part-%05d.json"
	// maxNote bounds what is read of a note.
	maxNote = 1 << 20
)
