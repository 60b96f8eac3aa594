// Package folder manages the parts of an output: their names, how rows are divided into parts, local and remote
// folders in which parts appear complete, and the notes and seals that describe each part.
package folder

import (
	"io"
)

// Destination is a place that complete parts are written to: see [Output].
type Destination interface {
	Published
	// Create starts a file that is invisible until it is published.
	Create(name string) (Unpublished, error)
}

// Published is a place that complete parts are read back from: every [Destination] is one.
type Published interface {
	// Names returns the names of the published files.
	Names() ([]string, error)
	// Open opens a published file.
	Open(name string) (File, error)
}

// Unpublished is a file that is being written and is not visible.
type Unpublished interface {
	io.Writer
	// Publish makes the complete file visible and durable under its name, atomically.
	Publish() error
	// Discard abandons the file.
	Discard()
}

// MetaName is the name of the file with the metadata of JSONL parts.
const MetaName = "_meta.json"

// Output is the place of a job's parts: a [Local], or an [Objects].
type Output interface {
	Destination
	// Clear removes all parts and their metadata.
	Clear() error
	// Condemn marks a published file as damaged, in the version that was read. The next file of that name replaces
	// it.
	Condemn(name, version string)
	// Note returns the note on a part that is visible to other machines; nil if there is none, or none that can be
	// read.
	Note(part int) (*PartSummary, error)
	// AddNote makes the note on a part visible to other machines. It is called before the part of that name is
	// published.
	AddNote(p PartSummary, name string) error
}

const (
	// notesFolder has the notes, next to the rest of the job's state: see package jobstate.
	notesFolder = JobFolder + "/parts/"
	// JobFolder is the folder of a job's state in its output.
	JobFolder = "_job"
	noteName  = "part-%05d.json"
	// maxNote bounds how much of a note is read.
	maxNote = 1 << 20
)
