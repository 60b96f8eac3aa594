// Package verify reads a whole output and what is kept of its job, and reports what is damaged.
package verify

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"path/filepath"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Progress receives the name of the file that is read, and the number of bytes read.
type Progress interface {
	Describe(file string)
	Add(bytes int64)
}

type silent struct{}

func (silent) Describe(string) {}
func (silent) Add(int64)       {}

// Output reads the output of a job and compares it with what was noted when it was written. WorkDir is the run's, if it
// had one; progress may be nil. It changes nothing and takes no lock. An error means that the output could not be
// checked; faults of the output are in the report.
func Output(ctx context.Context, files vfs.FS, output, workDir string, progress Progress) (*Report, error) {
	if progress == nil {
		progress = silent{}
	}
	v := &verifier{ctx: ctx, files: files, output: storage.Redact(output), bar: progress}
	if err := v.open(output, workDir); err != nil {
		return nil, err
	}
	if err := v.verify(); err != nil {
		return nil, err
	}
	v.report.settle()
	return &v.report, nil
}

// verifier reads an output and what is kept of its job.
type verifier struct {
	ctx    context.Context
	files  vfs.FS
	output string // the output as shown
	work   string // folder of the job's state
	place  folder.Published
	bar    Progress
	report Report

	out    *promptset.Output
	job    *jobstate.Description // nil if it can't be read
	parts  folder.Parts
	format string
	key    journal.Key
	notes  *folder.Notes
	reader *promptset.Reader          // nil if inputs are not compared
	stale  map[int]folder.PartSummary // parts as they were before a change of the job, which are written again

	journaled map[int]bool // parts that the journal has completions of
}

// open finds the output and its job.
func (v *verifier) open(output, workDir string) (err error) {
	v.report.Output = v.output
	v.notes, v.journaled = folder.NewNotes(), map[int]bool{}
	if v.work, err = process.WorkFolder(output, workDir); err != nil {
		return err
	}
	v.place = folder.OpenToRead(v.ctx, v.files, output)
	// Parts before notes: a note is there before its part is.
	if v.out, err = promptset.OpenOutput(v.place); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s: there is no such folder: give the output folder of a sample run", v.output)
	} else if err != nil {
		return err
	}
	var jobErr error
	if storage.IsRemote(output) {
		v.job, jobErr = jobstate.ReadShared(v.ctx, output)
		var here *jobstate.Description
		if here, v.key, err = jobstate.ReadKey(v.files, v.work); here == nil {
			v.key = journal.Key{}
		}
		if err != nil {
			v.report.note(fmt.Sprintf("the journal on this machine was not read: %v", err))
		}
	} else {
		v.job, v.key, jobErr = jobstate.ReadKey(v.files, v.work)
	}
	switch known := false; {
	case jobErr != nil:
		v.report.problem(jobstate.JobFile, jobErr.Error(), bringBack)
	case v.job == nil && len(v.out.Parts) == 0:
		return fmt.Errorf("%s holds no job: give the output folder of a sample run", v.output)
	case v.job == nil:
		v.report.problem(jobstate.JobFile, "it is missing, and nothing says which job wrote the parts", bringBack)
	default:
		if v.parts, v.format, known = spec.PartsOf(v.job); !known {
			v.report.problem(jobstate.JobFile, "its settings do not say how many rows and parts the job has", bringBack)
			v.job = nil
		}
	}
	return nil
}

// verify checks everything.
func (v *verifier) verify() error {
	if err := v.readNotes(); err != nil {
		return err
	}
	if err := v.readJournal(); err != nil {
		return err
	}
	v.openInputs()
	if err := v.ctx.Err(); err != nil {
		return err
	}
	if v.job != nil {
		var err error
		if v.stale, err = resume.StaleParts(v.job, v.notes, v.out, v.place); err != nil {
			return err
		}
	}
	present := map[int]bool{}
	for _, part := range v.out.Parts {
		if v.job != nil && !part.Belongs(v.parts, v.format) {
			v.report.problem(part.Name, "it is no part of this job",
				setting.Textf("remove it: readers of the folder would take it for one"))
			continue
		}
		if err := v.part(part); err != nil {
			return err
		}
		present[part.Number] = true
	}
	if v.job == nil {
		return nil
	}
	if err := v.missing(present); err != nil {
		return err
	}
	if n := len(v.stale); n > 0 {
		v.report.note(fmt.Sprintf("%s as before the job was changed: the same sample run command writes %s again",
			countedAre(n, "part"), plural.Of(n, "it", "them")))
	}
	return v.meta(len(v.out.Parts) > 0)
}

