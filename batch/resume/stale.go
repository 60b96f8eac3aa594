package resume

import (
	"context"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/internal/visible"
)

// findStale takes the parts out of published that the job's changes want to be written again, and counts the others.
func (s *Saved) findStale(ctx context.Context, published map[int]bool) error {
	job := s.described()
	if job == nil || len(job.Changes) == 0 && !s.Process.RetryErrors || len(published) == 0 {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(published))
	notes, err := s.notes(numbers)
	if err != nil {
		return err
	}
	there, err := notes.There(s.folder, s.Parts.Files(numbers, s.format))
	if err != nil {
		return err
	}
	s.stale = stale(job, there, numbers)
	if s.Process.RetryErrors {
		s.retry(there, numbers)
	}
	if s.inputsFixed {
		if err := s.checkFixedInputs(ctx, there, numbers); err != nil {
			return err
		}
	}
	s.Before = tally.Counts{}
	for _, number := range numbers {
		if _, again := s.stale[number]; again {
			delete(published, number)
		} else if note, ok := there[number]; ok {
			s.Before = s.Before.Plus(note.Noted())
		}
	}
	return nil
}

// stale returns the notes of published parts that are to be written again.
func stale(job *jobstate.Description, there map[int]folder.PartSummary,
	numbers []int) map[int]folder.PartSummary {
	again := map[int]folder.PartSummary{}
	for _, number := range numbers {
		note, noted := there[number]
		if job.Stale(number, note.Changes, !noted || note.RowsWithErrors > 0) {
			again[number] = note
		}
	}
	return again
}

// retry has parts with errors written again. A retry that was not brought to its end continues first.
func (s *Saved) retry(there map[int]folder.PartSummary, numbers []int) {
	if s.next != nil { // next does it
		return
	}
	job := s.State.Job()
	last := len(job.Changes) - 1
	if missing := len(s.stale) > 0 || len(numbers) < s.Parts.Count(); last >= 0 && job.Changes[last].RetryErrors &&
		missing {
		return
	}
	next := job.Changed(job, jobstate.Change{Time: time.Now().UTC().Truncate(time.Second), Version: s.Process.Version,
		What: []string{"rows with errors are tried again"}, PartsFrom: s.Parts.Count(), RetryErrors: true})
	if again := stale(next, there, numbers); len(again) > len(s.stale) {
		s.next, s.stale = next, again
	}
}

// StaleParts returns the numbers of published parts of a job that its changes want to be written again, with their
// notes.
func StaleParts(job *jobstate.Description, notes *folder.Notes, out *promptset.Output, place folder.Published) (
	map[int]folder.PartSummary, error) {
	parts, format, ok := spec.PartsOf(job)
	if !ok || len(job.Changes) == 0 {
		return nil, nil
	}
	var files []folder.Part
	var numbers []int
	for _, part := range out.Parts {
		if part.Belongs(parts, format) {
			files, numbers = append(files, part), append(numbers, part.Number)
		}
	}
	there, err := notes.There(place, files)
	return stale(job, there, numbers), err
}

// checkFixedInputs wants rows with completions to be what they were when the inputs have other content.
func (s *Saved) checkFixedInputs(ctx context.Context, there map[int]folder.PartSummary, numbers []int) error {
	reader := s.Opened.Reader
	for _, name := range s.Job.Exclude {
		if !slices.Contains(completion.Excludable(), name) {
			return outcome.Errorf(outcome.Misused,
				"the input has other content, and the output does without its column %q: whether "+
					"rows without errors are as before cannot be told. Give the input as it was, or %s", name,
				s.Process.OutputRemedy())
		}
	}
	r := &StaleResults{Saved: s, Reader: reader}
	r.compare = completion.NewRowCompare(s.format, reader.Schema(), s.Job.ShapeOf(reader.Schema()))
	for _, number := range numbers {
		if _, err := r.load(ctx, number, there[number]); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			return outcome.Errorf(outcome.Misused,
				"%s: %w: with `retry-errors` only rows with errors may have other content",
				s.Parts.Name(number, s.format), err)
		}
	}
	if r.compare.Retyped { // so has each part
		s.next.Changes[len(s.next.Changes)-1].PartsFrom = 0
		s.stale = stale(s.next, there, numbers)
	}
	return nil
}

// StaleResults reads completions from published parts that are written again. It keeps the last part.
type StaleResults struct {
	Saved  *Saved
	Reader *promptset.Reader
	part   int
	rows   map[int64][]completion.Result // results of part, nil before the first
	// compare reports whether completions have the columns of rows of the input; nil compares nothing.
	compare *completion.RowCompare
}

// Results returns the completions that a row has in a part that is written again. A part that can't be read has none,
// which is reported to w.
func (r *StaleResults) Results(ctx context.Context, row int64, w io.Writer) []completion.Result {
	part := r.Saved.Parts.Of(row)
	note, isStale := r.Saved.stale[part]
	if !isStale {
		return nil
	}
	if r.rows == nil || r.part != part {
		rows, err := r.load(ctx, part, note)
		if err != nil && ctx.Err() == nil {
			fmt.Fprintf(w, "warning: %s, which is written again: %v; its completions are generated again\n",
				r.Saved.Parts.Name(part, r.Saved.format), err)
			rows = map[int64][]completion.Result{}
		}
		r.part, r.rows = part, rows
	}
	return r.rows[row]
}

