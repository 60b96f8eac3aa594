package resume

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/visible"
)

// smaller returns d without the differences from was that extend and retry allow: with extend it asks for no more than
// was, and with retry it has the model of was, and its inputs if they may have been fixed.
func smaller(d, was *jobstate.Description, extend, retry bool) *jobstate.Description {
	same := *d
	if retry {
		same.Model = was.Model
	}
	if extend && moreInputs(d.Inputs, was.Inputs) || retry && fixedInputs(d.Inputs, was.Inputs) {
		same.Inputs = was.Inputs
	}
	if !extend {
		return &same
	}
	same.Settings = maps.Clone(d.Settings)
	for _, name := range []string{spec.SettingN, spec.SettingRows, spec.SettingParents} {
		before, there := was.Settings[name]
		switch {
		case there && d.NumberAt(len(d.Changes), name) > was.NumberAt(len(was.Changes), name):
			same.Settings[name] = before
		case !there && name == spec.SettingParents:
			delete(same.Settings, name)
		}
	}
	return &same
}

// moreInputs reports whether inputs start with the inputs of was. The last one of these may have become longer.
func moreInputs(now, was []jobstate.Input) bool {
	last := len(was) - 1
	if last < 0 || len(now) < len(was) || !jobstate.SameInputs(now[:last], was[:last]) {
		return false
	}
	return jobstate.SameInputs(now[last:last+1], was[last:]) ||
		now[last].Bytes > was[last].Bytes && now[last].Rows >= was[last].Rows
}

// fixedInputs reports whether inputs have other content than was, and as many rows.
func fixedInputs(now, was []jobstate.Input) bool {
	return !jobstate.SameInputs(now, was) &&
		slices.EqualFunc(now, was, func(a, b jobstate.Input) bool { return a.Rows == b.Rows && a.Columns == b.Columns })
}

// findChange finds what this job changes of the job in a folder: nothing if they are the same job.
func (s *Saved) findChange(ctx context.Context) error {
	p, was, d := s.Process, s.State.Job(), s.Opened.Description
	differences := d.Differences(was)
	others := smaller(d, was, p.Extend, p.RetryErrors).Differences(was)
	larger := len(others) > 0 && len(smaller(d, was, true, p.RetryErrors).Differences(was)) == 0
	if len(others) > 0 && !p.Extend && !p.RetryErrors {
		others = differences
	}
	if larger {
		others = nil
	}
	rest, raised := s.raised(was.Binding())
	settled, err := SettledAs(s.Job, p, rest, others)
	if err != nil {
		return err
	}
	s.Job = settled
	if len(differences)+len(raised) == 0 {
		return nil
	}
	mended := p.RetryErrors && fixedInputs(d.Inputs, was.Inputs)
	before := s.Opened.Reader
	if !mended {
		var other jobstate.Differences
		if before, other, err = s.readerOf(ctx, was); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			other = jobstate.Differences{{Text: err.Error()}}
		}
		if len(other) > 0 && larger {
			other = differences
		}
		if len(other) > 0 {
			return different(p, s.Job, other)
		}
	}
	if larger {
		return setting.Errorf("%s holds a smaller job:\n  %s\nGive `extend` to make it larger, or %s", s.Job.Output,
			strings.Join(differences.Texts(), "\n  "), p.OutputRemedy())
	}
	from, err := s.changedFrom(ctx, was, d, before)
	if err != nil {
		return err
	}
	s.next = was.Changed(d, jobstate.Change{Time: time.Now().UTC().Truncate(time.Second), Version: p.Version,
		What: append(differences, raised...).Texts(), PartsFrom: from, RetryErrors: p.RetryErrors})
	s.next.Model, s.inputsFixed, s.dropsJournal = d.Model, mended, mended || d.Model != was.Model
	if len(raised) > 0 {
		s.next.Settled.MaxModelLen = s.Job.Engine.MaxModelLen
	}
	if len(s.next.Meta) > 0 {
		s.next.Meta[completion.MetaParameters], err = withN(s.next.Meta[completion.MetaParameters], s.Job.Sampling.N)
	}
	return err
}

// withN returns the parameters that parts carry with another n, the only one of them that a job may change.
func withN(parameters string, n int) (string, error) {
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(parameters), &all); err != nil {
		return "", fmt.Errorf("the metadata in job.json: %w", err)
	}
	all["n"] = json.RawMessage(strconv.Itoa(n))
	text, err := json.Marshal(all)
	return string(text), err
}

// raised returns what a job settled on without the limit that this job raises, and what it raises.
func (s *Saved) raised(was jobstate.Settled) (rest jobstate.Settled, raised jobstate.Differences) {
	before, now := was.MaxModelLen, s.Job.Engine.MaxModelLen
	if !s.Process.RetryErrors || before == 0 || now <= before {
		return was, nil
	}
	was.MaxModelLen = 0
	return was, jobstate.Differences{jobstate.Differ(spec.SettingMaxModelLen, now, before)}
}

// Changes reports whether the job changes the one of the folder.
func (s *Saved) Changes() bool { return s.next != nil }

// RaiseLimit gives the job the limit of a sequence's tokens that its rows need, 0 for the model's own, unless the job
// has settled on as much.
func (s *Saved) RaiseLimit(limit int) {
	if limit > 0 && limit <= s.Job.Engine.MaxModelLen {
		return
	}
	j := *s.Job
	j.Engine.MaxModelLen = limit
	s.Job = &j
	if s.next != nil {
		s.next.Settled.MaxModelLen = limit
	}
}