// readNotes reads what was noted of the parts.
func (v *verifier) readNotes() error {
	if objects, ok := v.place.(*folder.Objects); ok {
		return objects.Notes(func(name string, p folder.PartSummary, err error) {
			if err != nil {
				v.report.problem(name, "it is not the note of a part", runAgain)
				return
			}
			v.notes.Add(p)
		})
	}
	torn, err := jobstate.Parts(v.files, v.work, func(b []byte) {
		if p, err := folder.ParsePartSummary(b); err == nil {
			v.notes.Add(p)
		}
	})
	for _, line := range torn {
		v.report.note(line + " is not whole, as the death of a process leaves it")
	}
	return err
}

// readJournal reads the journals of runs of the whole job and of shards.
func (v *verifier) readJournal() error {
	if v.job == nil || v.key == (journal.Key{}) {
		return nil
	}
	dirs, err := jobstate.Dirs(v.files, v.work)
	if err != nil {
		return err
	}
	for _, dir := range dirs {
		bad := 0
		damages, err := journal.Check(v.files, dir, v.key, func(row int64, b []byte) error {
			var r promptset.Result
			if _, ok := versions.Parse(b); ok && row < v.parts.Rows { // of a completion under way
				return v.ctx.Err()
			}
			if row >= v.parts.Rows || r.UnmarshalBinary(b) != nil {
				bad++
				return nil
			}
			v.journaled[v.parts.Of(row)] = true
			v.report.Journaled++
			return v.ctx.Err()
		})
		if err != nil {
			return err
		}
		for _, d := range damages {
			if d.Torn {
				v.report.note(fmt.Sprintf(
					"%s ends within a record, as the death of a process leaves it; it is generated again",
					v.relative(d.File)))
				continue
			}
			v.report.problem(v.relative(d.File), fmt.Sprintf("%s at byte %d; %s after it cannot be read", d.What,
				d.Offset,
				plural.Count(d.Bytes, "byte")),
				setting.Textf("the same sample run command generates the completions in it again"))
		}
		if bad > 0 {
			v.report.problem(v.relative(dir), fmt.Sprintf("its journal has %s of another job",
				plural.Count(bad, "record")),
				setting.Textf("the same sample run command passes over them"))
		}
	}
	return nil
}

func (v *verifier) relative(name string) string {
	if rel, err := filepath.Rel(v.work, name); err == nil {
		return rel
	}
	return name
}

// openInputs opens the job's inputs, if they can be read and are what they were.
func (v *verifier) openInputs() {
	if v.job == nil || v.ctx.Err() != nil {
		v.report.Inputs = "not compared: the job is not known"
		return
	}
	reader, err := prepare.ReopenInputs(v.ctx, v.job, v.work)
	if err != nil {
		v.report.Inputs = fmt.Sprintf("not compared: %v", err)
		return
	}
	v.report.Inputs = "compared"
	v.reader = reader
}

