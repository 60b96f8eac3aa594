package report

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/internal/plural"
)

// Weights of findings: they choose the colour.
const (
	good = "good"
	warn = "warn"
	bad  = "bad"
)

// tile is a figure.
type tile struct {
	Name, Figure, Text, Weight string
}

// title is the name of an output.
func title(output string) string {
	return cmp.Or(strings.Trim(path.Base(strings.TrimRight(output, "/")), "./"), output)
}

// tiles are the figures that summarize the job. Unknown figures are left out.
func (p *Page) tiles() (all []tile) {
	add := func(name, figure, weight, format string, args ...any) {
		all = append(all, tile{name, figure, fmt.Sprintf(format, args...), weight})
	}
	c := &p.counts
	outputs := c.FinishReasons.Sum()
	rows, weight := humanize.Comma(c.Rows), ""
	if p.Rows > 0 {
		rows += " / " + humanize.Comma(p.Rows)
	}
	done := humanize.Comma(outputs) + plural.Of(outputs, " completion", " completions")
	if p.State == Finished {
		weight = good
	} else if p.Completions > 0 {
		done = humanize.Comma(outputs) + " of " + humanize.Comma(p.Completions) + " completions"
	}
	add("prompts", rows, weight, "%s %s", plural.Of(c.Rows, "prompt done,", "prompts done,"), done)
	if outputs == 0 {
		return all
	}
	weight = good
	if c.RowsWithErrors > 0 {
		weight = bad
	}
	add("errors", humanize.Comma(c.RowsWithErrors), weight, "%s with errors",
		plural.Of(c.RowsWithErrors, "prompt", "prompts"))
	if c.Completions > 0 && c.CompletionTokens > 0 {
		limit := ""
		if p.MaxTokens > 0 {
			limit = " (" + humanize.Comma(p.MaxTokens) + ")"
		}
		weight = good
		if p.cut > 0 {
			weight = warn
		}
		add("cut", percent(p.cut, c.Completions), weight, "cut at max_tokens%s", limit)
	}
	if p.TokensPerSecond > 0 {
		add("rate", short(p.TokensPerSecond), "", "tokens/s, %s completions/s",
			short(p.TokensPerSecond*float64(c.Completions)/float64(max(1, c.CompletionTokens))))
	}
	if wall, machines := spent(p.Processes); wall > 0 {
		add("time", duration(wall), "", "wall time, %s machine-hours", short(machines.Hours()))
	}
	add("tokens", short(float64(c.CompletionTokens)), "", "tokens generated, of %s prompt tokens",
		short(float64(c.PromptTokens)))
	return all
}

// finding is something that stands out.
type finding struct {
	Weight, Text string
	Details      []string
}

// errorKinds is how many kinds of errors are reported first.
const errorKinds = 4

// findings lists what stands out, the worst first; none is best.
func (p *Page) findings() (all []finding) {
	add := func(weight string, format string, args ...any) {
		all = append(all, finding{Weight: weight, Text: fmt.Sprintf(format, args...)})
	}
	c := &p.counts
	share := func(n, all int64, what string) string {
		return fmt.Sprintf("%s of %s %s (%s)", humanize.Comma(n), humanize.Comma(all), plural.Of(all, what, what+"s"),
			percent(n, all))
	}
	if c.RowsWithErrors > 0 {
		add(bad, "%s %s an error", share(c.RowsWithErrors, c.Rows, "prompt"),
			plural.Of(c.RowsWithErrors, "has", "have"))
		kinds := p.errors.All()
		for _, e := range kinds[:min(len(kinds), errorKinds)] {
			all[0].Details = append(all[0].Details, fmt.Sprintf("%s × %s", humanize.Comma(e.Count), cut(e.What)))
		}
		if more := len(kinds) - errorKinds; more > 0 {
			all[0].Details = append(all[0].Details, fmt.Sprintf("and %s more", plural.Count(more, "kind")))
		}
	}
	if p.cut > 0 {
		add(warn, "%s %s cut at max_tokens: a larger --max-tokens lets them end", share(p.cut, c.Completions,
			"completion"), plural.Of(p.cut, "was", "were"))
	}
	if p.empty > 0 {
		add(warn, "%s %s empty", share(p.empty, c.Completions, "completion"), plural.Of(p.empty, "is", "are"))
	}
	if e := p.equal; e.rowsOfOne > 0 {
		add(warn, "%s %s completions that are all equal", share(e.rowsOfOne, e.rows, "prompt"),
			plural.Of(e.rowsOfOne, "has", "have"))
	}
	if e := p.equal; e.completions > 0 {
		add(warn, "%s %s the text of another of the same prompt", share(e.completions, c.Completions, "completion"),
			plural.Of(e.completions, "has", "have"))
	}
	return all
}

// span is when a process ran.
type span struct{ from, to time.Time }

// spent is how long at least one process ran, and the sum of that over machines.
func spent(all []telemetry.Process) (wall, machines time.Duration) {
	byHost := map[string][]span{}
	var whole []span
	for i := range all {
		p := &all[i]
		if len(p.Points) == 0 {
			continue
		}
		last := time.Duration(p.Points[len(p.Points)-1].Seconds * float64(time.Second))
		from := p.Start.Time.Add(-time.Duration(p.Points[0].Seconds * float64(time.Second)))
		if p.End != nil {
			from = p.End.Time.Add(-last)
		}
		s := span{from, from.Add(last)}
		whole = append(whole, s)
		byHost[p.Start.Host] = append(byHost[p.Start.Host], s)
	}
	for _, spans := range byHost {
		machines += union(spans)
	}
	return union(whole), machines
}

// union is how long at least one of them was.
func union(all []span) (sum time.Duration) {
	slices.SortFunc(all, func(a, b span) int { return a.from.Compare(b.from) })
	var until time.Time
	for _, s := range all {
		if s.from.Before(until) {
			s.from = until
		}
		if s.to.After(s.from) {
			sum += s.to.Sub(s.from)
			until = s.to
		}
	}
	return sum
}

// percent is a share for people: never 0 % of some, nor 100 % of not all.
func percent(n, all int64) string {
	share := 100 * float64(n) / float64(max(all, 1))
	switch {
	case n > 0 && share < 0.1:
		return "< 0.1 %"
	case n < all && share > 99.9:
		return "> 99.9 %"
	case share >= 10 && share <= 90 || n == 0 || n == all:
		return fmt.Sprintf("%.0f %%", share)
	}
	return fmt.Sprintf("%.1f %%", share)
}

// short formats a number for people, with three digits.
func short(v float64) string {
	switch {
	case v >= 999.5:
		return strings.Replace(tickLabel(roundTo3(v)), "k", " k", 1)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v < 1:
		return fmt.Sprintf("%.2g", v)
	}
	return fmt.Sprintf("%.3g", v)
}

func roundTo3(v float64) float64 {
	var r float64
	fmt.Sscanf(fmt.Sprintf("%.3g", v), "%g", &r)
	return r
}

// duration is a time for people.
func duration(d time.Duration) string {
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.0f s", d.Seconds())
	case d < time.Hour:
		d = d.Round(time.Second)
		return fmt.Sprintf("%d min %02d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	d = d.Round(time.Minute)
	return fmt.Sprintf("%d h %02d min", int(d.Hours()), int(d.Minutes())%60)
}
