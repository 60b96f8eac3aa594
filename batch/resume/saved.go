// Package resume finds what an output folder already has of a job: published parts, completions in the journal, and
// what a change of the job makes of both.
package resume

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/quire/quire/batch/arithmetic"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
)

// Saved is what an output folder has of the job: parts that are published, and completions in the journal.
type Saved struct {
	Process   *process.Process
	Opened    *prepare.Opened
	Job       *spec.Job // the job, settled as the folder's job is
	FS        vfs.FS
	State     *jobstate.State
	folder    folder.Output
	Parts     folder.Parts
	Shard     jobstate.Shard
	format    string
	Rows      int64        // rows of this process' parts: of all parts, or of its shard's
	PartCount int          // how many parts those are
	Missing   []int        // the unpublished ones of its parts, ascending
	Before    tally.Counts // counts of the published parts

	change

	damage

	records

	Resumed bool // an earlier process began the job

	Observer *observe.Observer
}

// Noting is what notes more of parts than their figures.
type Noting struct {
	// Write is called before a part is published, and Published after it.
	Write     func(part int) error
	Published func(part int)
}

// change is what is to become of the folder's job by this process. The zero value leaves the job as it is.
type change struct {
	next         *jobstate.Description // the description of the changed job; nil without a change
	inputsFixed  bool                  // rows of the inputs have other content than before
	dropsJournal bool                  // the changed job can't use the journal
	// stale holds the notes of the missing parts that are published as they were before a change.
	stale map[int]folder.PartSummary
}

// damage is what was found damaged in the folder, and is written again.
type damage struct {
	Damaged   []folder.Damage // parts, which count as missing
	wroteMeta string          // what was wrong with the metadata of JSONL parts
}

// entry is the position of a completion in the journal.
type entry struct {
	Row        int64
	generation int
	position   journal.Position
}

// Arithmetic names what computes the job, with the settled dtype.
func (s *Saved) Arithmetic(device string) (string, error) {
	return arithmetic.Name(&s.Job.Engine, s.Opened.Model.DType, device)
}

// Amended reports whether completions of an earlier version of a part may be of other model files than the job's: a
// change that tried errors again kept them.
func (s *Saved) Amended() bool {
	return slices.ContainsFunc(s.State.Job().Changes, func(c jobstate.Change) bool { return c.RetryErrors })
}

// ClearJournals removes the journals that this process has to itself: its own, or for a run of the whole job all of
// them.
func (s *Saved) ClearJournals() error {
	dirs := []string{s.State.Dir()}
	if s.Shard.Whole() {
		var err error
		if dirs, err = s.State.Dirs(); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		err := errors.Join(journal.Clear(s.FS, dir), lineage.Clear(s.FS, dir), tools.ClearLog(s.FS, dir))
		if err != nil {
			return fmt.Errorf("cannot clear the journal: %w", err)
		}
	}
	return nil
}

// Open opens the journal, and takes what it has of missing parts. Damage in it is reported to w.
func (s *Saved) Open(w io.Writer) error {
	missing := map[int]bool{}
	for _, part := range s.Missing {
		missing[part] = true
	}
	var damages []journal.Damage
	var err error
	s.Versions = versions.NewLog()
	s.Journal, damages, err = journal.Open(s.FS, s.State.Dir(), s.State.Key(), s.Process.Timing.Journal,
		func(row int64, b []byte, position journal.Position) error {
			if row >= s.Parts.Rows || !missing[s.Parts.Of(row)] {
				return nil
			}
			if note, ok := versions.Parse(b); ok {
				s.Versions.Add(row, note)
			} else if generation, err := completion.GenerationOf(b); err == nil {
				s.Entries = append(s.Entries, entry{row, generation, position})
				s.Versions.End(row, generation)
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, damage := range damages {
		fmt.Fprintf(w, "warning: %s; the completions in them are generated again\n", damage)
	}
	if s.Job.Tools.Used() {
		if err := s.checkOtherCalls(); err != nil {
			return err
		}
		s.Calls, err = tools.OpenLog(s.FS, s.State.Dir(), s.State.Key(), s.Process.Timing.Journal, w)
		if err != nil {
			return err
		}
	}
	// Drawn twice, a completion is the same, but a later record may have its verdict.
	slices.Reverse(s.Entries)
	slices.SortStableFunc(s.Entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.Row, b.Row), cmp.Compare(a.generation, b.generation))
	})
	s.Entries = slices.CompactFunc(s.Entries, func(a, b entry) bool {
		return a.Row == b.Row &&
			a.generation == b.generation
	})
	return nil
}

// checkOtherCalls refuses to start if processes with other shares of the job left calls of tools whose rows this one
// would have: it does not know them and would make them again.
func (s *Saved) checkOtherCalls() error {
	dirs, err := s.State.Dirs()
	if err != nil {
		return err
	}
	sibling := fmt.Sprintf("-of-%05d", s.Shard.Count)
	for _, dir := range dirs {
		if dir == s.State.Dir() || !s.Shard.Whole() && strings.HasSuffix(dir, sibling) {
			continue
		}
		if has, err := tools.HasLog(s.FS, dir); err != nil || has {
			return cmp.Or(err, setting.Errorf("%s has calls of tools by a process with another `shard` whose rows are "+
				"not published: finish the job as it was started, or give `new`", dir))
		}
	}
	return nil
}