// part checks a part.
func (v *verifier) part(part folder.Part) error {
	note, noted := v.notes.Last(part.Number)
	changes := 0
	if v.job != nil {
		changes = len(v.job.Changes)
	}
	if before, stale := v.stale[part.Number]; stale {
		note, changes = before, before.Changes
	}
	from, to := v.rowsOf(part.Number, changes)
	due := to - from
	if v.job == nil {
		from, to, due = 0, 0, 1<<62
	}
	var next func() (promptset.WantedRow, bool)
	if v.reader != nil {
		pull, stop := iter.Pull(v.wanted(from, to, changes))
		defer stop()
		next = pull
	}
	check := promptset.NewRowCheck(part.Number, due, next)
	v.bar.Describe(part.Name)
	content, err := v.out.Read(v.ctx, part, func(row *promptset.Completion) error {
		check.Add(row.ID, &row.Result)
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		v.report.note(part.Name + " was removed while it was to be checked")
		return nil
	}
	if err != nil {
		return err
	}
	v.bar.Add(content.Bytes)
	if before, stale := v.stale[part.Number]; stale && before.Sealed() && content.Seal != before.Seal &&
		v.notes.Compare(part, content.Seal) != "" {
		v.report.Later++ // it was written again meanwhile
		return nil
	}
	v.report.read(content, check.Summary)
	what, remedy := v.compare(part, content)
	if what == "" && content.Damage != "" {
		what, remedy = "it can't be read: "+content.Damage, removeAndRun
	}
	if rows := check.Finish(); what == "" && rows != "" {
		what, remedy = rows, removeAndRun
	}
	if v.reader != nil && v.reader.Err() != nil {
		return v.reader.Err()
	}
	if what == "" && noted {
		if what = check.Differs(note); what != "" {
			remedy = removeAndRun
		}
	}
	if _, stale := v.stale[part.Number]; what == "" && !stale {
		v.report.Whole++
	}
	if what == "" {
		return nil
	}
	v.report.problem(part.Name, what, remedy)
	return nil
}

// Remedies of a damaged part: a run looks at sizes and ends of parts, and not at what is within.
var (
	bringBack    = setting.Textf("bring job.json back, or give the run `new` to start over")
	runAgain     = setting.Textf("the same sample run command generates it again")
	removeAndRun = setting.Textf("remove it: the same sample run command then generates it again")
)

// compare compares a part as a whole with what was noted of it, and its footer with the job.
func (v *verifier) compare(part folder.Part, c promptset.PartContent) (what string, remedy setting.Text) {
	unlike := v.notes.Compare(part, c.Seal)
	switch {
	case !v.notes.CanCheck(part.Number):
		v.report.unchecked++
	case unlike != "":
		return unlike, runAgain
	case !v.notes.HasDigest(part.Number, c.SHA256):
		return "its SHA-256 is not that of what was written", removeAndRun
	}
	if _, stale := v.stale[part.Number]; !stale && v.job != nil && c.Meta != nil && !sameMeta(c.Meta, v.job.Meta) {
		return "the metadata in its footer are not the job's", removeAndRun
	}
	return "", setting.Text{}
}

// rowsOf are the rows of a part that was written after so many changes of the job.
func (v *verifier) rowsOf(part, changes int) (from, to int64) {
	parts := v.parts
	if v.job != nil {
		parts.Rows = v.job.NumberAt(changes, "rows")
	}
	return parts.Range(part)
}

// wanted is what the output is to have of rows of the input.
func (v *verifier) wanted(from, to int64, changes int) iter.Seq[promptset.WantedRow] {
	n, accept := v.job.NumberAt(changes, "n"), spec.AcceptOf(v.job)
	return func(yield func(promptset.WantedRow) bool) {
		for row := range v.reader.Range(v.ctx, from, to) {
			set := row.Overrides.Over(parameter.Set{N: int(n)})
			wanted := promptset.WantedRow{Row: row, First: set.Generation, N: set.N * (1 + len(row.More))}
			if accept.Stops() {
				rule := verdict.NewRule(&accept, wanted.N)
				wanted.Ended = func(results []promptset.Result) bool { return rule.Decided(results) == len(results) }
			}
			if !yield(wanted) {
				return
			}
		}
	}
}

// missing names the missing parts: parts of an unfinished job, and parts that were there before.
func (v *verifier) missing(present map[int]bool) error {
	v.report.Parts = v.parts.Count()
	v.report.Missing = []string{}
	for _, number := range v.parts.All() {
		name := v.parts.Name(number, v.format)
		if _, stale := v.stale[number]; stale {
			v.report.Missing = append(v.report.Missing, name)
			continue
		}
		if present[number] {
			continue
		}
		// Noted, and neither there nor in the journal: a note is made just before its part is there, and the journal
		// kept until it is.
		if note, ok := v.notes.Last(number); ok && !v.journaled[number] {
			file, err := v.out.Open(name)
			if err == nil { // it came meanwhile
				v.report.Later++
				file.Close()
				continue
			}
			if !errors.Is(err, fs.ErrNotExist) {
				return err
			}
			rows := plural.Count(note.Rows, "row")
			// another machine notes a part before it has put it there, and has the journal
			if storage.IsRemote(v.output) {
				v.report.note(fmt.Sprintf(
					"%s is noted with %s and is not there: a machine puts it there now, or it was removed", name, rows))
			} else {
				v.report.problem(name, "it is missing, and was written with "+rows, runAgain)
			}
		}
		v.report.Missing = append(v.report.Missing, name)
	}
	return nil
}

// meta checks the file with the metadata of JSONL parts.
func (v *verifier) meta(parts bool) error {
	if !folder.HasMetaFile(v.format) || !parts || len(v.job.Meta) == 0 {
		return nil
	}
	what, err := folder.MetaDamage(v.place, v.job.Meta)
	if what != "" {
		v.report.problem(folder.MetaName, "it "+what, setting.Textf("the same sample run command writes it again"))
	}
	return err
}
