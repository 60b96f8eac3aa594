package generate

import (
	"context"
	"fmt"
	"io"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"sync"

	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/results"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/vfs"
)

// Audited is what came of generating random rows of an output again.
type Audited struct {
	Output  string   `json:"output"`
	Rows    int64    `json:"rows"`    // of published parts
	Audited int64    `json:"audited"` // of these, rows that were generated again
	Without int64    `json:"without"` // chosen rows that were not: with errors, or without keys or parents
	Differ  []string `json:"differ"`  // ids of audited rows that are not the same
	// Missing counts the chosen rows that were not audited because a version of their weights is not there any more.
	Missing map[string]int64 `json:"missing,omitempty"`
	// Confidence is how sure it is that fewer than one in a hundred rows differ, if none of the audited ones does.
	Confidence float64 `json:"confidence"`
}

// Audit generates random rows of a job's published parts again and compares them with the parts. It changes nothing.
func Audit(ctx context.Context, p *process.Process, opened *prepare.Opened, rows int64, seed uint64) (*Audited, error) {
	if err := checkVersions(opened.Job, opened.Reader.Schema()); err != nil {
		return nil, err
	}
	reads := *p
	if storage.IsRemote(opened.Job.Output) { // what the job's own machine keeps of it is not needed, and stays as it is
		work, err := os.MkdirTemp("", "quire-audit-")
		if err != nil {
			return nil, fmt.Errorf("cannot make a folder for the audit: %w", err)
		}
		defer os.RemoveAll(work)
		reads.WorkDir = work
	} else {
		reads.FS = vfs.ReadOnly(p.FS)
	}
	saved, err := resume.Open(ctx, &reads, opened)
	if err != nil {
		return nil, err
	}
	defer saved.Close()
	if saved.State.Job() == nil {
		return nil, fmt.Errorf("%s holds no job", storage.Redact(opened.Job.Output))
	}
	g := NewGenerator(&reads, saved.Job, opened)
	g.equals.Messages = io.Discard
	g.record = newRecord()
	defer g.Close()
	if err := g.open(ctx); err != nil {
		return nil, err
	}
	arithmetic, err := saved.Arithmetic(g.Session.Device)
	if err == nil {
		err = saved.CheckArithmetic(arithmetic)
	}
	if err != nil {
		return nil, err
	}
	a := &auditor{excluded: saved.Job.ExcludedColumns(), want: map[int64][]completion.Result{},
		Audited: Audited{Output: storage.Redact(opened.Job.Output), Differ: []string{}}}
	u, err := auditUnit(ctx, g, a)
	if err != nil {
		return nil, err
	}
	if u.ancestry, err = openAncestry(ctx, g, saved); err != nil {
		return nil, err
	}
	chosen := a.choose(saved, rows, seed)
	if g.watcher != nil {
		if err := a.auditVersions(ctx, g, u, saved, chosen); err != nil {
			return nil, err
		}
		return a.conclude(), nil
	}
	switch {
	case g.Job.Encodes():
		a.columns, a.answers = u.Out.results.Columns, g.Job.Format == promptset.FormatOpenAI
		err = a.readEncoded(ctx, saved, chosen)
	case g.Job.Accept.Judges() || g.Job.Tools.Used() || u.ancestry != nil:
		err = a.readRecord(ctx, g, u, saved, chosen)
	default:
		err = a.readWanted(ctx, u, saved, chosen)
	}
	if err != nil {
		return nil, err
	}
	chosen = slices.DeleteFunc(chosen, func(row int64) bool { return a.want[row] == nil })
	u.Rows = newRowQueue(rowsAt(ctx, opened.Reader, chosen), nil)
	g.Active.Track(u)
	err = g.Generate(ctx, emptySource{})
	u.StopReading()
	u.EndCollecting()
	if err != nil {
		return nil, err
	}
	a.Audited.Audited += int64(len(chosen))
	return a.conclude(), ctx.Err()
}

// conclude returns what came of the audit.
func (a *auditor) conclude() *Audited {
	if a.Confidence = 1; a.Audited.Audited < max(1, a.Rows) {
		a.Confidence = 1 - math.Pow(0.99, float64(a.Audited.Audited))
	}
	return &a.Audited
}

// rowsAt yields single rows of an input.
func rowsAt(ctx context.Context, reader *promptset.Reader, chosen []int64) iter.Seq[*promptset.Row] {
	return func(yield func(*promptset.Row) bool) {
		for _, index := range chosen {
			for row := range reader.Range(ctx, index, index+1) {
				if !yield(row) {
					return
				}
			}
		}
	}
}