// load reads the completions in a part, by row.
func (r *StaleResults) load(ctx context.Context, number int, note folder.PartSummary) (
	map[int64][]completion.Result, error) {
	output, err := promptset.OpenOutput(r.Saved.folder)
	if err != nil {
		return nil, err
	}
	job := r.Saved.described()
	parts := r.Saved.Parts
	next, stop := iter.Pull2(output.Rows(ctx, parts.Part(number, r.Saved.format)))
	defer stop()
	parts.Rows = job.NumberAt(note.Changes, spec.SettingRows)
	n := int(job.NumberAt(note.Changes, spec.SettingN))
	from, to := parts.Range(number)
	accept := spec.AcceptOf(job)
	g := &resultsByRow{n: n, stops: accept.Stops(), rows: map[int64][]completion.Result{}}
	done, err, more := next()
	var group []*promptset.Row // one after another, with the same id
	take := func() error {
		if len(group) == 0 {
			return nil
		}
		id := strings.ToValidUTF8(group[0].ID, "\uFFFD")
		var results []completion.Result
		// A row with an error may have got its id since.
		alone := id == "" || more && err == nil && done.ID != id && done.Err != ""
		if alone && more && err == nil && done.Err != "" {
			id = done.ID
		}
		for more && err == nil && done.ID == id {
			if last := len(results) - 1; alone && last >= 0 && done.Generation != results[last].Generation+1 {
				break // the next row starts here, and may have the same id
			}
			if err := r.unchanged(group, done); err != nil {
				return err
			}
			results = append(results, done.Result)
			done, err, more = next()
		}
		if err == nil && len(results) == 0 {
			return misplacedRow(group[0], done, more)
		}
		g.add(group, results)
		group = nil
		return err
	}
	reader := r.Reader.Beside()
	for row := range reader.Range(ctx, from, to) {
		if len(group) > 0 && (group[0].ID != row.ID || row.ID == "") {
			if err := take(); err != nil {
				return nil, err
			}
		}
		group = append(group, row)
	}
	if err := reader.Err(); err != nil {
		return nil, err
	}
	if err := take(); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	if more {
		return nil, fmt.Errorf("it has generation %d of id %s after the last of its rows of the input", done.Generation,
			visible.Quoted(done.ID))
	}
	return g.rows, nil
}

// misplacedRow is the error for a row that the part does not have at its place: there it has a completion of a
// different row, or none.
func misplacedRow(row *promptset.Row, there *promptset.Completion, any bool) error {
	if !any {
		return row.Error(fmt.Sprintf("(id %s) is not in it", visible.Quoted(row.ID)))
	}
	return row.Error(fmt.Sprintf("(id %s) is where the row with id %s was: give the rows their ids and their order "+
		"again", visible.Quoted(row.ID), visible.Quoted(there.ID)))
}

// unchanged wants a completion to be of a row with the columns that it was generated of.
func (r *StaleResults) unchanged(rows []*promptset.Row, done *promptset.Completion) error {
	if r.compare == nil || done.Err != "" {
		return nil
	}
	for _, row := range rows {
		if same, err := r.compare.Same(row, done); same || err != nil {
			return err
		}
	}
	return rows[0].Error(fmt.Sprintf("(id %s) has completions, and its columns are not what they were",
		visible.Quoted(rows[0].ID)))
}

// resultsByRow are completions by row.
type resultsByRow struct {
	n     int  // the n of a row without its own
	stops bool // a row may end before it has n
	rows  map[int64][]completion.Result
}

// add gives rows with one id their completions, which follow one another. Errors are no completions. If there is an
// error among the completions of several rows, it is unknown which row has the others: they are generated again.
func (g *resultsByRow) add(rows []*promptset.Row, results []completion.Result) {
	failed := func(r completion.Result) bool { return r.Err != "" }
	if len(rows) == 1 {
		g.rows[rows[0].Index] = slices.DeleteFunc(results, failed)
		return
	}
	if slices.ContainsFunc(results, failed) {
		return
	}
	for i, row := range rows {
		n := row.Overrides.Over(parameter.Set{N: g.n}).N * (1 + len(row.More))
		if g.stops {
			n = ascending(results)
			if last := i == len(rows)-1; n == 0 || last && n < len(results) { // it is not known where rows end
				for _, row := range rows {
					delete(g.rows, row.Index)
				}
				return
			}
		}
		if n > len(results) {
			return
		}
		g.rows[row.Index], results = results[:n:n], results[n:]
	}
}

// ascending is how many results follow one another in their generations.
func ascending(results []completion.Result) (n int) {
	for n < len(results) && results[n].Generation == results[0].Generation+n {
		n++
	}
	return n
}

// Merged returns the completions of a row from a part and from the journal, each generation once.
func Merged(part, journaled []completion.Result) []completion.Result {
	if len(part) == 0 {
		return journaled
	}
	all := slices.Clone(part)
	for _, r := range journaled {
		if !slices.ContainsFunc(part, func(o completion.Result) bool { return o.Generation == r.Generation }) {
			all = append(all, r)
		}
	}
	return all
}
