package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/quire/quire/telemetry"
)

// lengths counts how often each length came.
type lengths map[int]int64

func (l *lengths) add(n int) {
	if *l == nil {
		*l = lengths{}
	}
	(*l)[n]++
}

type summary struct {
	Name                          string
	Mean                          float64
	Least, Median, P90, P99, Most int
}

func (l lengths) summary(name string) summary {
	s := summary{Name: name}
	keys := slices.Sorted(maps.Keys(l))
	var total, sum int64
	for _, k := range keys {
		total += l[k]
		sum += int64(k) * l[k]
	}
	if total == 0 {
		return s
	}
	quantile := func(q float64) int {
		var seen int64
		for _, k := range keys {
			if seen += l[k]; float64(seen) >= q*float64(total) {
				return k
			}
		}
		return keys[len(keys)-1]
	}
	s.Mean = float64(sum) / float64(total)
	s.Least, s.Median, s.P90, s.P99, s.Most = keys[0], quantile(0.5), quantile(0.9), quantile(0.99), keys[len(keys)-1]
	return s
}

// chart is a drawn figure.
type chart struct {
	Title string
	SVG   template.HTML
}

const (
	chartWidth  = 6 * vg.Inch
	chartHeight = 2.2 * vg.Inch
	// chartPoints is how many points a line has at most.
	chartPoints = 400
	bins        = 40
)

var (
	ink   = color.RGBA{R: 0x1f, G: 0x5f, B: 0xa8, A: 0xff}
	bound = color.RGBA{R: 0xb0, G: 0xb0, B: 0xb0, A: 0xff}
)

// charts draws all figures for which there is data.
func (p *Page) charts() ([]chart, error) {
	var out []chart
	var problem error
	add := func(title string, plot *plot.Plot, err error) {
		if err == nil && plot != nil {
			var c chart
			if c, err = render(title, plot); err == nil {
				out = append(out, c)
			}
		}
		if problem == nil {
			problem = err
		}
	}
	rate := func(of func(telemetry.Point) float64) func(a, b telemetry.Point) float64 {
		return func(a, b telemetry.Point) float64 { return (of(b) - of(a)) / max(b.Seconds-a.Seconds, 1e-9) }
	}
	if points := 0; p.Processes != nil {
		for _, run := range p.Processes {
			points += len(run.Points)
		}
		if points > 1 {
			line, err := p.overTime("tokens/s", rate(func(q telemetry.Point) float64 { return float64(q.Tokens) }), nil)
			add("Tokens drawn per second", line, err)
			line, err = p.overTime("rows/s", rate(func(q telemetry.Point) float64 { return float64(q.Rows) }), nil)
			add("Rows per second", line, err)
			line, err = p.overTime("slots", func(_, b telemetry.Point) float64 { return float64(b.Active) },
				func(s telemetry.Start) int { return s.Slots })
			add("Slots in use", line, err)
			line, err = p.overTime("pages", func(_, b telemetry.Point) float64 { return float64(b.Pages) },
				func(s telemetry.Start) int { return s.Pages })
			add("Pages in use", line, err)
			line, err = p.overTime("ms", func(a, b telemetry.Point) float64 {
				if b.Calls == a.Calls {
					return 0
				}
				return 1000 * (b.CallSeconds - a.CallSeconds) / float64(b.Calls-a.Calls)
			}, nil)
			add("Mean duration of a call", line, err)
		}
	}
	h, err := p.textLens.histogram()
	add("Length of completions, tokens", h, err)
	h, err = p.promptLens.histogram()
	add("Length of prompts, tokens", h, err)
	return out, problem
}

// overTime draws a line for each process, over the minutes since the first began, and a thin one for a limit.
func (p *Page) overTime(unit string, value func(a, b telemetry.Point) float64,
	limit func(telemetry.Start) int) (*plot.Plot, error) {
	figure := newPlot("minutes", unit)
	began := p.Processes[0].Start.Time
	for _, run := range p.Processes {
		offset := run.Start.Time.Sub(began).Seconds()
		points := run.Points
		step := max(1, len(points)/chartPoints)
		var line plotter.XYs
		for at := step; at < len(points); at += step {
			a, b := points[at-step], points[at]
			if v := value(a, b); !math.IsNaN(v) && !math.IsInf(v, 0) {
				line = append(line, plotter.XY{X: (offset + b.Seconds) / 60, Y: v})
			}
		}
		if len(line) < 2 {
			continue
		}
		l, err := plotter.NewLine(line)
		if err != nil {
			return nil, err
		}
		l.Color, l.Width = ink, vg.Points(1.2)
		figure.Add(l)
		if limit != nil {
			y := float64(limit(run.Start))
			top, err := plotter.NewLine(plotter.XYs{{X: line[0].X, Y: y}, {X: line[len(line)-1].X, Y: y}})
			if err != nil {
				return nil, err
			}
			top.Color, top.Dashes = bound, []vg.Length{vg.Points(4), vg.Points(3)}
			figure.Add(top)
		}
	}
	figure.Y.Min = 0
	if figure.X.Min > figure.X.Max || figure.Y.Max <= 0 {
		return nil, nil
	}
	return figure, nil
}

func (l lengths) histogram() (*plot.Plot, error) {
	if len(l) == 0 {
		return nil, nil
	}
	least, most := math.MaxInt, 0
	for k := range l {
		least, most = min(least, k), max(most, k)
	}
	width := max(1, (most-least+bins)/bins)
	counts := make([]float64, (most-least)/width+1)
	for k, n := range l {
		counts[(k-least)/width] += float64(n)
	}
	h := &plotter.Histogram{Width: float64(width), FillColor: ink, LineStyle: draw.LineStyle{Color: color.White,
		Width: vg.Points(0.5)}}
	for i, n := range counts {
		from := float64(least + i*width)
		h.Bins = append(h.Bins, plotter.HistogramBin{Min: from, Max: from + float64(width), Weight: n})
	}
	figure := newPlot("tokens", "number")
	figure.Add(h)
	figure.Y.Min = 0
	return figure, nil
}

func newPlot(x, y string) *plot.Plot {
	p := plot.New()
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, style := range []*font.Font{&p.X.Label.TextStyle.Font, &p.Y.Label.TextStyle.Font, &p.X.Tick.Label.Font,
		&p.Y.Tick.Label.Font} {
		style.Variant = "Sans"
		style.Size = 9
	}
	p.Add(plotter.NewGrid())
	return p
}

func render(title string, p *plot.Plot) (chart, error) {
	canvas := vgsvg.New(chartWidth, chartHeight)
	p.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return chart{}, fmt.Errorf("drawing %s: %w", title, err)
	}
	// Without the XML declaration, which has no place in a page; texts in it are ours, and the library escapes them.
	_, svg, ok := strings.Cut(b.String(), "<svg ")
	if !ok {
		return chart{}, fmt.Errorf("drawing %s gave no SVG", title)
	}
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,sans-serif")
	return chart{Title: title, SVG: template.HTML(`<svg role="img" aria-label="` + template.HTMLEscapeString(title) +
		`" ` + svg)}, nil
}
