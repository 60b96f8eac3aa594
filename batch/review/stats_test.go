package review

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

func TestStatsOf(t *testing.T) {
	s, err := StatsOf(t.Context(), output(t, [3]any{"a", 0, "x y x"}, [3]any{"a", 1, "x y x"}, [3]any{"a", 2, "v"},
		[3]any{"b", 0, "w"}, [3]any{"c", 0, ""}), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Duplicates{Of: 3, Completions: 2, Repeated: 1, Rows: 1, Share: 2. / 3}
	if s.Rows != 3 || s.RowsWithErrors != 1 || s.Completions != 4 || s.Duplicates != want {
		t.Errorf("%+v", s)
	}
	// The tokens are all 7.
	if d := s.Distinct; d.Over != "tokens" || d.Of != 8 || d.Share != [3]float64{1. / 8, 1. / 4, 1. / 2} {
		t.Errorf("%+v", d)
	}
	l := s.CompletionLengths
	if l.Count != 4 || l.Least != 1 || l.Median != 1 || l.Most != 3 || len(l.Bins) != 3 || l.Bins[2].Count != 2 {
		t.Errorf("%+v", l)
	}
	if s.Logprobs != nil || s.MeanLogprobs != nil || s.PassAtK != nil {
		t.Error("figures of what is not there")
	}
	if len(s.Errors) != 1 || s.Errors[0].What != "it is bad" || s.Errors[0].Count != 1 {
		t.Errorf("%+v", s.Errors)
	}
}

// Lengths have the quantiles of the sorted numbers.
func TestSpreadIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.IntRange(0, 300), 1, 200).Draw(t, "lengths")
		var l lengths
		for _, n := range all {
			l.add(n)
		}
		s := l.spread()
		slices.Sort(all)
		at := func(q float64) int { return all[max(0, int(math.Ceil(q*float64(len(all))))-1)] }
		if s.P10 != at(0.1) || s.Median != at(0.5) || s.P90 != at(0.9) || s.P99 != at(0.99) || s.Most != at(1) {
			t.Fatalf("%+v of %v", s, all)
		}
		var sum int64
		for _, b := range s.Bins {
			sum += b.Count
		}
		if sum != int64(len(all)) || len(s.Bins) > statsBins {
			t.Fatalf("%+v", s.Bins)
		}
	})
}

// Quantiles are within the error that is told.
func TestQuantiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		all := rapid.SliceOfN(rapid.Float64Range(-100, 0), 1, 300).Draw(t, "logprobs")
		s := newSketch()
		for _, v := range all {
			s.add(v)
		}
		s.add(math.Inf(-1)) // which is no number
		q := s.quantiles()
		slices.Sort(all)
		if q.Count != int64(len(all)) || q.Least != all[0] || q.Most != all[len(all)-1] {
			t.Fatalf("%+v of %v", q, all)
		}
		for _, c := range []struct{ q, got float64 }{{0.01, q.P1}, {0.1, q.P10}, {0.5, q.Median}, {0.9, q.P90}} {
			want := all[max(0, int(math.Ceil(c.q*float64(len(all))))-1)] // as lengths have it
			if math.Abs(c.got-want) > 1.01*sketchError*math.Abs(want)+1e-12 {
				t.Fatalf("%g %%: %g, want %g", 100*c.q, c.got, want)
			}
		}
	})
}

// Lengths and logarithms have quantiles by one rule.
func TestQuantilesOfFew(t *testing.T) {
	for _, c := range []struct{ most, median, p1 float64 }{{1, -1, -1}, {2, -2, -2}, {10, -6, -10}, {200, -101, -199}} {
		s := newSketch()
		var l lengths
		for i := 1.0; i <= c.most; i++ {
			s.add(-i)
			l.add(-int(i))
		}
		q, of := s.quantiles(), l.spread()
		near := func(a, b float64) bool { return math.Abs(a-b) <= 1.01*sketchError*math.Abs(b) }
		if !near(q.P1, c.p1) || !near(q.Median, c.median) || float64(of.Median) != c.median ||
			!near(q.P99, float64(of.P99)) || !near(q.P90, float64(of.P90)) {
			t.Errorf("%g numbers: %+v, %+v", c.most, q, of)
		}
	}
	s := newSketch()
	s.add(-1)
	s.add(-5)
	if q := s.quantiles(); math.Round(q.Median) != -5 || math.Round(q.P90) != -1 || math.Round(q.P1) != -5 {
		t.Errorf("-1 and -5: %+v", q)
	}
}

// Many n-grams are estimated well, and few are counted.
func TestDistinct(t *testing.T) {
	was := exactNgrams
	defer func() { exactNgrams = was }()
	exactNgrams = 5000
	g := newNgrams()
	for i := range 20_000 {
		g.add(&promptset.Result{TokenIDs: []int32{int32(i), int32(i), int32(i % 100)}})
	}
	g.add(&promptset.Result{Text: "no tokens"})
	d := g.distinct()
	if d.Of != 60_000 || d.Without != 1 || !d.Estimated[0] || math.Abs(d.Share[0]*60_000-20_000) > 400 ||
		math.Abs(d.Share[1]*40_000-40_000) > 900 {
		t.Errorf("%+v", d)
	}
	words := newNgrams()
	words.add(&promptset.Result{Text: "a b  a"})
	if d := words.distinct(); d.Over != "words" || d.Of != 3 || d.Share != [3]float64{2. / 3, 1, 1} || d.Estimated[0] {
		t.Errorf("%+v", d)
	}
}

