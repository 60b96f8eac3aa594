package review

import (
	"testing"
	"time"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/tally"
)

func TestRateOf(t *testing.T) {
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	// A process from one second to another, whose last point has so many tokens.
	process := func(from, to int, tokens int64) telemetry.Process {
		at := func(s int) time.Time { return began.Add(time.Duration(s) * time.Second) }
		return telemetry.Process{Start: telemetry.Start{Time: at(from)}, End: &telemetry.End{Time: at(to)},
			Points: []telemetry.Point{{Seconds: 101}, {Seconds: 100 + float64(to-from),
				Counts: tally.Counts{CompletionTokens: tokens}}}}
	}
	killed := process(0, 9, 500)
	killed.End, killed.Points[0].CompletionTokens = nil, 100
	closing := process(0, 10, 500) // for half of its time
	closing.Points[0] = telemetry.Point{Seconds: 105, Counts: closing.Points[1].Counts}
	silent := process(0, 100, 0)
	silent.Points = nil
	for _, c := range []struct {
		name string
		all  []telemetry.Process
		want float64
	}{
		{"none", nil, 0},
		{"one that said nothing", []telemetry.Process{silent}, 0},
		{"one", []telemetry.Process{process(0, 10, 500)}, 50},
		{"one after the other", []telemetry.Process{process(0, 10, 500), process(90, 100, 300)}, 40},
		{"at once", []telemetry.Process{process(0, 10, 500), process(0, 10, 300)}, 80},
		{"one within another", []telemetry.Process{process(0, 20, 500), process(5, 15, 300)}, 40},
		{"one that takes long to end", []telemetry.Process{closing}, 100},
		{"one that was killed", []telemetry.Process{killed}, 50},
	} {
		if got := rateOf(c.all); got != c.want {
			t.Errorf("%s: %g, want %g", c.name, got, c.want)
		}
	}
}
