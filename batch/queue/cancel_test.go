package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/quire/quire/batch/queue/local"
	"github.com/quire/quire/data/tally"
)

// A cancelled job has no units in the queue; who has one is told with the next sign of life, and may end it in either
// way. Submitted again it goes on with what is left.
func TestCancel(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := submit(t, q, testJob("a", 4), testUnits(4), Submitted)
	w := newWorker(t, q, job, "w")
	first, second := next(t, w, time.Minute), next(t, w, 10*time.Second)
	if err := w.Beat(t.Context(), Life{}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time changes nothing
		if did, err := q.Cancel(t.Context(), "a"); err != nil || !did {
			t.Fatal(did, err)
		}
	}
	if err := w.Beat(t.Context(), Life{}); !errors.Is(err, ErrCancelled) {
		t.Error(err)
	}
	ended := make(chan error)
	go func() {
		ended <- errors.Join(first.Done(context.Background(), tally.Counts{Rows: 10}),
			second.GiveBack(context.Background(), 0))
	}()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a unit of a cancelled job does not end")
	}
	if l := next(t, w, 200*time.Millisecond); l != nil {
		t.Error("a unit of a cancelled job is handed out:", l.Unit)
	}
	s, err := q.Status(t.Context(), "a")
	if err != nil || !s.Over || s.Done != 1 || s.Cancelled != 3 || s.Waiting+s.Running+s.Lost != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	submit(t, q, testJob("a", 4), testUnits(4)[1:], Submitted)
	for range 3 {
		l := next(t, w, time.Minute)
		if l == nil {
			t.Fatal("no unit after the job was submitted again")
		}
		if err := l.Done(t.Context(), tally.Counts{Rows: 10}); err != nil {
			t.Fatal(err)
		}
	}
	if s, err = q.Status(t.Context(), "a"); err != nil || !s.Over || s.Done != 3 || s.Cancelled != 0 {
		t.Errorf("%+v, %v", s, err)
	}
	if did, err := q.Cancel(t.Context(), "a"); did || err != nil {
		t.Error("a job that is over was cancelled:", did, err)
	}
	if _, err := q.Cancel(t.Context(), "b"); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
	if err := q.Remove(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := w.Beat(t.Context(), Life{}); !errors.Is(err, ErrNoJob) {
		t.Error(err)
	}
}

// Of jobs with one output one at a time is in the queue, however many are submitted at once. One that is over,
// cancelled or removed lets the next one in.
func TestOneJobAnOutput(t *testing.T) {
	server := newServer(t, local.Options{})
	q := connect(t, server)
	withOutput := func(id string) Job {
		job := testJob(id, 2)
		job.Output = "/data/out"
		return job
	}
	for round := range 5 {
		errs := make([]error, 6)
		var all sync.WaitGroup
		for i := range errs {
			own := connect(t, server)
			all.Go(func() {
				_, errs[i] = own.Submit(context.Background(), withOutput(fmt.Sprintf("j%d", i/2)), testUnits(2))
			}) // each job twice
		}
		all.Wait()
		owner := ""
		for i, err := range errs {
			taken := (*OutputTakenError)(nil)
			switch id := fmt.Sprintf("j%d", i/2); {
			case err == nil && (owner == "" || owner == id):
				owner = id
			case err == nil:
				t.Fatalf("round %d: jobs %s and %s have one output", round, owner, id)
			case !errors.As(err, &taken) || taken.Output != "/data/out":
				t.Error(err)
			}
		}
		jobs, err := q.Jobs(t.Context())
		if err != nil || owner == "" {
			t.Fatalf("round %d: none of the jobs is in the queue: %v, %v", round, errs, err)
		}
		for _, job := range jobs {
			if over, err := q.units.over(t.Context(), job); err != nil || over == (job.ID == owner) {
				t.Errorf("round %d: job %s, where %s has the output: over is %v, %v", round, job.ID, owner, over, err)
			}
		}
		if _, err := q.Cancel(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
	}
	submit(t, q, withOutput("last"), testUnits(2), Submitted)
	if err := q.Free(t.Context(), withOutput("j0")); err == nil {
		t.Error("a cancelled job has its output back")
	}
	if _, err := q.Retry(t.Context(), "j0"); err == nil {
		// It may have never been in the queue; if it was, another one has its output.
		t.Error("units of a job are queued again whose output another job has")
	}
	if err := q.Remove(t.Context(), "last"); err != nil {
		t.Fatal(err)
	}
	submit(t, q, withOutput("next"), testUnits(2), Submitted)
}

// Status has a reason for each unit that is not done.
func TestStatusSaysWhy(t *testing.T) {
	q := connect(t, newServer(t, local.Options{}))
	job := submit(t, q, testJob("a", 3), testUnits(3), Submitted)
	if err := q.Refuse(t.Context(), "a", Refusal{Worker: "w", Host: "h", Error: "no room"}); err != nil {
		t.Fatal(err)
	}
	s, err := q.Status(t.Context(), "a")
	if err != nil || len(s.Units) != 0 || len(s.Refusals) != 1 || s.Refusals[0].Error != "no room" {
		t.Fatalf("%+v, %v", s, err)
	}
	w := newWorker(t, q, job, "w")
	failed, running := next(t, w, time.Minute), next(t, w, 10*time.Second)
	if err := failed.Fail(t.Context(), errors.New("fire")); err != nil {
		t.Fatal(err)
	}
	s, err = q.Status(t.Context(), "a")
	if err != nil || len(s.Units) != 2 || len(s.Refusals) != 0 {
		t.Fatalf("%+v, %v", s, err)
	}
	for _, u := range s.Units {
		switch u.Number {
		case failed.Number:
			if u.State != Waiting || u.Tries != 1 || u.Error != "fire" || u.Worker != "w" {
				t.Errorf("%+v", u)
			}
		case running.Number:
			if u.State != Running || u.Worker != "w" || time.Since(u.Since) > time.Hour || u.Error != "" {
				t.Errorf("%+v", u)
			}
		}
	}
}
