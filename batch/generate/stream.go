package generate

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	"github.com/quire/quire/batch/journal"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/versions"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/internal/plural"
)

// streamed are the rows of a job whose output is Standard.
type streamed struct {
	opened *prepare.Opened
	total  int64             // rows; -1 if it is not known
	schema *promptset.Schema // nil if it is not known
	rows   func(ctx context.Context) iter.Seq[*promptset.Row]
	await  func(ctx context.Context) bool
	err    interface{ Err() error }
}

// Stream is Run for the output Standard. Nothing is kept but what was written.
func Stream(ctx context.Context, p *process.Process, j *spec.Job, started time.Time) (*Report, error) {
	if err := p.Models.Lacks(j.Engine.Backend); err != nil {
		return nil, err
	}
	in, err := openStream(ctx, p, j)
	if err != nil {
		return nil, err
	}
	g := NewGenerator(p, in.opened.Job, in.opened)
	defer g.Close()
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	plan := g.Session.Plan()
	p.ReportPlan(plan)
	p.Observer.Started(plan, max(0, in.total), 0)
	u, writer, err := g.beginStream(ctx, in)
	if err != nil {
		return nil, err
	}
	g.Active.Track(u)
	p.Progress.Start(in.total)
	return g.finishStream(ctx, u, writer, started, g.Generate(ctx, emptySource{}))
}

// openStream opens the input: files, or standard input, without reading from it yet.
func openStream(ctx context.Context, p *process.Process, j *spec.Job) (*streamed, error) {
	if !j.ReadsStandard() {
		return openFilesAsStream(ctx, p, j)
	}
	j, err := j.WithMapping()
	if err != nil {
		return nil, err
	}
	model, err := p.Models.Identify(ctx, j, p)
	if err != nil {
		return nil, err
	}
	if j, err = prepare.WithModel(ctx, j, p, model); err != nil {
		return nil, err
	}
	raw := !j.Encodes() && j.HasTemplate(model.Template) && cmp.Or(j.PromptAs, spec.PromptAuto) == spec.PromptAuto
	lines, whole := promptset.NewLines(promptset.StandardInput, p.Input, j.Mapping), false
	columns := j.ColumnsOf(nil)
	return &streamed{opened: &prepare.Opened{Job: j, Model: model}, total: -1, err: lines,
		await: func(ctx context.Context) bool { return whole || lines.Await(ctx) },
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] {
			return func(yield func(*promptset.Row) bool) {
				n := int64(0)
				for row := range lines.Rows(ctx) {
					judgeStreamed(j, row, columns)
					if raw && row.Kind == promptset.KindText {
						p.Printf(prepare.RawPromptWarning)
						raw = false
					}
					n++
					if whole = n == j.Limit; whole {
						prepare.EndInput(p)
					}
					if !yield(row) || whole {
						return
					}
				}
			}
		}}, nil
}

// judgeStreamed refuses what a row can ask for only if all rows are known.
func judgeStreamed(j *spec.Job, row *promptset.Row, columns []string) {
	if row.Err != nil {
		return
	}
	if row.Parent.ID != "" {
		row.Err = row.Error("it has a parent, and rows of standard input do not wait for one another: give a file, " +
			"and an output folder")
		return
	}
	set := row.Overrides.Over(j.Sampling)
	for c := range j.Task.Columns() {
		if c.AskedBy != nil && c.AskedBy(&set) && !slices.Contains(columns, c.Name) {
			err := setting.Errorf("%s asks for the column %s, and the columns of a stream are those that "+
				"flags ask for: give `columns` %s", c.Parameter, c.Name, c.Name)
			row.Err = row.Wrong(err)
			return
		}
	}
}

