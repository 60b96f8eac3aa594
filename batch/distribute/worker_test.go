package distribute

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/queue"
)

func TestJobOver(t *testing.T) {
	s := &queue.Status{Over: true, Job: queue.Job{Name: "out"}}
	if err := JobOver(s); err != nil {
		t.Error(err)
	}
	s.Figures.RowsWithErrors = 1
	var end *outcome.Error
	if err := JobOver(s); !errors.As(err, &end) || end.Outcome != outcome.Partial {
		t.Error(err)
	}
	s.Lost = 2
	if err := JobOver(s); err == nil || errors.As(err, &end) ||
		!strings.Contains(err.Error(), "2 units of out are neither done nor in the queue") {
		t.Error(err)
	}
	s.Parked = 7
	for i := range 7 {
		s.ParkedUnits = append(s.ParkedUnits, queue.ParkedUnit{Unit: queue.Unit{Number: i, To: 5, File: "in"},
			Error: "fire"})
	}
	if err := JobOver(s); err == nil || !strings.Contains(err.Error(),
		"unit 4 (rows 0 to 4, from in on): fire; 2 more; fix") {
		t.Error(err)
	}
}

func TestSummarize(t *testing.T) {
	s := &queue.Status{Job: queue.Job{ID: "j", Rows: 100, Ready: true}, Running: 1}
	s.Figures.Rows = 40
	if v := Summarize(s); v.ETASeconds != nil || v.State() != "running" {
		t.Errorf("%+v", v)
	}
	for i, ago := range []time.Duration{0, process.DefaultTiming().BeatEvery, time.Hour} { // the last one is dead
		s.Workers = append(s.Workers, queue.LifeSign{Life: queue.Life{Name: string(rune('a' + i)), RowsPerSecond: 2,
			TokensPerSecond: 20}, SecondsAgo: ago.Seconds()})
	}
	v := Summarize(s)
	if v.RowsPerSecond != 4 || v.TokensPerSecond != 40 || *v.ETASeconds != 15 ||
		!strings.Contains(v.Line(), "40/100 rows") || !strings.Contains(v.Line(), "ETA 15s") {
		t.Errorf("%+v: %s", v, v.Line())
	}
}
