package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/promptset/completion"
)

// checkStreams checks what [Standard] is, and what may come with it.
func (s *Spec) checkStreams() error {
	in := s.readsStandard()
	switch {
	case in && len(s.Inputs) > 1:
		return wrong("input", "is - and more: standard input is the only input, or none")
	case s.Output != Standard:
		return nil
	case s.PartRows != 0:
		return wrong("part-rows", forFolders)
	case s.KeepPartitions:
		return wrong(keepField, forFolders)
	case s.Format == promptset.FormatParquet:
		return wrong("format", "is parquet, and `output` is -, which takes lines: give `format` jsonl")
	case in && s.Format == promptset.FormatOpenAI:
		return wrong("format", "is openai, and `input` is -: the lines of a batch file are compared with one another "+
			"first, so give a file")
	}
	return nil
}

// forFolders is what is wrong with a setting beside the output Standard.
const forFolders = "is for output folders, and `output` is -: leave one of the two out"

// validateStream refuses options that need an output folder.
func (t *Task) validateStream() error {
	for _, o := range []struct {
		given bool
		name  string
	}{{t.New, "new"}, {t.Extend, "extend"}, {t.RetryErrors, "retry-errors"}, {t.WorkDir != "", "work-dir"},
		{!t.Shard.Whole(), "shard"}, {t.several(), "num-processes"}, {t.SavePrefix != "", "save-prefix"},
		{t.DumpTables != nil && t.DumpTables.Folder == "", "dump-tables"}} {
		if o.given {
			return wrong(o.name, forFolders)
		}
	}
	return nil
}

// streamed are the rows of a job whose output is Standard.
type streamed struct {
	job    *openedJob
	total  int64             // rows; -1 where it is not known
	schema *promptset.Schema // nil where it is not known
	rows   func(ctx context.Context) iter.Seq[*promptset.Row]
	await  func(ctx context.Context) bool
	err    interface{ Err() error }
}

// stream is the source of a job whose output is Standard.
type stream struct {
	single
	writer *promptset.LineWriter
}

// runStream is Run for the output Standard. Nothing is kept but what was written.
func (t *Task) runStream(ctx context.Context, started time.Time) (*Report, error) {
	if err := t.Models.Lacks(t.Engine.Backend); err != nil {
		return nil, err
	}
	in, err := t.openStream(ctx)
	if err != nil {
		return nil, err
	}
	r := newRunner(t, in.job)
	defer r.release()
	one := &stream{single: single{runner: r}}
	r.source = one
	if err := r.open(ctx); err != nil {
		return nil, err
	}
	plan := r.session.Plan()
	t.sayPlan(plan)
	t.Observer.started(plan, max(0, in.total), 0)
	if err := one.begin(ctx, in); err != nil {
		return nil, err
	}
	r.begin(one.unit)
	t.Progress.Start(in.total)
	return one.finish(ctx, started, r.draw(ctx))
}

// openStream opens the input: files, or standard input, of which nothing is read yet.
func (t *Task) openStream(ctx context.Context) (*streamed, error) {
	if !t.readsStandard() {
		return t.openFilesAsStream(ctx)
	}
	if err := t.readMapping(); err != nil {
		return nil, err
	}
	model, err := t.Models.Identify(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := t.needTemplate(model); err != nil {
		return nil, err
	}
	if err := t.takeGeneration(model.Generation); err != nil {
		return nil, err
	}
	if err := t.checkOwn(ctx); err != nil {
		return nil, err
	}
	t.sayDefaults()
	raw := t.hasTemplate(model) && cmp.Or(t.PromptAs, PromptAuto) == PromptAuto
	lines, whole := promptset.NewLines(promptset.StandardInput, t.Input, t.mapping), false
	columns := t.columnsOf(nil)
	return &streamed{job: &openedJob{fingerprint: model.Fingerprint, dtype: model.DType}, total: -1, err: lines,
		await: func(ctx context.Context) bool { return whole || lines.Await(ctx) },
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] {
			return func(yield func(*promptset.Row) bool) {
				n := int64(0)
				for row := range lines.Rows(ctx) {
					t.judgeStreamed(row, columns)
					if raw && row.Kind == promptset.KindText {
						t.tell(rawPrompts)
						raw = false
					}
					n++
					if whole = n == t.Limit; whole {
						t.endInput()
					}
					if !yield(row) || whole {
						return
					}
				}
			}
		}}, nil
}

