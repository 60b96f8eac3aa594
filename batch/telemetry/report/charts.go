package report

import (
	"fmt"
	"image/color"
	"math"
	"slices"
	"time"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/internal/visible"
)

// chartPoints is about how many points a line has at most. A point is of all that was measured since the one before.
const chartPoints = 120

// measure is something that changes while a process runs.
type measure struct {
	title, unit string
	value       func([]telemetry.Point) float64 // between the first and the last
	// counts is what value needs more of: a point of the line is of all since the count last grew. A call of many steps
	// counts all its tokens at its end, between which there were not none. nil: each point will do.
	counts func(telemetry.Point) float64
	limit  func(telemetry.Start) int // its upper limit, shown as a thin line; nil for none
}

// measures are the figures over time.
var measures = []measure{
	{title: "Tokens per second", unit: "tokens/s", value: rate(tokens), counts: tokens},
	{title: "Rows per second", unit: "rows/s", value: rate(rows), counts: rows},
	{title: "Slots in use", unit: "slots",
		value: func(w []telemetry.Point) float64 {
			sum := 0.0
			for _, q := range w[1:] {
				sum += float64(q.Active)
			}
			return sum / float64(len(w)-1)
		},
		limit: func(s telemetry.Start) int { return s.Slots }},
	{title: "Most pages in use", unit: "pages",
		value: func(w []telemetry.Point) float64 {
			most := 0
			for _, q := range w[1:] {
				most = max(most, q.Pages)
			}
			return float64(most)
		},
		limit: func(s telemetry.Start) int { return s.Pages }},
	{title: "Mean duration of a call", unit: "ms", value: func(w []telemetry.Point) float64 {
		a, b := w[0], w[len(w)-1]
		return 1000 * (b.CallSeconds - a.CallSeconds) / (calls(b) - calls(a))
	}, counts: calls},
}

func tokens(q telemetry.Point) float64 { return float64(q.Tokens) }
func rows(q telemetry.Point) float64   { return float64(q.Rows) }
func calls(q telemetry.Point) float64  { return float64(q.Calls) }

func rate(value func(telemetry.Point) float64) func([]telemetry.Point) float64 {
	return func(w []telemetry.Point) float64 {
		a, b := w[0], w[len(w)-1]
		return (value(b) - value(a)) / max(b.Seconds-a.Seconds, 1e-9)
	}
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
		figures = append(figures, p.timeline(), p.weightsOverTime())
	}
	figures = append(figures, p.textLens.histogram("Length of completions, tokens", "completions"),
		p.promptLens.histogram("Length of prompts, tokens", "rows"))
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
		span = max(span, c.offset(run)+lastSecond(run))
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

// overTime draws a line for each process, and a thin one for a limit. It is nil if there is nothing to draw.
func (p *Page) overTime(m measure) *figure {
	clock := p.clock()
	f := newFigure(m.title, clock.unit+" since the start", m.unit)
	places, _ := p.names()
	low, high := math.Inf(1), 0.0
	for i, run := range p.Processes {
		line := lineOf(run, m, func(seconds float64) float64 { return (clock.offset(run) + seconds) / clock.size })
		if len(line) < 2 {
			continue
		}
		for _, q := range line {
			low, high = min(low, q.Y), max(high, q.Y)
		}
		f.line(line, processColor(places[i]), vg.Points(1.2), nil)
		if m.limit != nil {
			y := float64(m.limit(run.Start))
			f.line(plotter.XYs{{X: line[0].X, Y: y}, {X: line[len(line)-1].X, Y: y}}, bound, vg.Points(1),
				[]vg.Length{vg.Points(4), vg.Points(3)})
		}
	}
	if f.X.Min > f.X.Max || f.Y.Max <= 0 {
		return nil
	}
	f.X.Min, f.Y.Min, f.Y.Max = min(f.X.Min, 0), 0, headroom*f.Y.Max
	f.about = fmt.Sprintf("between %s and %s %s", tickLabel(low), tickLabel(high), m.unit)
	return f
}

// lineOf is a process's values over time.
func lineOf(run telemetry.Process, m measure, x func(float64) float64) plotter.XYs {
	var line plotter.XYs
	points := run.Points
	step := max(1, len(points)/chartPoints)
	from := 0
	for index := step; index < len(points); index += step {
		if m.counts != nil && m.counts(points[index]) == m.counts(points[from]) {
			continue
		}
		if v := m.value(points[from : index+1]); !math.IsNaN(v) && !math.IsInf(v, 0) {
			line = append(line, plotter.XY{X: x(points[index].Seconds), Y: v})
		}
		from = index
	}
	return line
}

// timelineRows is how many rows a timeline shows at most.
const timelineRows = 24

// bar is when something was the case, in seconds.
type bar struct {
	row      int
	from, to float64
	color    color.Color
}

// bars draws a timeline, with a row for each name, the first at the top.
func (p *Page) bars(title string, names []string, bars []bar) *figure {
	clock := p.clock()
	rows := len(names)
	f := newFigure(title, clock.unit+" since the start", "")
	for _, b := range bars {
		y := float64(rows - b.row)
		thick := vg.Points(min(10, 100/float64(rows)))
		f.line(plotter.XYs{{X: b.from / clock.size, Y: y}, {X: b.to / clock.size, Y: y}}, b.color, thick, nil)
	}
	var ticks []plot.Tick
	for i, name := range names {
		if r := []rune(name); len(r) > 16 {
			name = string(r[:15]) + "…"
		}
		ticks = append(ticks, plot.Tick{Value: float64(rows - i), Label: name})
	}
	f.Y.Tick.Marker = plot.ConstantTicks(ticks)
	f.Y.Min, f.Y.Max = 0.4, float64(rows)+0.6
	if f.X.Min > f.X.Max || math.IsInf(f.X.Max, 0) {
		return nil
	}
	f.X.Min = min(f.X.Min, 0)
	return f
}

// timeline draws when each of several processes ran. Processes of one name have one row: a worker that was started
// again.
func (p *Page) timeline() *figure {
	if len(p.Processes) < 2 {
		return nil
	}
	clock := p.clock()
	places, names := p.names()
	rows := min(len(names), timelineRows)
	title := "When each process ran"
	if rows < len(names) {
		title += fmt.Sprintf(", the first %d of %d", rows, len(names))
	}
	var all []bar
	for i, run := range p.Processes {
		if places[i] < rows {
			from := clock.offset(run)
			all = append(all, bar{places[i], from, from + lastSecond(run), processColor(places[i])})
		}
	}
	f := p.bars(title, names[:rows], all)
	if f != nil {
		f.about = fmt.Sprintf("%d processes", len(p.Processes))
	}
	return f
}

// lastSecond is when a process was seen last, in seconds after its start.
func lastSecond(run telemetry.Process) float64 {
	if n := len(run.Points); n > 0 {
		return run.Points[n-1].Seconds
	}
	return 0
}

// names returns what processes are called on the page, and which name each has. Processes without a name have one each.
func (p *Page) names() (places []int, names []string) {
	for i, run := range p.Processes {
		name := visible.Line(valid(run.Name))
		place := slices.Index(names, name)
		if name == "" {
			name, place = fmt.Sprint("run ", i+1), -1
		}
		if place < 0 {
			place = len(names)
			names = append(names, name)
		}
		places = append(places, place)
	}
	return places, names
}
