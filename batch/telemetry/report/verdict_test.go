package report

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/quire/quire/batch/telemetry"
)

// Random rows are of all rows alike.
func TestRandomRowsAreOfAllRows(t *testing.T) {
	late := 0
	for n := 1000; n < 1100; n++ {
		p := &Page{}
		for i := range n {
			p.Add(Completion{ID: fmt.Sprint(i), FinishReason: "stop"})
		}
		p.endRow()
		if len(p.chosen.random) != randomRows {
			t.Fatal(len(p.chosen.random))
		}
		for _, s := range p.chosen.random {
			if s.place > int64(n/2) {
				late++
			}
		}
	}
	if share := float64(late) / (100 * randomRows); share < 0.3 || share > 0.7 {
		t.Errorf("%.2f of the random rows are of the second half", share)
	}
}

// The longest and the shortest completions, rows with errors and duplicates can be chosen.
func TestGroups(t *testing.T) {
	p := &Page{}
	for i := range 40 {
		for g := range 2 {
			text := fmt.Sprint("text ", i, max(g, i%4/3)) // of every fourth row twice the same
			c := Completion{ID: fmt.Sprint(i), Generation: g, FinishReason: "stop", Text: text,
				CompletionTokens: 10 + i + g}
			if i%10 == 9 && g == 1 {
				c = Completion{ID: c.ID, Generation: g, FinishReason: "error", Err: "bad"}
			}
			p.Add(c)
		}
	}
	p.endRow()
	got := ""
	for _, g := range p.chosen.groups() {
		if got += g.Name + ":"; g.Name == "random" {
			continue
		}
		for _, c := range g.Cards {
			got += fmt.Sprintf(" %s/%d", c.ID, c.Texts[0].CompletionTokens)
			if c.More != 1 {
				t.Errorf("%s: %d more", c.ID, c.More)
			}
		}
		got += "; "
	}
	want := "random:longest: 38/49 39/49 37/48 36/47 35/46 34/45; shortest: 0/10 1/11 2/12 3/13 4/14 5/15; " +
		"failed: 9/0 19/0 29/0 39/0; equal: 3/14 7/18 11/22 15/26 23/34 27/38; "
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if e := p.equal; e.rows != 36 || e.rowsOfOne != 8 || e.completions != 0 {
		t.Errorf("%+v", e)
	}
}

// What stands out is told, and nothing of a job without anything.
func TestFindings(t *testing.T) {
	texts := func(p *Page) (all []string) {
		p.endRow()
		for _, f := range p.findings() {
			all = append(all, f.Weight+": "+f.Text)
		}
		return all
	}
	p := &Page{}
	p.Add(Completion{ID: "a", FinishReason: "stop", Text: "x", CompletionTokens: 2})
	p.Add(Completion{ID: "b", FinishReason: "stop", Text: "call: f {}", CompletionTokens: 2})
	p.Add(Completion{ID: "c", FinishReason: "length"}) // nothing was to be generated
	if got := texts(p); len(got) > 0 {
		t.Errorf("%q", got)
	}
	p.Add(Completion{ID: "d", FinishReason: "length", Text: "y", CompletionTokens: 8})
	p.Add(Completion{ID: "e", FinishReason: "stop", Text: " \n", CompletionTokens: 1})
	p.Add(Completion{ID: "f", FinishReason: "error", Err: "prompt of 7 tokens is too long"})
	for g := range 3 {
		p.Add(Completion{ID: "g", Generation: g, FinishReason: "stop", Text: "z", CompletionTokens: 1})
		p.Add(Completion{ID: "h", Generation: g, FinishReason: "stop", Text: "zzz"[min(g, 1):], CompletionTokens: 1})
	}
	want := []string{"bad: 1 of 12 prompts (8.3 %) has an error",
		"warn: 1 of 11 completions (9.1 %) was cut at max_tokens: a larger --max-tokens lets them end",
		"warn: 1 of 11 completions (9.1 %) is empty"}
	if got := texts(p); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	p = &Page{}
	for _, id := range []string{"g", "h"} {
		for g := range 3 {
			p.Add(Completion{ID: id, Generation: g, FinishReason: "stop",
				Text: map[string]string{"g": "z", "h": "zzz"[min(g, 1):]}[id]})
		}
	}
	want = []string{"warn: 1 of 2 prompts (50 %) has completions that are all equal",
		"warn: 2 of 6 completions (33 %) have the text of another of the same prompt"}
	if got := texts(p); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

// The time of several processes is told once, on each machine.
func TestSpent(t *testing.T) {
	began := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	run := func(host string, from, seconds float64) telemetry.Process {
		start := began.Add(time.Duration(from * float64(time.Second)))
		return telemetry.Process{Start: telemetry.Start{Time: start.Add(2 * time.Second), Host: host},
			Points: []telemetry.Point{{Seconds: 2}, {Seconds: seconds}},
			End:    &telemetry.End{Time: start.Add(time.Duration(seconds * float64(time.Second)))}}
	}
	wall, machines := spent([]telemetry.Process{run("a", 0, 60), run("a", 30, 60), run("b", 10, 20), run("b", 200, 10),
		{}})
	if wall != 100*time.Second || machines != 120*time.Second {
		t.Error(wall, machines)
	}
	killed := run("a", 0, 60)
	killed.End = nil
	if wall, _ := spent([]telemetry.Process{killed}); wall != time.Minute {
		t.Error(wall)
	}
}

func TestNumbersForPeople(t *testing.T) {
	for _, c := range [][2]string{{percent(0, 5), "0 %"}, {percent(1, 100_000), "< 0.1 %"},
		{percent(99_999, 100_000), "> 99.9 %"}, {percent(5, 5), "100 %"}, {percent(1, 3), "33 %"},
		{short(10885), "10.9 k"}, {short(2731), "2.73 k"}, {short(107.2), "107"}, {short(2.514), "2.51"},
		{short(0.0392), "0.039"}, {short(4_200_000), "4.2M"}, {duration(7500 * time.Millisecond), "7.5 s"},
		{duration(141 * time.Second), "2 min 21 s"}, {duration(59*time.Minute + 59600*time.Millisecond), "60 min 00 s"},
		{duration(26*time.Hour + 5*time.Minute), "26 h 05 min"}} {
		if c[0] != c[1] {
			t.Errorf("%q, want %q", c[0], c[1])
		}
	}
}
