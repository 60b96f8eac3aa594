package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/testenv"
)

// figuresRows is the rows of jobs whose figures are added up: of seven one is refused by the engine, one has no prompt.
const figuresRows = 700

func newFiguresJob(t *testing.T, extra ...string) *crashJob {
	t.Helper()
	j := newCrashJob(t, extra...)
	j.args = append(j.args, "--report", "report.json")
	var rows strings.Builder
	for i := range figuresRows {
		switch i % 7 {
		case 2:
			fmt.Fprintf(&rows, "{\"topic\":\"no prompt in row %d\"}\n", i)
		case 5:
			fmt.Fprintf(&rows, "{\"prompt\":\"%s\"}\n", strings.Repeat("long ", fakeLen/4))
		default:
			fmt.Fprintf(&rows, "{\"prompt\":\"row %d\",\"n\":%d,\"max_tokens\":%d}\n", i, 1+i%4, 10+i%30)
		}
	}
	if err := os.WriteFile(filepath.Join(j.dir, "in.jsonl"), []byte(rows.String()), 0o666); err != nil {
		t.Fatal(err)
	}
	return j
}

// ended is how a run ended.
type ended struct {
	report generate.Report // of a run that was not killed
	stdout string
	code   int
}

// end runs the job, with more arguments, until more completions were generated, and then sends the signal; 0 lets it
// end.
func (j *crashJob) end(t *testing.T, signal os.Signal, more int, env []string, extra ...string) (e ended) {
	t.Helper()
	cmd := j.command(t, "out", 100*time.Microsecond)
	cmd.Args = append(cmd.Args, extra...)
	cmd.Env = append(cmd.Env, env...)
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	path := filepath.Join(j.dir, "report.json")
	_ = os.Remove(path)
	until := j.drawn() + more
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	var err error
	for over := false; !over; {
		select {
		case err = <-done:
			over = true
		case <-time.After(time.Millisecond):
			if signal != nil && j.drawn() >= until {
				_ = cmd.Process.Signal(signal)
				signal = nil
			}
		}
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	e.stdout, e.code = stdout.String(), cmd.ProcessState.ExitCode()
	if e.code < 0 { // killed
		return e
	}
	if e.code != cli.ExitPartial && e.code != cli.ExitInterrupted && e.code != 0 {
		t.Fatalf("exit code %d: %s", e.code, stderr.String())
	}
	text, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(text, &e.report)
	}
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// addUp checks what holds of the figures of any run.
func (e ended) addUp(t *testing.T, rows int64) {
	t.Helper()
	r := e.report
	if err := r.Check(); err != nil {
		t.Error(err)
	}
	if r.Rows != r.RowsBefore+r.RowsHere {
		t.Errorf("%d rows are %d of earlier runs and %d of this one", r.Rows, r.RowsBefore, r.RowsHere)
	}
	if r.Rows+r.RowsUnfinished != rows || r.RowsInPart > r.RowsUnfinished {
		t.Errorf("%d rows are finished, %d not, %d of these in part; there are %d", r.Rows, r.RowsUnfinished,
			r.RowsInPart, rows)
	}
	if r.FinishReasons.Unknown != 0 {
		t.Errorf("reasons are not known: %+v", r.Counts)
	}
	want := fmt.Sprintf("%d (%s)", r.Completions, r.FinishReasons)
	if !strings.Contains(e.stdout, want) {
		t.Errorf("the table lacks %q: %s", want, e.stdout)
	}
}

// written counts what the output has.
func (j *crashJob) written(t *testing.T) (c tally.Counts) {
	t.Helper()
	out, err := promptset.OpenOutput(folder.OpenLocal(vfs.OS, filepath.Join(j.dir, "out")))
	if err != nil {
		t.Fatal(err)
	}
	last := ""
	for _, part := range out.Parts {
		for o, err := range out.Rows(t.Context(), part) {
			if err != nil {
				t.Fatal(err)
			}
			if o.ID != last {
				last = o.ID
				c.Row(o.PromptTokens, o.Err != "")
			}
			c.Completion(o.FinishReason, o.CompletionTokens, o.Err != "")
		}
	}
	return c
}

// page checks that the HTML page has the same figures.
func (j *crashJob) page(t *testing.T, c tally.Counts) {
	t.Helper()
	path, err := exec.LookPath("sample")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "report", "out", "-o", "page.html")
	cmd.Dir = j.dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(j.dir, "page.html"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"<b>" + humanize.Comma(c.Rows) + " / " + humanize.Comma(c.Rows) + "</b>",
		"<b>" + humanize.Comma(c.RowsWithErrors) + "</b><span>prompts with errors</span>",
		"done, " + humanize.Comma(c.FinishReasons.Sum()) + " completions",
		`</i>error ` + humanize.Comma(c.FinishReasons.Error) + " <",
		`</i>stop ` + humanize.Comma(c.FinishReasons.Stop) + " <",
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// points checks that the time series of the last process of the whole job has what its report says it did.
func (j *crashJob) points(t *testing.T, r generate.Report) {
	t.Helper()
	all, err := telemetry.Read(filepath.Join(j.dir, "out", "_job", "events.jsonl"))
	if err != nil || len(all) == 0 {
		t.Fatal(err, len(all))
	}
	points := all[len(all)-1].Points
	if len(points) == 0 {
		t.Fatal("no points")
	}
	if p := points[len(points)-1]; p.Rows != r.RowsHere || p.Before != r.RowsBefore {
		t.Errorf("the series ends with %d rows and %d before, the report has %d and %d", p.Rows, p.Before, r.RowsHere,
			r.RowsBefore)
	}
}

// Whatever ends the runs of a job, and whoever continues with it, all figures add up, and in the end are those of the
// output.
func TestFiguresAddUp(t *testing.T) {
	t.Parallel() // it waits most of the time
	kill, interrupt := os.Kill, os.Interrupt
	fails := []string{"QUIRE_FAKE_FAIL=20,3"}
	for name, job := range map[string]func(t *testing.T, j *crashJob){
		"kills, interrupts, a device that fails": func(t *testing.T, j *crashJob) {
			j.end(t, interrupt, 60, nil).addUp(t, figuresRows)
			j.end(t, kill, 200, fails)
			j.end(t, interrupt, 100, fails).addUp(t, figuresRows)
			e := j.end(t, nil, 0, fails)
			e.addUp(t, figuresRows)
			if e.report.RowsBefore < 100 || e.report.Restarts == 0 {
				t.Errorf("%d rows were finished before, %d restarts", e.report.RowsBefore, e.report.Restarts)
			}
			j.points(t, e.report)
		},
		"shards": func(t *testing.T, j *crashJob) {
			parts := int64(7)
			of := func(shard int64) (rows int64) {
				for part := range parts {
					if part%3 == shard {
						rows += figuresRows / parts
					}
				}
				return rows
			}
			j.end(t, kill, 40, nil, "--shard", "0/3")
			j.end(t, interrupt, 40, nil, "--shard", "0/3").addUp(t, of(0))
			j.end(t, nil, 0, nil, "--shard", "0/3").addUp(t, of(0))
			j.end(t, interrupt, 40, fails, "--shard", "1/3").addUp(t, of(1))
			j.end(t, nil, 0, nil).addUp(t, figuresRows) // the whole job, which does the rest
		},
		"workers": func(t *testing.T, j *crashJob) {
			j.end(t, interrupt, 200, nil).addUp(t, figuresRows)
			j.end(t, interrupt, 300, nil, "--workers", "2")
			e := j.end(t, nil, 0, nil, "--workers", "2")
			if r := e.report; r.Check() != nil || r.Rows != r.RowsBefore+r.RowsHere || r.Rows != figuresRows ||
				!strings.Contains(e.stdout, r.FinishReasons.String()) {
				t.Errorf("workers report %+v: %s", r.Counts, e.stdout)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "workers" {
				testenv.Slow(t)
			}
			j := newFiguresJob(t, "--part-rows", "100")
			job(t, j)
			e := j.end(t, nil, 0, nil) // is finished
			want := j.written(t)
			if e.report.Counts != want || e.report.RowsBefore != want.Rows || e.report.RowsHere != 0 {
				t.Errorf("a finished job reports %+v, the output has %+v", e.report, want)
			}
			if err := want.Check(); err != nil || want.Rows != figuresRows || want.RowsWithErrors != 2*figuresRows/7 {
				t.Errorf("the output has %+v (%v)", want, err)
			}
			j.page(t, want)
		})
	}
}

// With one completion a row, the rows that a run finished are the completions that were generated in it, however many
// of the others were in parts or in the journal alone.
func TestRowsOfEarlierRuns(t *testing.T) {
	t.Parallel() // it waits most of the time
	j := newCrashJob(t, "--part-rows", "750", "--report", "report.json")
	j.args[slices.Index(j.args, "-n")+1] = "1"
	first := j.end(t, os.Interrupt, 1300, nil)
	first.addUp(t, crashRows)
	j.end(t, os.Kill, 100, nil)
	before := j.drawn()
	last := j.end(t, nil, 0, nil)
	last.addUp(t, crashRows)
	if r := last.report; r.RowsHere != int64(j.drawn()-before) || r.RowsBefore < first.report.Rows ||
		r.RowsBefore < 1300 || r.Rows != crashRows {
		t.Errorf("the last run drew %d of %d completions, and reports %d rows of earlier runs, %d of its own",
			j.drawn()-before, crashRows, r.RowsBefore, r.RowsHere)
	}
	j.points(t, last.report)
}

// Parts that an older version noted have no finish reasons: the figures say so, and add up.
func TestNotesWithoutReasons(t *testing.T) {
	t.Parallel() // it waits most of the time
	j := newFiguresJob(t, "--part-rows", "100")
	j.end(t, nil, 0, nil)
	notes := filepath.Join(j.dir, "out", "_job", "parts.log")
	text, err := os.ReadFile(notes)
	if err != nil {
		t.Fatal(err)
	}
	reasons := regexp.MustCompile(`,"finish_reasons":\{[^}]*\}`)
	if !reasons.Match(text) {
		t.Fatalf("no reasons are noted: %s", text)
	}
	var old []byte
	for line := range strings.Lines(string(text)) {
		if _, note, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			note = reasons.ReplaceAllString(note, "")
			old = fmt.Appendf(old, "%08x %s\n", crc32.Checksum([]byte(note), crc32.MakeTable(crc32.Castagnoli)), note)
		}
	}
	if err := errors.Join(os.WriteFile(notes, old, 0o666),
		os.Remove(filepath.Join(j.dir, "out", "part-00002.parquet"))); err != nil {
		t.Fatal(err)
	}
	e := j.end(t, nil, 0, nil)
	want := j.written(t)
	r := e.report
	if err := r.Check(); err != nil || r.FinishReasons.Sum() != want.FinishReasons.Sum() ||
		r.FinishReasons.Unknown == 0 || r.FinishReasons.Stop+r.FinishReasons.Length == 0 {
		t.Errorf("%+v, the output has %+v (%v)", r.Counts, want, err)
	}
	if text := fmt.Sprintf("%d not known, of parts by an older version)",
		r.FinishReasons.Unknown); !strings.Contains(e.stdout, text) {
		t.Errorf("the table lacks %q: %s", text, e.stdout)
	}
}
