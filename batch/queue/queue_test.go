package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/data/tally"
)

// newServer starts a server on a free port of this machine.
func newServer(t *testing.T, o local.Options) *local.Server {
	t.Helper()
	if o.Address == "" {
		o.Address = "127.0.0.1:0"
	}
	if o.Dir == "" {
		o.Dir = t.TempDir()
	}
	s, err := local.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stop)
	return s
}

// queued counts the units that the server has of a job. What it counts for a consumer comes a moment later.
func queued(t *testing.T, q *Queue, job Job) int {
	t.Helper()
	info, err := q.units.stream.Info(t.Context(), jetstream.WithSubjectFilter(subjects+job.ID+".>"))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, messages := range info.State.Subjects {
		n += int(messages)
	}
	return n
}

func connect(t *testing.T, s *local.Server) *Queue {
	t.Helper()
	q, err := Connect(t.Context(), Options{URL: "nats://" + s.Address(), Patience: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	return q
}

func testUnits(n int) (units []Unit) {
	for i := range n {
		units = append(units, Unit{Number: i, From: int64(10 * i), To: int64(10*i + 10), File: "in.jsonl"})
	}
	return units
}

func testJob(id string, n int) Job {
	return Job{ID: id, Name: "out", Config: json.RawMessage(`{"a":1}`), Rows: int64(10 * n),
		AckWait: 400 * time.Millisecond, MaxTries: 3}
}

func submit(t *testing.T, q *Queue, job Job, units []Unit, want Submission) Job {
	t.Helper()
	got, err := q.Submit(t.Context(), job, units)
	if err != nil || got != want {
		t.Fatalf("submitting gave %q, %v; want %q", got, err, want)
	}
	if job, err = q.Job(t.Context(), job.ID); err != nil {
		t.Fatal(err)
	}
	return job
}

func newWorker(t *testing.T, q *Queue, job Job, name string) *Worker {
	t.Helper()
	w, err := q.Worker(t.Context(), job, name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// next waits for a unit.
func next(t *testing.T, w *Worker, wait time.Duration) *Lease {
	t.Helper()
	for start := time.Now(); time.Since(start) < wait; {
		l, err := w.Next(t.Context(), 50*time.Millisecond)
		if err != nil {
			t.Fatal(err)
		}
		if l != nil {
			return l
		}
	}
	return nil
}

// die is what the death of its worker does to a unit.
func (l *Lease) die() {
	l.end()
	l.w.mu.Lock()
	delete(l.w.held, l.Number)
	l.w.mu.Unlock()
}

func ten() tally.Counts {
	return tally.Counts{Rows: 10, RowsWithErrors: 1, Completions: 9, PromptTokens: 20, CompletionTokens: 30,
		FinishReasons: tally.Reasons{Stop: 4, Length: 5, Error: 1}}
}

func TestUnitsAreDoneOnce(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := testJob("job", 5)
	job.Before = ten()
	job = submit(t, q, job, testUnits(5), Submitted)
	submit(t, q, job, testUnits(5), Going)
	workers := []*Worker{newWorker(t, q, job, "a"), newWorker(t, q, job, "b")}
	seen := map[int]int{}
	for i := range 5 {
		l := next(t, workers[i%2], time.Minute)
		if l == nil {
			t.Fatal("no unit")
		}
		seen[l.Number]++
		if l.From != int64(10*l.Number) || l.File != "in.jsonl" || l.Suspect {
			t.Errorf("%+v", l.Unit)
		}
		if err := l.Done(t.Context(), ten()); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 5 {
		t.Errorf("units %v", seen)
	}
	if l := next(t, workers[0], 300*time.Millisecond); l != nil {
		t.Errorf("a unit more: %v", l.Unit)
	}
	s, err := q.Status(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	want := tally.Counts{Rows: 60, RowsWithErrors: 6, Completions: 54, PromptTokens: 120, CompletionTokens: 180,
		FinishReasons: tally.Reasons{Stop: 24, Length: 30, Error: 6}}
	if !s.Over || s.Done != 5 || s.Waiting+s.Running+s.Parked+s.Lost != 0 || s.Figures != want {
		t.Errorf("%+v", s)
	}
	submit(t, q, job, nil, Over)
	// A part that is gone is drawn again.
	job = submit(t, q, job, testUnits(5)[2:3], Submitted)
	if l := next(t, workers[1], time.Minute); l == nil || l.Number != 2 {
		t.Errorf("not the unit that was asked for: %v", l)
	}
	jobs, err := q.Jobs(t.Context())
	if err != nil || len(jobs) != 1 || jobs[0].ID != "job" {
		t.Errorf("%v, %v", jobs, err)
	}
	if err := q.Remove(t.Context(), "job"); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Job(t.Context(), "job"); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	// A job of a name that was removed is a new one.
	job = submit(t, q, testJob("job", 5), testUnits(5), Submitted)
	if n := queued(t, q, job); n != 5 {
		t.Errorf("submitted again behind its removal: %d units queued", n)
	}
}

// A unit that takes longer than the server waits stays with its worker, as that says that it is at it.
func TestHeartbeats(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := testJob("job", 1)
	job.AckWait = 3 * time.Second // a machine that stands still for two of them is still in time
	job = submit(t, q, job, testUnits(1), Submitted)
	a, b := newWorker(t, q, job, "a"), newWorker(t, q, job, "b")
	l := next(t, a, time.Minute)
	l.Progress(tally.Counts{Rows: 4, CompletionTokens: 40})
	if other := next(t, b, 2*job.AckWait); other != nil {
		t.Fatal("the unit went to another worker")
	}
	if err := a.Beat(t.Context(), Life{Host: "here", Units: 1, RowsPerSecond: 2}); err != nil {
		t.Fatal(err)
	}
	s, err := q.Status(t.Context(), "job")
	if err != nil || s.Running != 1 || s.Over || s.Figures.Rows != 4 || s.Figures.CompletionTokens != 40 {
		t.Errorf("%+v, %v", s, err)
	}
	if len(s.Workers) != 1 || s.Workers[0].Name != "a" || s.Workers[0].Host != "here" || s.Workers[0].SecondsAgo > 5 {
		t.Errorf("%+v", s.Workers)
	}
	if err := a.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if other := next(t, b, time.Minute); other == nil || other.record.Tries != 0 {
		t.Errorf("what was given back did not come, or counts as failed: %+v", other)
	}
	if s, err = q.Status(t.Context(), "job"); err != nil || len(s.Workers) != 0 {
		t.Errorf("%+v, %v", s.Workers, err)
	}
}

// A worker that died is waited for as long as the job says, or until it is there again under its name.
func TestDeadWorkers(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := testJob("job", 2)
	job.AckWait = 2 * time.Second
	job = submit(t, q, job, testUnits(2), Submitted)
	a, b := newWorker(t, q, job, "a"), newWorker(t, q, job, "b")
	start := time.Now() // before the dead one can have been heard of
	dead := next(t, a, time.Minute)
	dead.die()
	next(t, b, time.Minute)
	l := next(t, b, time.Minute)
	if l == nil || l.Number != dead.Number || l.record.Tries != 1 || time.Since(start) < job.AckWait {
		t.Fatalf("after %s: %+v", time.Since(start), l)
	}
	// The dead one was only thought so: that it is done holds, whoever has the unit.
	if err := dead.Done(t.Context(), ten()); err != nil {
		t.Fatal(err)
	}
	l.Progress(tally.Counts{Rows: 1, CompletionTokens: 1})
	l.Note(t.Context())
	if l.revision != 0 {
		t.Error("a worker does not see that its unit is another's")
	}
	l.die()
}

// A worker that comes back under its name gets what its earlier life had, without waiting for it.
func TestAnotherLife(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := testJob("job", 1)
	job.AckWait = time.Hour
	job = submit(t, q, job, testUnits(1), Submitted)
	had := next(t, newWorker(t, q, job, "b"), time.Minute)
	had.die()
	again := next(t, newWorker(t, q, job, "b"), time.Minute)
	if again == nil || again.Number != had.Number || again.record.Tries != 1 {
		t.Fatalf("a worker's earlier life kept its units: %+v", again)
	}
}

// A worker that lives and was not heard of for a while, or whose server's clock was set forward, gets its unit back,
// and nothing counts as failed, however often.
func TestBusy(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := submit(t, q, testJob("job", 1), testUnits(1), Submitted)
	a, b := newWorker(t, q, job, "a"), newWorker(t, q, job, "b")
	l := next(t, a, time.Minute)
	for i := range int64(job.MaxTries + 1) {
		l.end() // it is silent
		other := next(t, b, time.Minute)
		if other == nil || other.record.Tries != 1 {
			t.Fatalf("%d: %+v", i, other)
		}
		if err := other.Busy(t.Context(), 10*time.Millisecond); err != nil {
			t.Fatal(err)
		}
		l.Note(t.Context()) // it did no more, and nobody's tries go
		var r record
		if _, err := q.bucket.get(t.Context(), unitKey(job.ID, 0), &r); err != nil || r.Tries != 0 || r.Error != "" ||
			r.Worker != "a" || r.State != Running {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
	}
	l.Progress(tally.Counts{Rows: 3, CompletionTokens: 30})
	l.Note(t.Context()) // finds the unit its own again
	l.Note(t.Context())
	if s, err := q.Status(t.Context(), "job"); err != nil || s.Running != 1 || s.Figures.Rows != 3 || l.revision == 0 {
		t.Errorf("it does not note how far it is: %+v, %v", s, err)
	}
	l.end()
	if err := next(t, b, time.Minute).Busy(t.Context(), 10*time.Millisecond); err != nil {
		t.Fatal(err)
	}
	if err := l.GiveBack(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if l = next(t, b, time.Minute); l == nil || l.record.Tries != 0 {
		t.Fatalf("what was given back did not come, or counts as failed: %+v", l)
	}
	if err := l.Done(t.Context(), ten()); err != nil {
		t.Fatal(err)
	}
	if s, err := q.Status(t.Context(), "job"); err != nil || !s.Over || s.Parked != 0 {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestParked(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := submit(t, q, testJob("job", 2), testUnits(2), Submitted)
	w := newWorker(t, q, job, "a")
	tries := map[int]int{}
	for range 2 * job.MaxTries {
		l := next(t, w, time.Minute)
		if l == nil {
			t.Fatal("no unit")
		}
		tries[l.Number]++
		if l.Number == 0 {
			if err := l.Fail(t.Context(), errors.New("disk on fire")); err != nil {
				t.Fatal(err)
			}
		} else {
			l.die()
			if l.Suspect != (tries[1] > 2) {
				t.Errorf("try %d: suspect is %v", tries[1], l.Suspect)
			}
			w = newWorker(t, q, job, "a")
		}
	}
	if l := next(t, w, 2*job.AckWait); l != nil {
		t.Fatalf("%v after %d tries", l.Unit, tries[l.Number])
	}
	s, err := q.Status(t.Context(), "job")
	if err != nil || !s.Over || s.Parked != 2 || len(s.ParkedUnits) != 2 {
		t.Fatalf("%+v, %v", s, err)
	}
	if s.ParkedUnits[0].Error != "disk on fire" || !strings.Contains(s.ParkedUnits[1].Error, "its worker a died") {
		t.Errorf("%+v", s.ParkedUnits)
	}
	submit(t, q, job, testUnits(2), Over)
	if n, err := q.Retry(t.Context(), "job"); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	for range 2 {
		l := next(t, w, time.Minute)
		if l == nil || l.record.Tries != 0 {
			t.Fatalf("%+v", l)
		}
		if err := l.Done(t.Context(), ten()); err != nil {
			t.Fatal(err)
		}
	}
}

// A unit of which each life does more than the one before does not fail, however many die.
func TestProgressIsNoFailure(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := submit(t, q, testJob("job", 1), testUnits(1), Submitted)
	for i := range int64(6) {
		l := next(t, newWorker(t, q, job, "a"), time.Minute)
		if l == nil {
			t.Fatalf("parked after %d lives", i)
		}
		l.Progress(tally.Counts{Rows: i + 1, CompletionTokens: i + 1})
		l.Note(t.Context())
		l.die()
	}
}

// A server that goes and comes back is waited for; nothing is lost.
func TestServerRestarts(t *testing.T) {
	dir := t.TempDir()
	server := newServer(t, local.Options{Dir: dir})
	address := server.Address()
	q := connect(t, server)
	job := submit(t, q, testJob("job", 3), testUnits(3), Submitted)
	w := newWorker(t, q, job, "a")
	first := next(t, w, time.Minute)
	server.Stop()
	back := make(chan *local.Server)
	go func() {
		time.Sleep(300 * time.Millisecond)
		s, err := local.Start(local.Options{Dir: dir, Address: address})
		if err != nil {
			t.Error(err)
		}
		back <- s
	}()
	if err := first.Done(t.Context(), ten()); err != nil {
		t.Fatal(err)
	}
	server = <-back
	defer server.Stop()
	for range 2 {
		l := next(t, w, time.Minute)
		if l == nil {
			t.Fatal("a unit was lost")
		}
		if err := l.Done(t.Context(), ten()); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := q.Status(t.Context(), "job"); err != nil || s.Done != 3 || !s.Over {
		t.Errorf("%+v, %v", s, err)
	}
}

func TestServerStaysAway(t *testing.T) {
	server := newServer(t, local.Options{})
	q := connect(t, server)
	q.server.options.Patience = 200 * time.Millisecond
	server.Stop()
	if _, err := q.Job(t.Context(), "job"); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
	if _, err := Connect(t.Context(), Options{URL: "nats://" + server.Address(),
		Patience: 200 * time.Millisecond}); !errors.Is(err, ErrUnreachable) {
		t.Error(err)
	}
}

func TestTooLong(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := testJob("job", 1)
	job.Config = json.RawMessage(`"` + strings.Repeat("x", 9<<20) + `"`)
	if _, err := q.Submit(t.Context(), job, testUnits(1)); !errors.Is(err, ErrTooLong) {
		t.Error(err)
	}
}

// Many units, so that a submission is of several rounds, and killed in the middle.
func TestSubmitterDies(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	const n = 3 * publishAhead
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err := q.Submit(ctx, testJob("job", n), testUnits(n))
	t.Logf("the first: %v", err)
	for range 2 {
		if _, err := q.Submit(t.Context(), testJob("job", n), testUnits(n)); err != nil {
			t.Fatal(err)
		}
	}
	job, err := q.Job(t.Context(), "job")
	if err != nil {
		t.Fatal(err)
	}
	if got := queued(t, q, job); got != n || !job.Ready || job.Epoch != 1 {
		t.Errorf("%d units queued, %+v", got, job)
	}
}

func TestNames(t *testing.T) {
	if got := CleanName("pod.a/b c_1-ü"); got != "pod_a_b_c_1-_" {
		t.Error(got)
	}
	q := connect(t, newServer(t, local.Options{}))
	for _, id := range []string{"", "a.b", "*", ">", "a b"} {
		if _, err := q.Submit(t.Context(), Job{ID: id}, nil); err == nil {
			t.Errorf("%q is taken", id)
		}
		if _, err := q.Job(t.Context(), id); !errors.Is(err, ErrNoJob) {
			t.Errorf("%q: %v", id, err)
		}
	}
	if s := fmt.Sprint(Unit{3, 30, 40, "in.jsonl"}); s != "unit 3 (rows 30 to 39, from in.jsonl on)" {
		t.Error(s)
	}
}
