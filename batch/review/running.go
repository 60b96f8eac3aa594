package review

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Progress is how far a job is that is not finished.
type Progress struct {
	Completions int64  `json:"completions"` // completions in parts and in the journal
	Of          int64  `json:"of"`
	State       string `json:"state"` // what became of its processes
	Running     bool   `json:"running"`
	// WithoutInput reports why prompts and ids are not known of what is in the journal; "" if they are.
	WithoutInput string `json:"without_input,omitempty"`
}

func (p *Progress) String() string {
	text := fmt.Sprintf("partial: %d of %s so far; %s", p.Completions, plural.Count(p.Of, "completion"), p.State)
	if p.WithoutInput != "" {
		text += ". Ids and prompts of rows that are in no part yet are not known, for the input is not what it was: " +
			p.WithoutInput
	}
	return text
}

// runningJob is a job, with what its journals have.
type runningJob struct {
	Progress
	work      string
	job       *jobstate.Description
	processes []telemetry.Process
	seriesErr error // error of reading the series
	parts     folder.Parts
	format    string
	notes     *folder.Notes
	input     *promptset.Reader // nil if nothing needs it, and if it can't be read
	prefix    string            // what stands for the job's prefix before prompts
	missing   []int             // parts that are not there, or there as before a change of the job
	prompts   bool              // parts have no prompts: the prompts of the input replace them

	journals []*journal.Snapshot
	entries  []entry // entries of missing parts, by row and generation
}

// entry is the position of a completion in a journal.
type entry struct {
	row        int64
	generation int
	journal    int
	position   journal.Position
}

// readRunning reads what job an output folder holds, and its journals; nil is none.
func readRunning(ctx context.Context, files vfs.FS, output, workDir string) (b *runningJob, err error) {
	b = &runningJob{notes: folder.NewNotes()}
	if b.work, err = process.WorkFolder(output, workDir); err != nil {
		return nil, err
	}
	job, key, err := jobstate.ReadKey(files, b.work)
	journals := job != nil // the journals are on this machine
	if storage.IsRemote(output) {
		job, err = jobstate.ReadShared(ctx, output)
	}
	if job == nil || err != nil {
		return nil, err
	}
	known := false
	b.job = job
	if b.parts, b.format, known = spec.PartsOf(job); !known {
		return nil, nil
	}
	b.processes, b.seriesErr = processes(files, filepath.Join(b.work, jobstate.Folder))
	if journals {
		if err := b.readJournals(ctx, files, key); err != nil {
			return nil, errors.Join(err, b.close())
		}
	}
	return b, nil
}

// readJournals finds what the journals of runs of the whole job and of shards have. Their ends are often torn.
func (b *runningJob) readJournals(ctx context.Context, files vfs.FS, key journal.Key) error {
	dirs, err := jobstate.Dirs(files, b.work)
	if err != nil {
		return err
	}
	for i, dir := range dirs {
		snapshot, _, err := journal.Look(files, dir, key, func(row int64, r []byte, position journal.Position) error {
			if generation, err := completion.GenerationOf(r); err == nil && row < b.parts.Rows {
				b.entries = append(b.entries, entry{row, generation, i, position})
			}
			return ctx.Err()
		})
		if err != nil {
			return err
		}
		b.journals = append(b.journals, snapshot)
	}
	_, err = jobstate.Parts(files, b.work, func(note []byte) {
		if p, err := folder.ParsePartSummary(note); err == nil {
			b.notes.Add(p)
		}
	})
	return err
}

