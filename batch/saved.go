package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"sort"
	"time"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/journal"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/completion"
	"github.com/quire/quire/promptset/folder"
	"github.com/quire/quire/storage"
	"github.com/quire/quire/tally"
	"github.com/quire/quire/vfs"
)

// savedJob is what an output folder has of the job: parts that are published, and completions in the journal.
type savedJob struct {
	process *Process
	opened  *Opened
	job     *Job // as the folder's job is settled
	fs      vfs.FS
	state   *jobstate.State
	folder  folder.Output
	parts   folder.Parts
	shard   jobstate.Shard
	format  string
	rows    int64        // of this process' parts: of all, or of those of its shard
	mine    int          // how many parts those are
	missing []int        // of its parts that are not published, ascending
	before  tally.Counts // of those that are

	next   *jobstate.Description // what is to become of the job; nil where it stays
	mended bool                  // with it rows of the input have other content
	anew   bool                  // its journal is of no use then

	stale map[int]folder.PartSummary // those of the missing parts that are there as before a change: their notes

	damaged   []folder.Damage // of those that are missing
	wroteMeta string          // why the metadata of JSONL parts was written again

	journal *journal.Journal
	entries []entry   // of the journal, by row and generation
	resumed bool      // an earlier process began the job
	parents io.Closer // rows that others go on from; nil if there are none

	observer *Observer
}

// entry is where the journal has a completion.
type entry struct {
	row        int64
	generation int
	at         journal.Position
}

// lockPatience is how long a run waits for the lock of a job. A process that was killed holds it until the system has
// taken its memory apart, and whoever starts it again at once should not have to know.
const lockPatience = 2 * time.Second

// patiently calls lock until it does something else than to say that the lock is taken, or there is no patience any
// more.
func patiently(ctx context.Context, taken error, lock func() error) error {
	until := time.Now().Add(lockPatience)
	for {
		if err := lock(); !errors.Is(err, taken) || ctx.Err() != nil || time.Now().After(until) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// openSaved locks the output folder, or the shard's part of it, and finds what job is in it, which must be the one that
// was opened, or none. The job is settled as that one is. With New, what is there is removed.
func openSaved(ctx context.Context, p *Process, opened *Opened) (saved *savedJob, err error) {
	s := &savedJob{process: p, opened: opened, job: opened.job, fs: p.FS, parts: opened.parts, shard: p.Shard,
		format: opened.job.Format}
	work, err := p.workFolder(s.job)
	if err != nil {
		return nil, err
	}
	if s.state, err = jobstate.OpenShard(p.FS, work, p.Shard); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.dropStandard(), s.state.Close())
		}
	}()
	if storage.IsRemote(s.job.Output) {
		s.state.Share(ctx, s.job.Output)
	}
	s.folder, err = folder.Open(ctx, p.FS, s.job.Output, cmp.Or(p.writer, p.Shard.Name()), s.state.Dir())
	if err != nil {
		return nil, err
	}
	if p.New {
		if err := errors.Join(s.folder.Clear(), s.clearJournals()); err != nil {
			return nil, err
		}
		if err := s.state.Clear(); err != nil {
			return nil, err
		}
	}
	names, err := s.folder.Names()
	if err != nil {
		return nil, err
	}
	// After the names: a part that another process published is not there before its job is.
	if err := s.state.Refresh(); err != nil {
		return nil, err
	}
	published := map[int]bool{}
	for _, name := range names {
		part, _, ok := folder.ParsePartName(name)
		if ok && p.Shard.Has(part) && (s.state.Job() == nil || s.parts.Name(part, s.format) == name) {
			published[part] = true
		}
	}
	if s.state.Job() != nil {
		s.resumed = true
		if err := s.agree(ctx); err != nil {
			return nil, err
		}
	} else if len(published) > 0 {
		return nil, fmt.Errorf("%s: %w: %s", s.job.Output, errForeignParts, p.elsewhere())
	}
	if err := s.inspect(published); err != nil {
		return nil, err
	}
	if err := s.outdate(ctx, published); err != nil {
		return nil, err
	}
	for _, part := range s.parts.All() {
		if !p.Shard.Has(part) {
			continue
		}
		from, to := s.parts.Range(part)
		s.rows += to - from
		s.mine++
		if !published[part] {
			s.missing = append(s.missing, part)
		}
	}
	return s, nil
}

// agree refuses a job that is not the one of the folder, nor one that it may become, and takes what that one settled
// on.
func (s *savedJob) agree(ctx context.Context) error {
	if err := s.change(ctx); err != nil {
		return err
	}
	now, err := s.arithmetic("")
	if err != nil {
		return err
	}
	return s.computes(now)
}

// arithmetic names what computes the job, with the settled dtype.
func (s *savedJob) arithmetic(device string) (string, error) {
	return s.job.Engine.arithmetic(s.opened.model.DType, device)
}

// clearJournals removes the journals that this process has to itself: its own, or for a run of the whole job all of
// them.
func (s *savedJob) clearJournals() error {
	dirs := []string{s.state.Dir()}
	if s.shard.Whole() {
		var err error
		if dirs, err = s.state.Dirs(); err != nil {
			return err
		}
	}
	for _, dir := range dirs {
		if err := errors.Join(journal.Clear(s.fs, dir), lineage.Clear(s.fs, dir)); err != nil {
			return fmt.Errorf("cannot clear the journal: %w", err)
		}
	}
	return nil
}

// claim makes the description the folder's job, if there is none yet. Where another process was faster, which may be
// one on another machine, its job must be the same, and this one is settled as that.
func (s *savedJob) claim(ctx context.Context, d *jobstate.Description) error {
	if s.state.Job() != nil {
		return s.extend()
	}
	// What an older job left whose description is gone.
	if err := errors.Join(journal.Clear(s.fs, s.state.Dir()), lineage.Clear(s.fs, s.state.Dir())); err != nil {
		return fmt.Errorf("cannot clear the journal: %w", err)
	}
	err := s.state.Begin(d)
	if errors.Is(err, jobstate.ErrBegun) {
		return s.agree(ctx)
	}
	return err
}

