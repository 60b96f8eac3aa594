package report

import (
	"fmt"
	"math"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/telemetry"
)

// chartPoints is how many points a line has at most.
const chartPoints = 400

// measure is something that changes while a process runs.
type measure struct {
	title, unit string
	value       func(a, b telemetry.Point) float64 // between two points
	limit       func(telemetry.Start) int          // what it may be at most, drawn as a thin line; nil for none
}

// measures are the figures over time.
var measures = []measure{
	{title: "Tokens drawn per second", unit: "tokens/s",
		value: rate(func(q telemetry.Point) float64 { return float64(q.Tokens) })},
	{title: "Rows per second", unit: "rows/s",
		value: rate(func(q telemetry.Point) float64 { return float64(q.Rows) })},
	{title: "Slots in use", unit: "slots",
		value: func(_, b telemetry.Point) float64 { return float64(b.Active) },
		limit: func(s telemetry.Start) int { return s.Slots }},
	{title: "Pages in use", unit: "pages",
		value: func(_, b telemetry.Point) float64 { return float64(b.Pages) },
		limit: func(s telemetry.Start) int { return s.Pages }},
	{title: "Mean duration of a call", unit: "ms", value: func(a, b telemetry.Point) float64 {
		if b.Calls == a.Calls {
			return 0
		}
		return 1000 * (b.CallSeconds - a.CallSeconds) / float64(b.Calls-a.Calls)
	}},
}

func rate(of func(telemetry.Point) float64) func(a, b telemetry.Point) float64 {
	return func(a, b telemetry.Point) float64 { return (of(b) - of(a)) / max(b.Seconds-a.Seconds, 1e-9) }
}

// charts draws all figures for which there is data.
func (p *Page) charts() (out []chart, err error) {
	points := 0
	for _, run := range p.Processes {
		points += len(run.Points)
	}
	var figures []*figure
	if points > 1 {
		for _, m := range measures {
			figures = append(figures, p.overTime(m))
		}
		figures = append(figures, p.timeline())
	}
	figures = append(figures, p.textLens.histogram("Length of completions, tokens"),
		p.promptLens.histogram("Length of prompts, tokens"))
	for _, f := range figures {
		if f == nil {
			continue
		}
		c, err := f.render()
		if err != nil {
			return nil, err
		}
		out = append(out, c)
	}
	return out, nil
}

// clock is the axis of time of all processes: it begins with the first.
type clock struct {
	began time.Time
	unit  string
	size  float64 // seconds of a unit
}

func (p *Page) clock() clock {
	c := clock{began: p.Processes[0].Start.Time, unit: "seconds", size: 1}
	span := 0.0
	for _, run := range p.Processes {
		if n := len(run.Points); n > 0 {
			span = max(span, c.offset(run)+run.Points[n-1].Seconds)
		}
	}
	switch {
	case span > 4*3600:
		c.unit, c.size = "hours", 3600
	case span > 240:
		c.unit, c.size = "minutes", 60
	}
	return c
}

// offset is when a process began, in seconds.
func (c clock) offset(run telemetry.Process) float64 { return run.Start.Time.Sub(c.began).Seconds() }

// overTime draws a line for each process, and a thin one for a limit. It is nil where there is nothing to draw.
func (p *Page) overTime(m measure) *figure {
	at := p.clock()
	f := newFigure(m.title, at.unit+" since the start", m.unit)
	low, high := math.Inf(1), 0.0
	for i, run := range p.Processes {
		line := lineOf(run, m.value, func(seconds float64) float64 { return (at.offset(run) + seconds) / at.size })
		if len(line) < 2 {
			continue
		}
		for _, q := range line {
			low, high = min(low, q.Y), max(high, q.Y)
		}
		f.line(line, processColor(i), vg.Points(1.2), nil)
		if m.limit != nil {
			y := float64(m.limit(run.Start))
			f.line(plotter.XYs{{X: line[0].X, Y: y}, {X: line[len(line)-1].X, Y: y}}, bound, vg.Points(1),
				[]vg.Length{vg.Points(4), vg.Points(3)})
		}
	}
	if f.X.Min > f.X.Max || f.Y.Max <= 0 {
		return nil
	}
	f.Y.Min, f.Y.Max = 0, headroom*f.Y.Max
	f.about = fmt.Sprintf("between %s and %s %s", tickLabel(low), tickLabel(high), m.unit)
	return f
}

// lineOf is a process's values over time.
func lineOf(run telemetry.Process, value func(a, b telemetry.Point) float64, x func(float64) float64) plotter.XYs {
	var line plotter.XYs
	points := run.Points
	step := max(1, len(points)/chartPoints)
	for at := step; at < len(points); at += step {
		a, b := points[at-step], points[at]
		if v := value(a, b); !math.IsNaN(v) && !math.IsInf(v, 0) {
			line = append(line, plotter.XY{X: x(b.Seconds), Y: v})
		}
	}
	return line
}

// timelineProcesses is how many processes the timeline shows at most.
const timelineProcesses = 24

// timeline draws when each of several processes ran.
func (p *Page) timeline() *figure {
	if len(p.Processes) < 2 {
		return nil
	}
	at := p.clock()
	shown := p.Processes[:min(len(p.Processes), timelineProcesses)]
	f := newFigure("When each process ran", at.unit+" since the start", "")
	f.about = fmt.Sprintf("%d processes", len(shown))
	var names []plot.Tick
	for i, run := range shown {
		y := float64(len(shown) - i)
		from := at.offset(run) / at.size
		to := from
		if n := len(run.Points); n > 0 {
			to += run.Points[n-1].Seconds / at.size
		}
		thick := vg.Points(min(10, 100/float64(len(shown))))
		f.line(plotter.XYs{{X: from, Y: y}, {X: to, Y: y}}, processColor(i), thick, nil)
		names = append(names, plot.Tick{Value: y, Label: nameOf(run, i)})
	}
	f.Y.Tick.Marker = plot.ConstantTicks(names)
	f.Y.Min, f.Y.Max = 0.4, float64(len(shown))+0.6
	if f.X.Min > f.X.Max || math.IsInf(f.X.Max, 0) {
		return nil
	}
	return f
}

// nameOf is what a process is called on the page.
func nameOf(run telemetry.Process, i int) string {
	name := visible.Line(valid(run.Name))
	if name == "" {
		return fmt.Sprint("run ", i+1)
	}
	if r := []rune(name); len(r) > 16 {
		name = string(r[:15]) + "…"
	}
	return name
}
