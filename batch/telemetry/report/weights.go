package report

import (
	"fmt"
	"slices"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/internal/visible"
)

// used is weights that an engine took, and how long it had them.
type used struct {
	telemetry.Weights
	Generated         // what the version generated in all
	process   int     // its place on the page
	From, To  float64 // seconds after the start of the first process
}

// Label is what the weights are called.
func (u used) Label() string {
	if u.Name == "" {
		return "the model"
	}
	return visible.Line(valid(u.Name))
}

// For is how many seconds the engine had them.
func (u used) For() float64 { return u.To - u.From }

// Short is the beginning of the version.
func (u used) Short() string { return visible.Line(valid(u.Version[:min(len(u.Version), 12)])) }

// weights lists the weights that engines took, in order of time. They are none if the job's weights stay.
func (p *Page) weights() (all []used) {
	if len(p.Processes) == 0 {
		return nil
	}
	clock := p.clock()
	places, _ := p.names()
	for i, run := range p.Processes {
		start := clock.offset(run)
		end := start + lastSecond(run)
		for k, w := range run.Weights {
			u := used{Weights: w, Generated: p.Versions[w.Version], process: places[i],
				From: max(start, w.Time.Sub(clock.began).Seconds()), To: end}
			if k+1 < len(run.Weights) {
				u.To = run.Weights[k+1].Time.Sub(clock.began).Seconds()
			}
			u.To = max(u.From, u.To)
			all = append(all, u)
		}
	}
	slices.SortStableFunc(all, func(a, b used) int { return a.Time.Compare(b.Time) })
	return all
}

// weightsOverTime draws when engines had which weights. Weights of one name have one row.
func (p *Page) weightsOverTime() *figure {
	all := p.weights()
	var names []string
	for _, u := range all {
		if name := u.Label(); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if len(names) < 2 {
		return nil
	}
	title := "Weights that generated"
	if n := len(names); n > timelineRows {
		title += fmt.Sprintf(", the last %d of %d", timelineRows, n)
		names = names[n-timelineRows:]
	}
	var list []bar
	for _, u := range all {
		if row := slices.Index(names, u.Label()); row >= 0 {
			list = append(list, bar{row, u.From, u.To, processColor(u.process)})
		}
	}
	f := p.bars(title, names, list)
	if f != nil {
		f.about = fmt.Sprintf("%d versions", len(names))
	}
	return f
}

// weightsRows is how many rows the table of weights has at most.
const weightsRows = 200

// weightsTable returns the weights of the table, the last ones, and how many there are before them.
func (p *Page) weightsTable() (rows []used, before int64) {
	all := p.weights()
	n := max(0, len(all)-weightsRows)
	return all[n:], int64(n)
}
