package jobstate

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/quire/quire/data/vfs"
)

// A change keeps the job's key, and with it the journal, unless it is to have a new one.
func TestChange(t *testing.T) {
	files := vfs.NewMem()
	s, err := Open(files, "out")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Begin(description()); err != nil {
		t.Fatal(err)
	}
	key, was := s.Key(), s.Job()
	now := description()
	now.Settings["n"] = 8
	now.Inputs[0].Name, now.Inputs[1].Name = "moved", "elsewhere"
	now.Inputs = append(now.Inputs, Input{Name: "more", Rows: 1})
	next := was.Changed(now, Change{Time: time.Unix(1, 0).UTC(), What: []string{"n is 8, was 4"}, PartsFrom: 2})
	if err := s.Change(next, false); err != nil {
		t.Fatal(err)
	}
	for _, which := range []string{"here", "opened again"} {
		if s.Key() != key {
			t.Errorf("%s: the key is another one", which)
		}
		job := s.Job()
		if len(now.Differences(job)) > 0 || job.Inputs[0].Name != "a.jsonl" || len(job.Changes) != 1 ||
			len(job.Changes[0].InputsBefore) != 2 {
			t.Errorf("%s: %+v", which, job)
		}
		if before, after := job.NumberAt(0, "n"), job.NumberAt(1, "n"); before != 4 || after != 8 {
			t.Errorf("%s: n was %d and is %d", which, before, after)
		}
		for part, want := range []bool{false, false, true} {
			if job.Stale(part, 0, true) != want || job.Stale(part, 1, true) {
				t.Errorf("%s: part %d", which, part)
			}
		}
		s.Close()
		if s, err = Open(files, "out"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Change(s.Job().Changed(now, Change{RetryErrors: true, PartsFrom: 9}), true); err != nil {
		t.Fatal(err)
	}
	if job := s.Job(); s.Key() == key || !job.Stale(0, 1, true) || job.Stale(0, 1, false) || job.Stale(0, 2, true) {
		t.Errorf("%+v", job)
	}
	var c map[string]any
	text, err := json.Marshal(s.Job().Changes[0])
	if err == nil {
		err = json.Unmarshal(text, &c)
	}
	if err != nil || c["time"] != "1970-01-01T00:00:01Z" {
		t.Errorf("%s, %v", text, err)
	}
}
