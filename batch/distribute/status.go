package distribute

import (
	"fmt"
	"time"

	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/internal/plural"
)

// JobStatus is how far a job of a queue is; "sample status --json" prints it.
type JobStatus struct {
	Job    string `json:"job"`
	Output string `json:"output"`
	Rows   int64  `json:"rows_total"`
	Units  int    `json:"units_total"`
	*queue.Status
	// Of the workers that live, over their last minute.
	RowsPerSecond   float64  `json:"rows_per_second"`
	TokensPerSecond float64  `json:"tokens_per_second"`
	ETASeconds      *float64 `json:"eta_seconds"` // null: not known
	Why             []string `json:"why"`         // what is not done waits for
}

// Summarize adds up what the workers report.
func Summarize(s *queue.Status) *JobStatus {
	v := &JobStatus{Job: s.Job.ID, Output: s.Job.Name, Rows: s.Job.Rows, Units: s.Job.Units, Status: s}
	for _, w := range s.Workers {
		if w.SecondsAgo < queue.AliveWithin.Seconds() {
			v.RowsPerSecond += w.RowsPerSecond
			v.TokensPerSecond += w.TokensPerSecond
		}
	}
	if left := float64(s.Job.Rows - s.Figures.Rows); s.Over {
		v.ETASeconds = new(float64)
	} else if v.RowsPerSecond > 0 {
		eta := max(0, left) / v.RowsPerSecond
		v.ETASeconds = &eta
	}
	v.Why = v.why()
	return v
}

// State is the job's state in one word.
func (v *JobStatus) State() string {
	switch {
	case v.Status.Job.Cancelled:
		return "cancelled"
	case !v.Status.Job.Ready:
		return "being submitted"
	case v.Over && v.Status.Parked > 0:
		return "over, not whole"
	case v.Over && v.Lost > 0:
		return "over, units were lost"
	case v.Over:
		return "finished"
	case v.Running > 0:
		return "running"
	}
	return "waiting"
}

// Line is the status in a line.
func (v *JobStatus) Line() string {
	eta := ""
	if v.ETASeconds != nil && !v.Over {
		eta = ", ETA " + time.Duration(*v.ETASeconds*float64(time.Second)).Round(time.Second).String()
	}
	return fmt.Sprintf("%s: %s, %d/%d rows, %d/%d units, %d parked, %.1f rows/s%s", v.Job, v.State(), v.Figures.Rows,
		v.Rows, v.Done, v.Units, v.Parked, v.RowsPerSecond, eta)
}

// whyExamples is how many units of a kind are named.
const whyExamples = 8

// why returns, one per line, what the unfinished units wait for. Parked units are counted separately.
func (v *JobStatus) why() (lines []string) {
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	job := v.Status.Job
	if v.Status.Cancelled > 0 {
		add("%s: submit the job again to continue",
			plural.Count(v.Status.Cancelled, "unit")+plural.Of(v.Status.Cancelled, " was", " were")+" cancelled")
	}
	if !job.Ready && !job.Cancelled {
		add("the job is being submitted; if the process that did so died, submit it again")
	}
	failed, named := 0, 0
	for _, u := range v.Status.Units {
		if u.State == queue.Waiting {
			failed++
		}
		if named++; named > whyExamples {
			continue
		}
		switch {
		case u.State == queue.Running:
			add("%s is with worker %s since %s%s", u.Unit, u.Worker, u.Since.Format(time.DateTime+" MST"),
				v.heardOf(u.Worker))
		case !job.Cancelled:
			add("%s failed %d of %d times and is handed out again: %s", u.Unit, u.Tries, job.MaxTries, u.Error)
		}
	}
	if named > whyExamples {
		add("%d more: with workers, or failed and handed out again", named-whyExamples)
	}
	rest := v.Waiting - failed
	waiting := plural.Count(rest, "unit") + plural.Of(rest, " waits", " wait")
	if rest > 0 && v.alive() > 0 {
		add("%s for one of %s to be through with others", waiting, plural.Count(v.alive(), "worker"))
	} else if rest > 0 {
		add(`%s for a worker, and none is connected: "sample worker %s" starts one`, waiting, job.ID)
	}
	for _, r := range v.Refusals {
		add("worker %s on %s could not work on the job %s ago: %s", r.Worker, r.Host, ago(r.SecondsAgo), r.Error)
	}
	return lines
}

// Obstacles are reasons why nothing may happen at all, for a user who waits; each is reported once.
func (v *JobStatus) Obstacles() (lines []string) {
	if v.Status.Job.Ready && v.alive() == 0 {
		lines = append(lines, fmt.Sprintf(`no worker is connected: "sample worker %s" starts one`, v.Job))
	}
	for _, r := range v.Refusals {
		lines = append(lines, fmt.Sprintf("worker %s on %s could not work on the job: %s", r.Worker, r.Host, r.Error))
	}
	return lines
}

// heardOf returns when a worker last reported.
func (v *JobStatus) heardOf(worker string) string {
	for _, l := range v.Workers {
		switch {
		case l.Name != worker:
		case l.SecondsAgo < queue.AliveWithin.Seconds():
			return fmt.Sprintf(", heard of %s ago", ago(l.SecondsAgo))
		case v.Status.Job.Cancelled:
			return fmt.Sprintf(", not heard of for %s: it is taken for dead", ago(l.SecondsAgo))
		default:
			return fmt.Sprintf(
				", not heard of for %s: it is taken for dead, and another one gets the unit %s after its last "+
					"heartbeat",
				ago(l.SecondsAgo), v.Status.Job.AckWait)
		}
	}
	return ", which has ended, or has not told yet how it is"
}

// alive counts the workers that reported recently.
func (v *JobStatus) alive() (n int) {
	for _, l := range v.Workers {
		if l.SecondsAgo < queue.AliveWithin.Seconds() {
			n++
		}
	}
	return n
}

func ago(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
