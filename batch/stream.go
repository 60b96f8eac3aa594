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

// forFolders is what is wrong with a setting beside the output Standard.
const forFolders = "is for output folders, and `output` is -: leave one of the two out"

// streamed are the rows of a job whose output is Standard.
type streamed struct {
	opened *Opened
	total  int64             // rows; -1 where it is not known
	schema *promptset.Schema // nil where it is not known
	rows   func(ctx context.Context) iter.Seq[*promptset.Row]
	await  func(ctx context.Context) bool
	err    interface{ Err() error }
}

// runStream is Run for the output Standard. Nothing is kept but what was written.
func runStream(ctx context.Context, p *Process, j *Job, started time.Time) (*Report, error) {
	if err := p.Models.Lacks(j.Engine.Backend); err != nil {
		return nil, err
	}
	in, err := openStream(ctx, p, j)
	if err != nil {
		return nil, err
	}
	g := newGenerator(p, in.opened.job, in.opened)
	defer g.release()
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	plan := g.session.Plan()
	p.sayPlan(plan)
	p.Observer.started(plan, max(0, in.total), 0)
	u, writer, err := g.beginStream(ctx, in)
	if err != nil {
		return nil, err
	}
	g.flight.begin(u)
	p.Progress.Start(in.total)
	return g.finishStream(ctx, u, writer, started, g.generate(ctx, noMore{}))
}

// openStream opens the input: files, or standard input, of which nothing is read yet.
func openStream(ctx context.Context, p *Process, j *Job) (*streamed, error) {
	if !j.readsStandard() {
		return openFilesAsStream(ctx, p, j)
	}
	j, err := j.withMapping()
	if err != nil {
		return nil, err
	}
	model, err := p.Models.Identify(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if j, err = j.withModel(ctx, p, model); err != nil {
		return nil, err
	}
	raw := j.hasTemplate(model.Template) && cmp.Or(j.PromptAs, PromptAuto) == PromptAuto
	lines, whole := promptset.NewLines(promptset.StandardInput, p.Input, j.mapping), false
	columns := j.columnsOf(nil)
	return &streamed{opened: &Opened{job: j, model: model}, total: -1, err: lines,
		await: func(ctx context.Context) bool { return whole || lines.Await(ctx) },
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] {
			return func(yield func(*promptset.Row) bool) {
				n := int64(0)
				for row := range lines.Rows(ctx) {
					judgeStreamed(j, row, columns)
					if raw && row.Kind == promptset.KindText {
						p.tell(rawPrompts)
						raw = false
					}
					n++
					if whole = n == j.Limit; whole {
						p.endInput()
					}
					if !yield(row) || whole {
						return
					}
				}
			}
		}}, nil
}

// judgeStreamed refuses what a row can ask for only where all rows are known.
func judgeStreamed(j *Job, row *promptset.Row, columns []string) {
	if row.Err != nil {
		return
	}
	if row.Parent.ID != "" {
		row.Err = row.Error("it has a parent, and rows of standard input do not wait for one another: give a file, " +
			"and an output folder")
		return
	}
	set := row.Overrides.Over(j.Sampling)
	for c := range completion.Columns() {
		if c.AskedBy != nil && c.AskedBy(&set) && !slices.Contains(columns, c.Name) {
			row.Err = row.Error(fmt.Sprintf("%s asks for the column %s, and the columns of a stream are those that "+
				"flags ask for: give `columns` %s", c.Parameter, c.Name, c.Name))
			return
		}
	}
}

// openFilesAsStream opens files.
func openFilesAsStream(ctx context.Context, p *Process, j *Job) (*streamed, error) {
	opened, err := open(ctx, p, j)
	if err != nil {
		return nil, err
	}
	graph, err := opened.lineage(ctx)
	if err != nil {
		return nil, err
	}
	if graph != nil {
		return nil, endWith(Misused, "rows have a parent, and `output` is -, where rows do not wait for one another: "+
			"give `output` FOLDER")
	}
	warnOfInput(ctx, p, opened)
	return &streamed{opened: opened, total: opened.parts.Rows, schema: opened.reader.Schema(), err: opened.reader,
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] {
			return opened.reader.Range(ctx, 0, opened.parts.Rows)
		},
	}, nil
}

// beginStream makes the unit, and what its rows are written to.
func (g *generator) beginStream(ctx context.Context, in *streamed) (*unit, *promptset.LineWriter, error) {
	p, j := g.process, g.job
	if p.Rows == nil {
		return nil, nil, errors.New("`output` is -, and Options.Rows is nil")
	}
	columns := j.columnsOf(in.schema)
	writer, err := promptset.NewLineWriter(p.Rows, promptset.WriterOptions{Format: j.Format, Schema: in.schema,
		Columns: columns, JSONType: j.jsonType(), Exclude: j.Exclude, Meta: j.footer(p.Version, g.session.Model, g.session.Fingerprint),
		TokenText: g.session.TokenText, Status: statusOf}, p.InOrder)
	if err != nil {
		return nil, nil, err
	}
	how := collecting{inFlight: rowsInFlight, format: j.Format, columns: columns, observer: p.Observer}
	if how.apart, err = newApart(p, j, g.session, in.schema); err != nil {
		return nil, nil, err
	}
	u := &unit{process: p, reader: in.err, builder: g.builder, out: newCollector(writer, nothingKept{}, how),
		rows: newRowQueue(in.rows(ctx), nil), listener: &onlyUnit{progress: p.Progress, flight: &g.flight}}
	u.rows.await = in.await
	return u, writer, nil
}

// nothingKept stands for a journal.
type nothingKept struct{}

func (nothingKept) Append(int64, []byte) error { return nil }

// finishStream says what the run came to, whose error is runErr.
func (g *generator) finishStream(ctx context.Context, u *unit, writer *promptset.LineWriter, started time.Time,
	runErr error) (*Report, error) {
	runErr = u.namesRows(runErr)
	u.rows.stop()
	done, drawn, _ := u.out.counts()
	g.process.Progress.Finish(done, drawn)
	interrupted := ctx.Err() != nil
	report := g.report(u, started, interrupted)
	written := writer.Rows()
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