// settle leaves of the journals what no part has, and reports how far the job is.
func (b *runningJob) settle(ctx context.Context, out *promptset.Output, place folder.Published) error {
	b.missing = out.Missing(b.parts, b.format)
	stale, err := resume.StaleParts(b.job, b.notes, out, place)
	if err != nil {
		return err
	}
	for number := range stale {
		b.missing = append(b.missing, number)
	}
	slices.Sort(b.missing)
	if len(b.missing) == 0 {
		b.entries = nil
		return b.close()
	}
	b.entries = slices.DeleteFunc(b.entries, func(e entry) bool {
		_, missing := slices.BinarySearch(b.missing, b.parts.Of(e.row))
		return !missing
	})
	// A completion that was generated twice is the same, but a later record may have its verdict.
	slices.Reverse(b.entries)
	slices.SortStableFunc(b.entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.row, b.row), cmp.Compare(a.generation, b.generation))
	})
	b.entries = slices.CompactFunc(b.entries, func(a, b entry) bool {
		return a.row == b.row && a.generation == b.generation
	})
	if len(b.entries) > 0 {
		if b.input, err = prepare.ReopenInputs(ctx, b.job, b.work); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			b.WithoutInput = err.Error()
		}
	}
	if mapping, err := spec.MappingOf(b.job); err == nil {
		b.prefix = mapping.Prefix
	}
	err = b.count(ctx, out)
	b.State, b.Running = b.state(time.Now())
	return err
}

// count reports how many completions there are, and how many there will be.
func (b *runningJob) count(ctx context.Context, out *promptset.Output) (err error) {
	there := map[int]bool{}
	for _, part := range out.Parts {
		there[part.Number] = true
	}
	for _, number := range b.parts.All() {
		note, noted := b.notes.Last(number)
		counts := note.Noted()
		have := counts.FinishReasons.Sum() // a row with an error has one, regardless of its n
		expected := have
		if _, missing := slices.BinarySearch(b.missing, number); missing || !noted {
			from, to := b.parts.Range(number)
			if expected, err = spec.CompletionsOf(ctx, b.job, b.input, from, to); err != nil {
				return err
			}
		}
		switch {
		case there[number] && noted:
			b.Completions += have
		case there[number]:
			b.Completions += expected
		}
		b.Of += expected
	}
	b.Completions = min(b.Completions+int64(len(b.entries)), b.Of)
	return nil
}

// state reports what became of the job's processes, and whether one runs.
func (b *runningJob) state(now time.Time) (text string, running bool) {
	n := len(b.processes)
	if jobstate.Running(b.work) {
		if n == 0 && b.Completions == 0 {
			return "the job is running: it loads the model, or has just started", true
		}
		return "the job is running", true
	}
	if slices.ContainsFunc(b.processes, func(p telemetry.Process) bool { return p.Fresh(now) }) {
		return "the job runs on another machine, or was killed just now", true
	}
	const again = `: the same "sample run" command continues it`
	switch {
	case n == 0 && b.Completions > 0: // within its first second
		return "its process was killed" + again, false
	case n == 0:
		return "nothing was generated, and no process here works on it" + again, false
	case b.processes[n-1].End == nil:
		return "its process was killed" + again, false
	case b.processes[n-1].End.Result == "interrupted":
		return "it was interrupted" + again, false
	case b.processes[n-1].End.Result == "finished":
		return "its last process finished, and parts are missing" + again, false
	}
	return "it ended with an error (" + b.processes[n-1].End.Result + ")" + again, false
}

func (b *runningJob) close() (err error) {
	for _, s := range b.journals {
		err = errors.Join(err, s.Close())
	}
	b.journals = nil
	return err
}

// adds reports whether the journal has completions of rows of a part.
func (b *runningJob) adds(part int) bool { return len(b.entriesOf(b.parts.Range(part))) > 0 }

// entriesOf are the entries of rows from from to to-1.
func (b *runningJob) entriesOf(from, to int64) []entry {
	indexOf := func(row int64) int {
		return sort.Search(len(b.entries), func(i int) bool { return b.entries[i].row >= row })
	}
	return b.entries[indexOf(from):indexOf(to)]
}

// results reads the completions of a row.
func (b *runningJob) results(row int64) (all []completion.Result, err error) {
	for _, e := range b.entriesOf(row, row+1) {
		var r completion.Result
		text, err := b.journals[e.journal].Read(e.position)
		if err == nil {
			err = r.UnmarshalBinary(text)
		}
		if err != nil {
			return nil, fmt.Errorf("the journal's completion of row %d: %w", row, err)
		}
		all = append(all, r)
	}
	return all, nil
}