// readerOf is a reader of the inputs as the job had them that was started, whose rows must be the first ones of now:
// other ones are a difference.
func (s *Saved) readerOf(ctx context.Context, was *jobstate.Description) (*promptset.Reader, jobstate.Differences,
	error) {
	now := s.Opened.Reader
	if jobstate.SameInputs(spec.InputsOf(now), was.Inputs) {
		return now, nil, nil
	}
	last := was.Inputs[len(was.Inputs)-1]
	before, err := now.Before(ctx, len(was.Inputs), last.Bytes)
	if err != nil {
		return nil, nil, err
	}
	if !jobstate.SameInputs(spec.InputsOf(before), was.Inputs) {
		return nil, jobstate.Differences{{Of: jobstate.InputContent, Name: last.Name,
			Text: "has other rows at its start: rows can be added after those that it has"}}, nil
	}
	return before, nil, nil
}

// changedFrom is the first part of the job that was started which a larger one has another content of. That of no part
// is their number.
func (s *Saved) changedFrom(ctx context.Context, was, d *jobstate.Description, before *promptset.Reader) (int,
	error) {
	now := s.Opened.Reader
	if d.NumberAt(0, spec.SettingN) > was.NumberAt(len(was.Changes), spec.SettingN) {
		if now.HasRequests() {
			return 0, setting.Errorf("`extend` may not come with a larger `n-generations` for batch files of " +
				"OpenAI: a line may have several prompts, whose completions would get other numbers")
		}
		return 0, nil
	}
	if !completion.SameColumns(s.format, before.Schema(), now.Schema(), s.Job.ShapeOf(before.Schema()),
		s.Job.ShapeOf(now.Schema())) {
		return 0, nil
	}
	parts, _, _ := spec.PartsOf(was)
	row, err := firstRelated(ctx, s.Opened, parts.Rows)
	if err != nil {
		return 0, err
	}
	return firstChanged(parts, s.Opened.Parts, row), nil
}

// firstChanged is the first part that has other rows when a job gets more of them, or that has the first row which is
// another one then; noRow is none. If no part changes it is the number of parts.
func firstChanged(was, now folder.Parts, row int64) int {
	from := was.Count()
	if now.Rows > was.Rows && now.Of(was.Rows) < from {
		from--
	}
	if row != noRow {
		from = min(from, was.Of(row))
	}
	return from
}

const noRow int64 = -1

// firstRelated is the first of the rows which a job had that continues another row, or from another one that does,
// now that the job has more of them.
func firstRelated(ctx context.Context, o *prepare.Opened, had int64) (int64, error) {
	now, err := o.Lineage(ctx)
	if now == nil || err != nil {
		return noRow, err
	}
	was, err := lineage.Read(ctx, o.Reader, had)
	if err != nil {
		return noRow, err
	}
	parentOf := func(row int64) int64 {
		if was == nil {
			return lineage.None
		}
		return was.Of(row)
	}
	changed := make([]bool, had)
	for row := range had {
		if parent := now.Of(row); parent == lineage.Ambiguous && parentOf(row) >= 0 {
			reader := o.Reader.Beside()
			for r := range reader.Range(ctx, row, row+1) {
				return noRow, outcome.Errorf(outcome.Misused, "%w",
					r.Error(fmt.Sprintf("(id %s) its parent %s is now the id of a "+
						"row that was added, too: give that row an id of its own", visible.Quoted(r.ID),
						visible.Quoted(r.Parent.ID))))
			}
			return noRow, reader.Err()
		}
		changed[row] = now.Of(row) != parentOf(row)
	}
	seen := make([]bool, had)
	for row := range had { // one whose line leads to a row that changed
		for ancestor := row; ancestor >= 0 && ancestor < had && !seen[ancestor]; ancestor = now.Of(ancestor) {
			if changed[ancestor] {
				return row, nil
			}
			seen[ancestor] = true
		}
	}
	return noRow, nil
}

// Change makes the change of the job last that this process found.
func (s *Saved) Change() error {
	if s.next == nil {
		return nil
	}
	// What is kept of parents has their completions from before. It is made again.
	dirs, err := s.State.Dirs()
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		if err := lineage.Clear(s.FS, dir); err != nil {
			return fmt.Errorf("cannot clear the journal: %w", err)
		}
	}
	change := s.next.Changes[len(s.next.Changes)-1]
	s.Process.Statusf("changing the job in %s: %s; %d of its parts are written again", s.Job.Output,
		strings.Join(change.What, "; "), len(s.stale))
	if err := s.State.Change(s.next, s.dropsJournal); err != nil {
		return err
	}
	if s.dropsJournal { // what is finished of other parts may be of other rows, or of another model
		if err := s.ClearJournals(); err != nil {
			return err
		}
	}
	if s.next = nil; folder.HasMetaFile(s.format) && len(s.State.Job().Meta) > 0 {
		_, err = folder.MendMeta(s.folder, s.State.Job().Meta)
	}
	return err
}

// described is the folder's job, as it is after a change that is still to be made; nil is none.
func (s *Saved) described() *jobstate.Description {
	if s.next != nil {
		return s.next
	}
	return s.State.Job()
}

// RetriesErrors reports whether errors are no completions of a job which are kept.
func (s *Saved) RetriesErrors() bool {
	job := s.described()
	return job != nil && slices.ContainsFunc(job.Changes, func(c jobstate.Change) bool { return c.RetryErrors })
}
