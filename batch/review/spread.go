package review

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/DataDog/sketches-go/ddsketch"
)

// Spread describes how whole numbers are spread. It is exact.
type Spread struct {
	Count  int64   `json:"count"`
	Mean   float64 `json:"mean"`
	Least  int     `json:"least"`
	P10    int     `json:"p10"`
	Median int     `json:"median"`
	P90    int     `json:"p90"`
	P99    int     `json:"p99"`
	Most   int     `json:"most"`
	Bins   []Bin   `json:"histogram"`
}

// Bin counts numbers from From up to To, both included.
type Bin struct {
	From  int   `json:"from"`
	To    int   `json:"to"`
	Count int64 `json:"count"`
}

// statsBins is how many bins a histogram has at most.
const statsBins = 16

// lengths counts how often each length came: there are no more of them than the context of a model has tokens.
type lengths map[int]int64

func (l *lengths) add(n int) {
	if *l == nil {
		*l = lengths{}
	}
	(*l)[n]++
}

func (l lengths) spread() Spread {
	s := Spread{Bins: []Bin{}}
	all := slices.Sorted(maps.Keys(l))
	if len(all) == 0 {
		return s
	}
	sum := 0.0
	for _, n := range all {
		s.Count += l[n]
		sum += float64(n) * float64(l[n])
	}
	quantile := func(q float64) int { return quantileOf(all, func(n int) int64 { return l[n] }, s.Count, q) }
	s.Mean, s.Least, s.Most = sum/float64(s.Count), all[0], all[len(all)-1]
	s.P10, s.Median, s.P90, s.P99 = quantile(0.1), quantile(0.5), quantile(0.9), quantile(0.99)
	width := max(1, (s.Most-s.Least+statsBins)/statsBins)
	for from := s.Least; from <= s.Most; from += width {
		s.Bins = append(s.Bins, Bin{From: from, To: min(from+width-1, s.Most)})
	}
	for n, count := range l {
		s.Bins[(n-s.Least)/width].Count += count
	}
	return s
}

// quantileOf is the q-quantile of count numbers: the least of them that a share q of all does not exceed. So it is one
// of the numbers. values are the different ones in order; times reports how often one is there.
func quantileOf[T cmp.Ordered](values []T, times func(T) int64, count int64, q float64) T {
	rank, seen := int64(math.Ceil(q*float64(count))), int64(0)
	for _, n := range values {
		if seen += times(n); seen >= rank {
			return n
		}
	}
	return values[len(values)-1]
}

// Quantiles describe a distribution of numbers. Mean, least and most are exact, the others within [sketchError] of
// their value.
type Quantiles struct {
	Count  int64   `json:"count"`
	Mean   float64 `json:"mean"`
	Least  float64 `json:"least"`
	P1     float64 `json:"p1"`
	P10    float64 `json:"p10"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Most   float64 `json:"most"`
}

// sketchError is the relative error of quantiles.
const sketchError = 0.005

// sketch takes numbers and estimates their quantiles. It needs at most a few megabytes for any number of them.
type sketch struct {
	inner *ddsketch.DDSketchWithExactSummaryStatistics
	sum   float64
}

func newSketch() *sketch {
	inner, _ := ddsketch.NewDefaultDDSketchWithExactSummaryStatistics(sketchError) // its only error is a bad number
	return &sketch{inner: inner}
}

// add takes a number that is one.
func (s *sketch) add(v float64) bool {
	if math.IsNaN(v) || math.IsInf(v, 0) || s.inner.Add(v) != nil {
		return false
	}
	s.sum += v
	return true
}

// mean takes the mean of a completion's log-probabilities, and each gets them singly.
func (s *sketch) mean(logprobs []float32, each *sketch) {
	sum, n := 0.0, 0
	for _, l := range logprobs {
		if each.add(float64(l)) {
			sum += float64(l)
			n++
		}
	}
	if n > 0 {
		s.add(sum / float64(n))
	}
}

// quantiles are nil if there are no numbers.
func (s *sketch) quantiles() *Quantiles {
	count := s.inner.GetCount()
	if count == 0 {
		return nil
	}
	q := &Quantiles{Count: int64(count), Mean: s.sum / count}
	q.Least, _ = s.inner.GetMinValue() // there are some
	q.Most, _ = s.inner.GetMaxValue()
	times := map[float64]int64{}
	s.inner.ForEach(func(value, count float64) bool {
		times[min(max(value, q.Least), q.Most)] += int64(count)
		return false
	})
	all := slices.Sorted(maps.Keys(times))
	// The sketch's own quantiles round towards 0.
	quantile := func(share float64) float64 {
		return quantileOf(all, func(v float64) int64 { return times[v] }, q.Count, share)
	}
	q.P1, q.P10, q.Median, q.P90, q.P99 = quantile(0.01), quantile(0.1), quantile(0.5), quantile(0.9), quantile(0.99)
	return q
}