// auditor compares completions that were generated again with an output.
type auditor struct {
	Audited
	excluded []string
	columns  []string // on request, of an encoder's task
	answers  bool     // the output has answers to batch files, of an encoder's task
	mu       sync.Mutex
	want     map[int64][]completion.Result
}

// auditUnit makes the unit whose rows are audited.
func auditUnit(ctx context.Context, g *Generator, a *auditor) (*Unit, error) {
	j, schema := g.Job, g.Opened.Reader.Schema()
	how := collecting{inFlight: rowsInFlight, format: j.Format, observer: g.Process.Observer, room: bytesRepeated}
	var err error
	if how.results, err = results.NewMaker(g.Process, j, g.Session, schema, j.ColumnsOf(schema)); err != nil {
		return nil, err
	}
	u := &Unit{process: g.Process, reader: g.Opened.Reader, builder: g.builder,
		Listener: &onlyUnit{progress: g.Process.Progress, active: &g.Active}}
	if how.judging, err = g.judgeUnit(ctx, u); err != nil {
		return nil, err
	}
	if how.conversing, err = converseUnit(ctx, g, u, nil); err != nil {
		return nil, err
	}
	u.Out = newCollector(a, discardJournal{}, how)
	u.Out.repeats.judge = &g.equals
	return u, nil
}

// choose returns some rows of the published parts, in order. Parts that are damaged count as published.
func (a *auditor) choose(saved *resume.Saved, rows int64, seed uint64) (chosen []int64) {
	var all []int64
	for _, part := range saved.Parts.All() {
		damaged := slices.ContainsFunc(saved.Damaged, func(d folder.Damage) bool { return d.Part.Number == part })
		if damaged || !slices.Contains(saved.Missing, part) {
			from, to := saved.Parts.Range(part)
			for row := from; row < to; row++ {
				all = append(all, row)
			}
		}
	}
	a.Rows = int64(len(all))
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range min(rows, a.Rows) { // the first ones of a shuffle
		j := i + random.Int64N(a.Rows-i)
		all[i], all[j] = all[j], all[i]
		chosen = append(chosen, all[i])
	}
	slices.Sort(chosen)
	return chosen
}

// readWanted reads what the output has of rows. Rows without keys are not audited; rows whose completions are not what
// was noted differ.
func (a *auditor) readWanted(ctx context.Context, u *Unit, saved *resume.Saved, chosen []int64) error {
	w := reuse.Writing{FS: saved.FS, Output: saved.Job.Output, Basis: reuse.BasisOf(saved.State.Job()),
		Excluded: a.excluded}
	u.reuse = &reusing{namer: reuse.NewNamer(w.Basis, u.builder.MaxModelLen(), u.Out.results.Columns,
		saved.Job.Forms())}
	own := reuse.Own(ctx, w, func(string, ...any) {})
	defer own.Close()
	if err := own.AddAll(func(int) bool { return true }); err != nil {
		return err
	}
	for row := range rowsAt(ctx, u.reader.(*promptset.Reader), chosen) {
		p := &pendingRow{row: row}
		var err error
		if p.requests, err = u.builder.Requests(row, nil); err != nil {
			a.Without++
			continue
		}
		u.name(p, false)
		var all []completion.Result
		noted, there := true, true
		for i := range p.names {
			var generations []int
			for g := range p.names[i].N {
				generations = append(generations, p.names[i].First+g)
			}
			noted = noted && len(own.Lacks(p.names[i].Keys, generations)) == 0
			results := own.Find(ctx, p.names[i].Keys, generations)
			there = there && len(results) == len(generations)
			for _, r := range results {
				u.Out.results.Dress(&r, row, p.requests[i], p.names[i].Extras)
				all = append(all, r)
			}
		}
		switch {
		case !noted:
			a.Without++
		case !there:
			a.Differ = append(a.Differ, row.ID)
			a.Audited.Audited++
		default:
			a.want[row.Index] = all
		}
	}
	return saved.Opened.Reader.Err()
}

// Add compares the completions of a row.
func (a *auditor) Add(row *promptset.Row, results []completion.Result) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	want := a.want[row.Index]
	switch {
	case a.answers && len(want) > 0:
		ranked := want[0].Ranking != nil
		results = asAnswered(results, completion.PromptTokens(row, results), ranked)
		want = asAnswered(want, want[0].PromptTokens, ranked)
	case len(want) > 0 && want[0].FinishReason == "": // of an encoder's task
		results, want = a.asEncoded(results), a.asEncoded(want)
	}
	if !reuse.Same(results, want, a.excluded) {
		a.Differ = append(a.Differ, row.ID)
	}
	return nil
}

func (a *auditor) Pending() (int, int64) { return 0, 0 }