// each yields the rows of a part with what the journal has of them. Without the input a row has its number alone.
func (b *runningJob) each(ctx context.Context, part int) iter.Seq2[*promptset.Row, error] {
	from, to := b.parts.Range(part)
	return func(yield func(*promptset.Row, error) bool) {
		if b.input == nil {
			last := int64(-1)
			for _, e := range b.entriesOf(from, to) {
				row := &promptset.Row{Index: e.row, ID: strconv.FormatInt(e.row, 10)}
				if e.row != last && !yield(row, ctx.Err()) {
					return
				}
				last = e.row
			}
			return
		}
		for row := range b.input.Range(ctx, from, to) {
			if !yield(row, nil) {
				return
			}
		}
		if err := b.input.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// prompt is a row's prompt as text for people, without the job's prefix, whose text is not known.
func (b *runningJob) prompt(row *promptset.Row) string {
	text := row.PromptText()
	if b.prefix != "" {
		text = strings.Replace(text, b.prefix, "", 1)
	}
	return text
}

// rows yields the completions of a part that is not there.
func (b *runningJob) rows(ctx context.Context, part int, yield func(*promptset.Completion, error) bool) {
	if !b.adds(part) {
		return
	}
	for row, err := range b.each(ctx, part) {
		var results []completion.Result
		if err == nil {
			results, err = b.results(row.Index)
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, r := range results {
			if !yield(completion.NewCompletion(row.ID, r, func() string { return b.prompt(row) }), nil) {
				return
			}
		}
	}
}

// oldPart is a part that is written again after a change of the job, read from its start.
type oldPart struct {
	next func() (*promptset.Completion, error, bool)
	done *promptset.Completion // the next one
	err  error
	more bool
}

// readOld reads completions of a part until stop is called.
func readOld(there iter.Seq2[*promptset.Completion, error]) (old *oldPart, stop func()) {
	old = &oldPart{}
	old.next, stop = iter.Pull2(there)
	old.advance()
	return old, stop
}

func (p *oldPart) advance() { p.done, p.err, p.more = p.next() }

// completionsOf returns the completions of the next row, which has an id.
func (p *oldPart) completionsOf(id string) (results []completion.Result) {
	for p.more && p.err == nil && p.done.ID == id && (len(results) == 0 ||
		p.done.Generation > results[len(results)-1].Generation) {
		results = append(results, p.done.Result)
		p.advance()
	}
	return results
}

// together returns the completions of a row that its old part and the journal have. Errors that were tried again with
// success are gone.
func (b *runningJob) together(row *promptset.Row, old *oldPart) ([]completion.Result, error) {
	results := old.completionsOf(strings.ToValidUTF8(row.ID, "\uFFFD"))
	if old.err != nil {
		return nil, old.err
	}
	added, err := b.results(row.Index)
	if err != nil {
		return nil, err
	}
	if len(added) > 0 {
		results = slices.DeleteFunc(results, func(r completion.Result) bool { return r.Err != "" })
	}
	results = resume.Merged(results, added)
	slices.SortFunc(results, func(a, b completion.Result) int { return cmp.Compare(a.Generation, b.Generation) })
	return results, nil
}

// merge yields the completions of a part together with the completions that the journal adds and the prompts of the
// input. Without the input it yields the prompts of the part.
func (b *runningJob) merge(ctx context.Context, there iter.Seq2[*promptset.Completion, error], part folder.Part,
	yield func(*promptset.Completion, error) bool) {
	old, stop := readOld(there)
	defer stop()
	if b.input != nil {
		for row, err := range b.each(ctx, part.Number) {
			var results []completion.Result
			if err == nil {
				results, err = b.together(row, old)
			}
			if old.err != nil {
				break
			}
			if err != nil {
				yield(nil, err)
				return
			}
			for _, r := range results {
				if !yield(completion.NewCompletion(row.ID, r, func() string { return b.prompt(row) }), nil) {
					return
				}
			}
		}
	}
	for ; old.more; old.advance() {
		err := old.err
		if err != nil {
			err = partError(part, err)
		}
		if !yield(old.done, err) {
			return
		}
	}
}
