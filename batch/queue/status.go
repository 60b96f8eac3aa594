package queue

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/quire/quire/data/tally"
)

// Status is the progress of a job.
type Status struct {
	Job     Job  `json:"-"`
	Waiting int  `json:"units_waiting"`
	Running int  `json:"units_running"`
	Done    int  `json:"units_done"`
	Parked  int  `json:"units_parked"`
	Over    bool `json:"over"` // no unit waits or runs
	// Cancelled counts units of a cancelled job that are neither done nor parked, and that no worker is known to have.
	Cancelled int `json:"units_cancelled"`
	// Lost counts units of a finished job that are neither done nor parked: the server lost them.
	Lost int `json:"units_lost"`
	// Figures cover all that is done, including what was done before, and the known progress of running units.
	Figures     tally.Counts `json:"figures"`
	Workers     []LifeSign   `json:"workers"`
	ParkedUnits []ParkedUnit `json:"parked"`
	// Units are the units that workers have, and the units that wait after a failure.
	Units    []UnitState `json:"units"`
	Refusals []Refusal   `json:"refusals"` // workers that can't work on the job
}

// UnitState is the state of a unit that is not done.
type UnitState struct {
	Unit
	State  string    `json:"state"`
	Worker string    `json:"worker"` // that has the unit, or had it last
	Since  time.Time `json:"since"`  // by that worker's clock
	// Tries is how often the unit failed without progress, and Error the last failure.
	Tries int    `json:"tries"`
	Error string `json:"error,omitempty"`
}

// LifeSign is the last report of a worker, and its age.
type LifeSign struct {
	Life
	SecondsAgo float64 `json:"seconds_ago"` // by the server's clock
}

// ParkedUnit is a unit that was given up.
type ParkedUnit struct {
	Unit
	Error string `json:"error"`
}

// Status returns the progress of a job.
func (q *Queue) Status(ctx context.Context, id string) (*Status, error) {
	job, err := q.bucket.job(ctx, id)
	if err != nil {
		return nil, err
	}
	s := &Status{Job: job, Figures: job.Before.Noted()}
	// The queue first: a unit that leaves it meanwhile has its record already.
	left, err := q.units.left(ctx, job)
	if err != nil {
		return nil, err
	}
	now, err := q.units.now(ctx)
	if err != nil {
		return nil, err
	}
	err = q.bucket.each(ctx, id+".>", func(entry jetstream.KeyValueEntry) error {
		switch kind, _ := kindOf(entry.Key()); kind {
		case "unit":
			var r record
			if err := json.Unmarshal(entry.Value(), &r); err != nil {
				return err
			}
			s.count(r)
		case "worker":
			sign := LifeSign{SecondsAgo: max(0, now.Sub(entry.Created()).Seconds())}
			if err := json.Unmarshal(entry.Value(), &sign.Life); err != nil {
				return err
			}
			s.Workers = append(s.Workers, sign)
		case "refused":
			r := Refusal{}
			if err := json.Unmarshal(entry.Value(), &r); err != nil {
				return err
			}
			r.SecondsAgo = max(0, now.Sub(entry.Created()).Seconds())
			s.Refusals = append(s.Refusals, r)
		}
		return nil
	})
	slices.SortFunc(s.ParkedUnits, func(a, b ParkedUnit) int { return a.Number - b.Number })
	rest := max(0, job.Units-s.Done-s.Parked-s.Running)
	slices.SortFunc(s.Units, func(a, b UnitState) int { return a.Number - b.Number })
	if job.Cancelled {
		s.Over, s.Cancelled = true, rest
		return s, err
	}
	if s.Over = job.Ready && !left; s.Over {
		s.Lost, s.Running = rest+s.Running, 0
	} else {
		s.Waiting = rest
	}
	return s, err
}

func (s *Status) count(r record) {
	switch r.State {
	case Done:
		s.Done++
		s.Figures = s.Figures.Plus(r.Figures.Noted())
	case Parked:
		s.Parked++
		s.ParkedUnits = append(s.ParkedUnits, ParkedUnit{r.Unit, r.Error})
	case Running:
		s.Running++
		s.Figures = s.Figures.Plus(r.Figures.Noted())
	}
	if r.State == Running || r.State == Waiting && r.Tries > 0 {
		s.Units = append(s.Units, UnitState{r.Unit, r.State, r.Worker, r.Since, r.Tries, r.Error})
	}
}
