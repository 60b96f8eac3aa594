package report

import (
	"bytes"
	"fmt"
	"html/template"
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// chart is a drawn figure, for pages and for narrow ones, so that texts have one size on both.
type chart struct {
	Title  string
	SVG    template.HTML
	Narrow template.HTML
}

const (
	chartWidth  = 6 * vg.Inch
	narrowWidth = 3.5 * vg.Inch
	chartHeight = 2.2 * vg.Inch
	// headroom is how much higher an axis is than what it shows.
	headroom = 1.06
	// processColors is how many colors there are for processes.
	processColors = 6
)

// Colors stand for the page's: render puts the names of CSS variables in their place, so that a dark page has its own.
var (
	ink        = color.RGBA{R: 1, A: 0xff}
	bound      = color.RGBA{R: 2, A: 0xff}
	textInk    = color.RGBA{R: 3, A: 0xff}
	grid       = color.RGBA{R: 4, A: 0xff}
	processInk = color.RGBA{R: 16, A: 0xff} // inks of further processes follow
)

func processColor(i int) color.Color {
	c := processInk
	c.R += uint8(i % processColors)
	return c
}

// variables are the page's names of these colors.
var variables = func() *strings.Replacer {
	pairs := []string{"#010000", "var(--ink)", "#020000", "var(--bound)", "#030000", "var(--text)", "#040000",
		"var(--grid)"}
	for i := range processColors {
		pairs = append(pairs, fmt.Sprintf("#%02X0000", int(processInk.R)+i), fmt.Sprintf("var(--process-%d)", i))
	}
	return strings.NewReplacer(pairs...)
}()

// figure is a plot that becomes a chart.
type figure struct {
	*plot.Plot
	title string
	about string // what it shows, in words
}

func newFigure(title, x, y string) *figure {
	p := plot.New()
	p.BackgroundColor = color.Transparent
	p.X.Label.Text, p.Y.Label.Text = x, y
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Color, axis.Tick.Color = textInk, textInk
		axis.Label.TextStyle.Color, axis.Tick.Label.Color = textInk, textInk
		for _, style := range []*font.Font{&axis.Label.TextStyle.Font, &axis.Tick.Label.Font} {
			style.Variant, style.Size = "Sans", 9
		}
		axis.Tick.Marker = ticks{}
	}
	g := plotter.NewGrid()
	g.Vertical.Color, g.Horizontal.Color = grid, grid
	p.Add(g)
	return &figure{Plot: p, title: title}
}

// line draws a line. It skips what is not a line: the plotter refuses values that are not numbers.
func (f *figure) line(points plotter.XYs, c color.Color, width vg.Length, dashes []vg.Length) {
	l, err := plotter.NewLine(points)
	if err != nil {
		return
	}
	l.Color, l.Width, l.Dashes = c, width, dashes
	f.Add(l)
}

// ticks are a few round numbers with labels that people read: 25k, not 25000.00.
type ticks struct {
	whole bool // what is counted has no fractions
}

func (t ticks) Ticks(least, most float64) (all []plot.Tick) {
	step := roundStep((most - least) / 6)
	if t.whole {
		step = max(step, 1)
	}
	if !(step > 0) || math.IsInf(step, 0) {
		return nil
	}
	for i := math.Ceil(least / step); i*step <= most && len(all) < 10; i++ {
		all = append(all, plot.Tick{Value: i * step, Label: tickLabel(i * step)})
	}
	return all
}

// roundStep is the least of 1, 2 and 5 times a power of ten that is not below a number.
func roundStep(least float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(least)))
	for _, times := range []float64{1, 2, 5} {
		if times*unit >= least {
			return times * unit
		}
	}
	return 10 * unit
}

func tickLabel(v float64) string {
	suffix := ""
	for _, unit := range []struct {
		size   float64
		suffix string
	}{{1e12, "T"}, {1e9, "G"}, {1e6, "M"}, {1e3, "k"}} {
		if math.Abs(v) >= unit.size {
			v, suffix = v/unit.size, unit.suffix
			break
		}
	}
	return strconv.FormatFloat(math.Round(v*1000)/1000, 'g', 4, 64) + suffix
}

// render draws a figure in the page's colors.
func (f *figure) render() (c chart, err error) {
	c.Title = f.title
	if c.SVG, err = f.svg(chartWidth); err == nil {
		c.Narrow, err = f.svg(narrowWidth)
	}
	return c, err
}

func (f *figure) svg(width vg.Length) (template.HTML, error) {
	canvas := vgsvg.New(width, chartHeight)
	f.Draw(draw.New(canvas))
	var b bytes.Buffer
	if _, err := canvas.WriteTo(&b); err != nil {
		return "", fmt.Errorf("drawing %s: %w", f.title, err)
	}
	// Without the XML declaration, which has no place in a page; texts in it are escaped by the library.
	_, svg, ok := strings.Cut(b.String(), "<svg ")
	if !ok {
		return "", fmt.Errorf("drawing %s gave no SVG", f.title)
	}
	svg = strings.ReplaceAll(svg, "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,sans-serif")
	label := template.HTMLEscapeString(f.title + ": " + f.about)
	return template.HTML(`<svg role="img" aria-label="` + label + `" ` + variables.Replace(svg)), nil
}
