package report

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/internal/visible"
)

//go:embed page.html
var pageText string

var pageTemplate = template.Must(template.New("page").Funcs(template.FuncMap{
	"count":   func(n int64) string { return humanize.Comma(n) },
	"percent": func(n, all int64) string { return percent(n, all) },
	"share":   func(n, all int64) float64 { return 100 * float64(n) / float64(max(all, 1)) },
	"seconds": func(s float64) string { return duration(time.Duration(s * float64(time.Second))) },
	"millis":  func(s float64) string { return fmt.Sprintf("%.1f ms", 1000*s) },
	"valid":   valid,
}).Parse(pageText))

// slowestRows is how many of the slowest rows are shown.
const slowestRows = 12

// Write writes the page.
func (p *Page) Write(w io.Writer) error {
	p.endRow()
	charts, err := p.charts()
	if err != nil {
		return err
	}
	var ends []named
	p.counts.FinishReasons.Each(func(name string, n int64) {
		if n > 0 {
			ends = append(ends, named{name, n})
		}
	})
	slices.Reverse(ends) // stop, length, error
	var lengths []summary
	for _, s := range []summary{p.promptLens.summary("prompt tokens"), p.textLens.summary("completion tokens")} {
		if s.Of > 0 {
			lengths = append(lengths, s)
		}
	}
	processes, slowest := p.processes()
	weights, weightsBefore := p.weightsTable()
	shown := visible.NewWriter(w) // a browser obeys marks that turn text around
	err = pageTemplate.Execute(shown, map[string]any{
		"Page": p, "Title": title(p.Output), "Tiles": p.tiles(), "Findings": p.findings(), "Ends": ends,
		"Outputs": p.counts.FinishReasons.Sum(), "Errors": p.errors.All(), "Groups": p.chosen.groups(),
		"Processes": processes, "Charts": charts, "Slowest": slowest, "Lengths": lengths,
		"Weights": weights, "WeightsBefore": weightsBefore, "Versions": len(p.Versions) > 0,
	})
	if err != nil {
		return err
	}
	return shown.Flush()
}

// processes returns the processes as they are shown, and the slowest rows of all, each once.
func (p *Page) processes() (processes []process, slowest []telemetry.Row) {
	places, names := p.names()
	now := time.Now()
	for i, run := range p.Processes {
		color := template.CSS(fmt.Sprintf("var(--process-%d)", places[i]%processColors))
		one := process{Name: names[places[i]], Color: color, Start: run.Start, Result: "was killed"}
		switch {
		case run.End != nil:
			one.Result = run.End.Result
		case run.Fresh(now):
			one.Result = "runs"
		}
		if n := len(run.Points); n > 0 {
			last := run.Points[n-1]
			one.Seconds, one.Completions, one.Tokens = last.Seconds, last.FinishReasons.Sum(), last.CompletionTokens
		}
		processes = append(processes, one)
		slowest = append(slowest, run.Slowest...)
	}
	slices.SortStableFunc(slowest, func(a, b telemetry.Row) int { return cmp.Compare(b.Seconds, a.Seconds) })
	seen := map[string]bool{}
	slowest = slices.DeleteFunc(slowest, func(r telemetry.Row) bool {
		was := seen[r.ID]
		seen[r.ID] = true
		return was
	})
	return processes, slowest[:min(len(slowest), slowestRows)]
}