// MissingRows gives the rows of the parts that are missing.
func (s *Saved) MissingRows(ctx context.Context, reader *promptset.Reader) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for i := 0; i < len(s.Missing); i++ {
			from, to := s.Parts.Range(s.Missing[i])
			// Parts that follow one another are read in one go.
			for i+1 < len(s.Missing) && s.Missing[i+1] == s.Missing[i]+1 {
				i++
				_, to = s.Parts.Range(s.Missing[i])
			}
			for row := range reader.Range(ctx, from, to) {
				if !yield(row) {
					return
				}
			}
			if reader.Err() != nil {
				return
			}
		}
	}
}

// NewWriter starts to write the parts that are missing.
func (s *Saved) NewWriter(schema *promptset.Schema, text promptset.TokenText, n Noting) (*promptset.Writer, error) {
	published := func() {}
	return promptset.NewWriter(s.folder, promptset.WriterOptions{
		Format: s.format, Schema: schema, Shape: s.Job.ShapeOf(schema), Meta: s.State.Job().Meta,
		Parts: s.Parts, Write: s.Missing, TokenText: text,
		Publishing: func(p folder.PartSummary) error {
			p.Changes = len(s.State.Job().Changes)
			published = s.Observer.Publishing(p)
			if err := n.Write(p.Part); err != nil {
				return err
			}
			if err := s.folder.AddNote(p, s.Parts.Name(p.Part, s.format)); err != nil {
				return err
			}
			if s.Observer != nil {
				s.Observer.Published(p)
			}
			return s.State.AddPart(p)
		},
		Published: func(part int, next int64) error {
			defer published()
			n.Published(part)
			return errors.Join(s.Journal.Drop(next), s.Calls.Drop(next))
		},
	})
}

// Close ends the journal and gives the folder back. Without a part missing the journal has nothing left.
func (s *Saved) Close() error {
	var err error
	if s.Journal != nil {
		err = s.Journal.Close()
	}
	if s.Parents != nil {
		err = errors.Join(err, s.Parents.Close())
	}
	return errors.Join(err, s.Calls.Close(), s.State.Close())
}

// CheckArithmetic refuses to continue with a job that computes in another way than this process, now.
func (s *Saved) CheckArithmetic(now string) error {
	was := s.State.Job().Arithmetic
	if now == "" || was == "" || now == was { // jobs of older versions do not have it
		return nil
	}
	return setting.Errorf("%w\nThe last digits of completions would not be those of a single run: %s; or %s",
		&jobstate.DifferentJobError{Output: s.Job.Output,
			Differences: jobstate.Differences{{Text: fmt.Sprintf("the completions are computed by %s, were by %s", now,
				was)}}},
		arithmetic.Remedy(now, was), s.Process.OutputRemedy())
}

// DropStandard removes what was read from standard input and is no input of the folder's job.
func (s *Saved) DropStandard() error {
	if !s.Shard.Whole() {
		return nil
	}
	return s.State.DropInputs(prepare.StandardDigest(s.State.Job()))
}

// inspect looks at the published parts, and takes those that are damaged out of published: they are missing, and
// generated again. It counts the others.
func (s *Saved) inspect(published map[int]bool) error {
	if len(published) == 0 { // as for most units of a queue: the notes of other parts need not be read
		return nil
	}
	numbers := slices.Sorted(maps.Keys(published))
	notes, err := s.notes(numbers)
	if err != nil {
		return err
	}
	found, err := folder.Inspect(s.folder, s.Parts.Files(numbers, s.format), notes)
	if err != nil {
		return err
	}
	for _, note := range found.Noted {
		if err := s.State.AddPart(note); err != nil {
			return err
		}
	}
	for _, part := range found.Gone {
		delete(published, part)
	}
	for _, d := range found.Damaged {
		delete(published, d.Part.Number)
	}
	s.Damaged = found.Damaged
	s.Before = notes.Counts(slices.Sorted(maps.Keys(published)))
	if job := s.State.Job(); job != nil && len(job.Meta) > 0 && folder.HasMetaFile(s.format) {
		s.wroteMeta, err = folder.MendMeta(s.folder, job.Meta)
	}
	return err
}

// notes reads the notes of published parts: by this process and its predecessors, which is enough for most units of a
// queue, or by all processes that worked on the job.
func (s *Saved) notes(numbers []int) (*folder.Notes, error) {
	if !s.Shard.Whole() {
		own, err := readNotes(s.State.OwnParts)
		if err != nil {
			return nil, err
		}
		if enough, err := own.Tell(s.folder, s.Parts.Files(numbers, s.format)); enough || err != nil {
			return own, err
		}
	}
	return readNotes(s.State.Parts)
}

// readNotes takes the notes of parts that from gives.
func readNotes(from func(each func([]byte)) error) (*folder.Notes, error) {
	notes := folder.NewNotes()
	return notes, from(func(b []byte) {
		if p, err := folder.ParsePartSummary(b); err == nil {
			notes.Add(p)
		}
	})
}

// ReportDamage names the parts that are generated again because they are damaged.
func (s *Saved) ReportDamage(w io.Writer) {
	for _, d := range s.Damaged {
		fmt.Fprintf(w, "%s is damaged: %s; it is generated again\n", d.Part.Name, d.What)
	}
	if s.wroteMeta != "" {
		fmt.Fprintf(w, "%s %s; it is written again\n", folder.MetaName, s.wroteMeta)
	}
}
