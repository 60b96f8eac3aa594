package batch

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quire/quire/promptset/folder"
)

// inspect looks at the published parts, and takes those that are damaged out of published: they are missing, and drawn
// again. It counts the others.
func (s *savedJob) inspect(published map[int]bool) error {
	if len(published) == 0 { // as for most units of a queue: the notes of all others need not be read
		return nil
	}
	numbers := slices.Sorted(maps.Keys(published))
	notes, err := s.notes(numbers)
	if err != nil {
		return err
	}
	found, err := folder.Inspect(s.folder, s.parts.Files(numbers, s.format), notes)
	if err != nil {
		return err
	}
	for _, note := range found.Noted {
		if err := s.state.AddPart(note); err != nil {
			return err
		}
	}
	for _, part := range found.Gone {
		delete(published, part)
	}
	for _, d := range found.Damaged {
		delete(published, d.Part.Number)
	}
	s.damaged = found.Damaged
	s.before = notes.Counts(slices.Sorted(maps.Keys(published)))
	if job := s.state.Job(); job != nil && len(job.Meta) > 0 && folder.HasMetaFile(s.format) {
		s.wroteMeta, err = folder.MendMeta(s.folder, job.Meta)
	}
	return err
}

// notes reads what was noted of published parts: by this process and those before it, which is enough for most units
// of a queue, or by all who worked on the job.
func (s *savedJob) notes(numbers []int) (*folder.Notes, error) {
	if !s.shard.Whole() {
		own, err := notesIn(s.state.OwnParts)
		if err != nil {
			return nil, err
		}
		if enough, err := own.Tell(s.folder, s.parts.Files(numbers, s.format)); enough || err != nil {
			return own, err
		}
	}
	return notesIn(s.state.Parts)
}

// notesIn takes the notes of parts that from gives.
func notesIn(from func(each func([]byte)) error) (*folder.Notes, error) {
	notes := folder.NewNotes()
	return notes, from(func(b []byte) {
		if p, err := folder.ParsePartSummary(b); err == nil {
			notes.Add(p)
		}
	})
}

// tellDamaged names the parts that are drawn again because they are damaged.
func (s *savedJob) tellDamaged(w io.Writer) {
	for _, d := range s.damaged {
		fmt.Fprintf(w, "%s is damaged: %s; it is generated again\n", d.Part.Name, d.What)
	}
	if s.wroteMeta != "" {
		fmt.Fprintf(w, "%s %s; it is written again\n", folder.MetaName, s.wroteMeta)
	}
}