// The estimator is the share of choices of k of n that have a right one.
func TestPassAt(t *testing.T) {
	for n := 1; n <= 8; n++ {
		for c := 0; c <= n; c++ {
			for k := 1; k <= n; k++ {
				hit, all := 0, 0
				for set := range 1 << n {
					if ones := strings.Count(fmt.Sprintf("%b", set), "1"); ones != k {
						continue
					}
					all++
					if set&(1<<c-1) != 0 { // the first c are right
						hit++
					}
				}
				if got, want := passAt(n, c, k), float64(hit)/float64(all); math.Abs(got-want) > 1e-12 {
					t.Errorf("n %d, c %d, k %d: %g, want %g", n, c, k, got, want)
				}
			}
		}
	}
}

func TestVerdicts(t *testing.T) {
	out := output(t, [3]any{"1", 0, "x"}, [3]any{"1", 1, "y"}, [3]any{"1", 2, "z"}, [3]any{"2", 0, "x"},
		[3]any{"2", 1, "x"}, [3]any{"3", 0, ""})
	of := func(lines ...string) (*PassAtK, error) {
		path := filepath.Join(t.TempDir(), "verdicts.jsonl")
		if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")), 0o666); err != nil {
			t.Fatal(err)
		}
		v := VerdictsOf(t.Context(), promptset.OpenOutputFile(t.Context(), path), path, "ok", []int{1, 2, 3, 9})
		s, err := StatsOf(t.Context(), out, v)
		if err != nil {
			return nil, err
		}
		return s.PassAtK, nil
	}
	lines := []string{`{"id":1,"generation":0,"ok":1}`, `{"id":1,"generation":1,"ok":0}`,
		`{"id":1,"generation":2,"ok":0.0}`, `{"id":"2","generation":0,"ok":false}`,
		`{"id":"2","generation":1,"ok":null}`, `{"id":"3","generation":0,"ok":true}`}
	for range 2 {
		p, err := of(lines...)
		if err != nil {
			t.Fatal(err)
		}
		if p.Verdicts != 4 || p.Passed != 1 || p.Prompts != 2 || p.Without != 1 || p.Failed != 1 {
			t.Errorf("%+v", p)
		}
		want := []Pass{{1, 1. / 6, 2}, {2, 2. / 3, 1}, {3, 1, 1}, {9, 0, 0}}
		for i := range want {
			got := p.At[i]
			if got.K != want[i].K || got.Prompts != want[i].Prompts || math.Abs(got.Share-want[i].Share) > 1e-12 {
				t.Errorf("%+v, want %+v", p.At, want)
			}
		}
		slices.Reverse(lines) // their order does not matter
	}
	for _, c := range []struct{ line, want string }{
		{`{"id":1,"generation":0,"ok":2}`, "row 0: ok is 2; it must be true, false, 1, 0 or null"},
		{`{"id":1,"generation":0,"fine":1}`, "line 1: it has no key ok"},
		{`{"id":1,"generation":"0","ok":1}`, "generation is 0; it must be a whole number"},
		{`{"id":[1],"generation":0,"ok":1}`, "id is a list"},
		{`{"id":7,"generation":0,"ok":1}`, "belongs to a completion"},
	} {
		if p, err := of(c.line); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %+v %v", c.line, p, err)
		}
	}
}

// A row that may end early passes by its first accepted completion; one that has all has the chance of k of them.
func TestJudgedCounts(t *testing.T) {
	row := func(verdicts string) (all []promptset.Result) {
		for _, v := range verdicts {
			judgment := map[rune]completion.Judgment{'+': completion.Accepted, '-': completion.Rejected}[v]
			all = append(all, promptset.Result{Judgment: judgment})
		}
		return all
	}
	for _, c := range []struct {
		inOrder, votes bool
		want           string
	}{
		{true, false, "1: 0.25 of 4, 2: 0.5 of 4, 4: 0.75 of 4, "},
		// (1 + 1/2 + 0 + 1/5) / 4, (1 + 0 + 2/5) / 3, (0 + 4/5) / 2
		{false, false, "1: 0.425 of 4, 2: 0.4667 of 3, 4: 0.4 of 2, "},
		{true, true, ""},
	} {
		j := judgedCounts{inOrder: c.inOrder, votes: c.votes, rows: map[judgedRow]int64{}}
		for _, verdicts := range []string{"+", "-+", "----", "---+-", "", "?"} {
			j.row(row(verdicts))
		}
		got := ""
		r := j.result()
		for _, pass := range r.At {
			got += fmt.Sprintf("%d: %.4g of %d, ", pass.K, pass.Share, pass.Prompts)
			if pass.Low > pass.Share || pass.High < pass.Share {
				t.Errorf("%g is not between %g and %g", pass.Share, pass.Low, pass.High)
			}
		}
		if got != c.want || r.Prompts != 4 || r.Accepted != 3 || r.Completions != 12 || r.AllAccepted != 1 ||
			r.AllRejected != 1 {
			t.Errorf("%+v: %s, want %s", r, got, c.want)
		}
	}
}