// judgeStreamed refuses what a row can ask for only where all rows are known.
func (t *Task) judgeStreamed(row *promptset.Row, columns []string) {
	if row.Err != nil {
		return
	}
	if row.Parent.ID != "" {
		row.Err = row.Error("it has a parent, and rows of standard input do not wait for one another: give a file, " +
			"and an output folder")
		return
	}
	set := row.Overrides.Over(t.Sampling)
	for c := range completion.Columns() {
		if c.AskedBy != nil && c.AskedBy(&set) && !slices.Contains(columns, c.Name) {
			row.Err = row.Error(fmt.Sprintf("%s asks for the column %s, and the columns of a stream are those that "+
				"flags ask for: give `columns` %s", c.Parameter, c.Name, c.Name))
			return
		}
	}
}

// openFilesAsStream opens files.
func (t *Task) openFilesAsStream(ctx context.Context) (*streamed, error) {
	job, err := t.openJob(ctx)
	if err != nil {
		return nil, err
	}
	kin, err := job.lineage(ctx)
	if err != nil {
		return nil, err
	}
	if kin != nil {
		return nil, endWith(Misused, "rows have a parent, and `output` is -, where rows do not wait for one another: "+
			"give `output` FOLDER")
	}
	warnOfInput(ctx, t, job)
	return &streamed{job: job, total: job.parts.Rows, schema: job.reader.Schema(), err: job.reader,
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] { return job.reader.Range(ctx, 0, job.parts.Rows) },
	}, nil
}

// begin makes the unit.
func (s *stream) begin(ctx context.Context, in *streamed) (err error) {
	t := s.task
	if t.Rows == nil {
		return errors.New("`output` is -, and Options.Rows is nil")
	}
	columns := t.columnsOf(in.schema)
	if s.writer, err = promptset.NewLineWriter(t.Rows, promptset.WriterOptions{Format: t.Format, Schema: in.schema,
		Columns: columns, JSONType: t.jsonType(), Exclude: t.Exclude, Meta: t.footer(s.session),
		TokenText: s.session.TokenText, Status: statusOf}, t.InOrder); err != nil {
		return err
	}
	u := &unit{task: t, reader: in.err, builder: s.builder, await: in.await,
		out: newCollector(s.writer, nothingKept{}, rowsInFlight)}
	u.out.observer, u.out.format, u.out.columns = t.Observer, t.Format, columns
	if u.out.apart, err = t.apart(s.session, in.schema); err != nil {
		return err
	}
	u.next, u.stop = iter.Pull(in.rows(ctx))
	s.unit = u
	return nil
}

// nothingKept stands for a journal.
type nothingKept struct{}

func (nothingKept) Append(int64, []byte) error { return nil }

// finish says what the run came to, whose error is runErr.
func (s *stream) finish(ctx context.Context, started time.Time, runErr error) (*Report, error) {
	t, u := s.task, s.unit
	u.stop()
	done, drawn, _ := u.out.counts()
	t.Progress.Finish(done, drawn)
	interrupted := ctx.Err() != nil
	report := s.report(u, started, interrupted)
	written := s.writer.Rows()
	left := fmt.Sprintf("%s written; a job with `output` - keeps nothing and cannot be resumed",
		plural.Count(written, "row")+plural.Of(written, " was", " were"))
	switch {
	case interrupted:
		return report, endWith(Interrupted, "interrupted: %s", left)
	case runErr != nil:
		return report, fmt.Errorf("%w (%s)", runErr, left)
	case report.RowsWithErrors > 0:
		return report, endWith(Partial, "%d of %s", report.RowsWithErrors, plural.Count(report.Rows, "row")+
			plural.Of(report.RowsWithErrors, " carries an error", " carry errors"))
	}
	return report, nil
}
