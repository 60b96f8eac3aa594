package report

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
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
	Of                            int64
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
	s.Of, s.Mean = total, float64(sum)/float64(total)
	s.Least, s.Median, s.P90, s.P99, s.Most = keys[0], quantile(0.5), quantile(0.9), quantile(0.99), keys[len(keys)-1]
	return s
}

// bins is how many bars a histogram has at most.
const bins = 40

// histogram draws how often lengths came.
func (l lengths) histogram(title, label string) *figure {
	if len(l) == 0 {
		return nil
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
	h := &plotter.Histogram{Width: float64(width), FillColor: ink, LineStyle: draw.LineStyle{Color: color.Transparent,
		Width: vg.Points(0.5)}}
	for i, n := range counts {
		from := float64(least + i*width)
		h.Bins = append(h.Bins, plotter.HistogramBin{Min: from, Max: from + float64(width), Weight: n})
	}
	f := newFigure(title, "tokens", label)
	f.X.Tick.Marker, f.Y.Tick.Marker = ticks{whole: true}, ticks{whole: true}
	s := l.summary("")
	f.about = fmt.Sprintf("from %d to %d tokens, median %d", s.Least, s.Most, s.Median)
	f.Add(h)
	f.Y.Min, f.Y.Max = 0, headroom*slices.Max(counts)
	return f
}