// open opens the journal, and takes what it has of parts that are missing. Damage in it is told to w.
func (s *savedJob) open(w io.Writer) error {
	missing := map[int]bool{}
	for _, part := range s.missing {
		missing[part] = true
	}
	var damages []journal.Damage
	var err error
	s.journal, damages, err = journal.Open(s.fs, s.state.Dir(), s.state.Key(), s.process.Timing.Journal,
		func(row int64, b []byte, at journal.Position) error {
			generation, err := completion.GenerationOf(b)
			if err == nil && row < s.parts.Rows && missing[s.parts.Of(row)] {
				s.entries = append(s.entries, entry{row, generation, at})
			}
			return nil
		})
	if err != nil {
		return err
	}
	for _, damage := range damages {
		fmt.Fprintf(w, "warning: %s; the completions in them are generated again\n", damage)
	}
	slices.SortFunc(s.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.generation, b.generation))
	})
	// Drawn twice, a completion is the same.
	s.entries = slices.CompactFunc(s.entries, func(a, b entry) bool {
		return a.row == b.row &&
			a.generation == b.generation
	})
	return nil
}

// of returns the completions that the journal has of a row.
func (s *savedJob) of(row int64) ([]completion.Result, error) {
	i := sort.Search(len(s.entries), func(i int) bool { return s.entries[i].row >= row })
	var results []completion.Result
	for ; i < len(s.entries) && s.entries[i].row == row; i++ {
		b, err := s.journal.Read(s.entries[i].at)
		if err != nil {
			return nil, err
		}
		var r completion.Result
		if err := r.UnmarshalBinary(b); err != nil {
			return nil, fmt.Errorf("the journal's completion of row %d: %w", row, err)
		}
		results = append(results, r)
	}
	return results, nil
}

// rowsOfMissing gives the rows of the parts that are missing.
func (s *savedJob) rowsOfMissing(ctx context.Context, reader *promptset.Reader) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for i := 0; i < len(s.missing); i++ {
			from, to := s.parts.Range(s.missing[i])
			// Parts that follow one another are read in one go.
			for i+1 < len(s.missing) && s.missing[i+1] == s.missing[i]+1 {
				i++
				_, to = s.parts.Range(s.missing[i])
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

// writer starts to write the parts that are missing.
func (s *savedJob) writer(schema *promptset.Schema, text promptset.TokenText) (*promptset.Writer, error) {
	published := func() {}
	return promptset.NewWriter(s.folder, promptset.WriterOptions{
		Format: s.format, Schema: schema, Columns: s.job.columnsOf(schema), JSONType: s.job.jsonType(),
		Exclude: s.job.without(),
		Meta:    s.state.Job().Meta, Parts: s.parts, Write: s.missing, TokenText: text, Status: statusOf,
		Publishing: func(p folder.PartSummary) error {
			p.Changes = len(s.state.Job().Changes)
			published = s.observer.publishing(p)
			if err := s.folder.AddNote(p, s.parts.Name(p.Part, s.format)); err != nil {
				return err
			}
			if s.observer != nil {
				s.observer.published(p)
			}
			return s.state.AddPart(p)
		},
		Published: func(_ int, next int64) error {
			defer published()
			return s.journal.Drop(next)
		},
	})
}

// close ends the journal and gives the folder back. Without a part missing the journal has nothing left.
func (s *savedJob) close() error {
	var err error
	if s.journal != nil {
		err = s.journal.Close()
	}
	if s.parents != nil {
		err = errors.Join(err, s.parents.Close())
	}
	return errors.Join(err, s.state.Close())
}

// rows returns how many rows the journal has completions of, and how many those are.
func (s *savedJob) journaled() (rows, completions int) {
	for i, e := range s.entries {
		if i == 0 || e.row != s.entries[i-1].row {
			rows++
		}
	}
	return rows, len(s.entries)
}

// computes refuses to go on with a job that computes in another way than this process, now.
func (s *savedJob) computes(now string) error {
	was := s.state.Job().Arithmetic
	if now == "" || was == "" || now == was { // jobs of older versions do not have it
		return nil
	}
	return fmt.Errorf("%w\nThe last digits of completions would not be those of a single run: %s; or %s",
		&jobstate.DifferentJobError{Output: s.job.Output,
			Differences: jobstate.Differences{{Text: fmt.Sprintf("the completions are computed by %s, were by %s", now,
				was)}}},
		arithmeticRemedy(now, was), s.process.elsewhere())
}

// dropStandard removes what was read from standard input and is no input of the folder's job.
func (s *savedJob) dropStandard() error {
	if !s.shard.Whole() {
		return nil
	}
	return s.state.DropInputs(standardOf(s.state.Job()))
}

// openFinished opens a finished job whose folder could not be locked because it is read-only. cause is the error of
// that, and it is returned for a job which is not finished.
func openFinished(ctx context.Context, p *Process, opened *Opened, cause error) (*savedJob, error) {
	if p.New || !vfs.IsReadOnly(cause) {
		return nil, cause
	}
	reads := *p
	reads.FS = vfs.ReadOnly(p.FS)
	saved, err := openSaved(ctx, &reads, opened)
	switch {
	case vfs.IsReadOnly(err):
		return nil, cause
	case err != nil: // what is wrong with the job there
		return nil, err
	case len(saved.missing) > 0 || saved.next != nil:
		_ = saved.close() // nothing is open
		return nil, cause
	}
	return saved, nil
}

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