// openFilesAsStream opens files.
func openFilesAsStream(ctx context.Context, p *process.Process, j *spec.Job) (*streamed, error) {
	opened, err := prepare.Open(ctx, p, j)
	if err != nil {
		return nil, err
	}
	graph, err := opened.Lineage(ctx)
	if err != nil {
		return nil, err
	}
	if graph != nil {
		return nil, outcome.Errorf(outcome.Misused,
			"rows have a parent, and `output` is -, where rows do not wait for one another: "+
				"give `output` FOLDER")
	}
	prepare.WarnAboutInput(ctx, p, opened)
	return &streamed{opened: opened, total: opened.Parts.Rows, schema: opened.Reader.Schema(), err: opened.Reader,
		rows: func(ctx context.Context) iter.Seq[*promptset.Row] {
			return opened.Reader.Range(ctx, 0, opened.Parts.Rows)
		},
	}, nil
}

// beginStream makes the unit, and what its rows are written to.
func (g *Generator) beginStream(ctx context.Context, in *streamed) (*Unit, *promptset.LineWriter, error) {
	p, j := g.Process, g.Job
	if p.Rows == nil {
		return nil, nil, setting.Errorf("`output` is -, and Options.Rows is nil")
	}
	shape := j.ShapeOf(in.schema)
	writer, err := promptset.NewLineWriter(p.Rows, promptset.WriterOptions{Format: j.Format, Schema: in.schema,
		Shape: shape, Meta: j.Footer(p.Version, g.Session.Model,
			g.Session.Fingerprint),
		TokenText: g.Session.TokenText}, p.InOrder)
	if err != nil {
		return nil, nil, err
	}
	how := collecting{inFlight: rowsInFlight, format: j.Format, observer: p.Observer, room: bytesRepeated}
	if how.results, err = results.NewMaker(p, j, g.Session, in.schema, shape.Requested); err != nil {
		return nil, nil, err
	}
	if g.watcher != nil {
		how.results.Versions, how.underWay = completion.Versions{}, versions.NewLog()
	}
	u := &Unit{process: p, reader: in.err, builder: g.builder, Rows: newRowQueue(in.rows(ctx), nil),
		Listener: &onlyUnit{progress: p.Progress, active: &g.Active}}
	if how.judging, err = g.judgeUnit(ctx, u); err != nil {
		return nil, nil, err
	}
	if how.conversing, err = converseUnit(ctx, g, u, nil); err != nil {
		return nil, nil, err
	}
	u.Out = newCollector(writer, discardJournal{}, how)
	u.reuse = &reusing{namer: reuse.NewNamer(reuse.Basis{}, g.Session.Plan().MaxModelLen, shape.Requested,
		j.Forms())}
	u.Out.repeats.judge = &g.equals
	u.Rows.await = in.await
	return u, writer, nil
}

// discardJournal stands for a journal.
type discardJournal struct{}

func (discardJournal) Put(int64, []byte) (journal.Position, error) { return journal.Position{}, nil }

// finishStream reports what the run came to, whose error is runErr.
func (g *Generator) finishStream(ctx context.Context, u *Unit, writer *promptset.LineWriter, started time.Time,
	runErr error) (*Report, error) {
	runErr = u.nameRows(runErr)
	u.StopReading()
	u.EndCollecting()
	done, drawn, _ := u.Out.Counts()
	copied, _ := u.Out.Copied()
	g.Process.Progress.Finish(done, drawn, copied)
	interrupted := ctx.Err() != nil
	report := g.report(u, started, interrupted)
	written := writer.Rows()
	left := setting.Textf("%s written; a job with `output` - keeps nothing and cannot be resumed",
		plural.Count(written, "row")+plural.Of(written, " was", " were"))
	switch {
	case interrupted:
		return report, outcome.Errorf(outcome.Interrupted, "interrupted: %s", left)
	case runErr != nil:
		return report, setting.Errorf("%w (%s)", runErr, left)
	case report.RowsWithErrors > 0:
		return report, outcome.Errorf(outcome.Partial, "%d of %s", report.RowsWithErrors, plural.Count(report.Rows,
			"row")+
			plural.Of(report.RowsWithErrors, " carries an error", " carry errors"))
	}
	return report, nil
}
