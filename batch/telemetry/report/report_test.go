package report

import (
	"bytes"
	"context"
	"encoding/xml"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"gonum.org/v1/plot"

	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/data/tally"
)

// evil is what a model or a file may say.
const evil = `</pre><script>window.pwned = 1</script><img src="https://tracker.example/x.png" onerror="window.pwned = 2"> & "quotes" 🙂`

// full is a page with everything on it: two processes, errors, texts that try to be more than text.
func full() *Page {
	p := &Page{Output: "out/" + evil, Facts: [][2]string{{"model", evil}, {"seed", "7"}}}
	began := time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)
	for i := range 2 {
		run := telemetry.Process{Start: telemetry.Start{Time: began.Add(time.Duration(i) * 20 * time.Minute),
			Model: evil, Backend: "xla:cpu", Slots: 64, Pages: 1000}, Name: []string{"", evil}[i]}
		for s := range 600 {
			run.Points = append(run.Points,
				telemetry.Point{Seconds: float64(s), Counts: tally.Counts{Rows: int64(s / 2), Completions: int64(s)},
					Tokens: int64(100 * s), Calls: int64(s),
					CallSeconds: 0.3 * float64(s), Active: 40 + s%20, Pages: 500 + s%300})
		}
		run.Slowest = []telemetry.Row{{ID: "slow " + evil, Seconds: float64(90 - i), Tokens: 5, Err: evil},
			{ID: "b", Seconds: 3}}
		if i == 1 {
			run.End = &telemetry.End{Result: "finished"}
		}
		p.Processes = append(p.Processes, run)
	}
	for row := range 1000 {
		for g := range 3 {
			c := Completion{ID: fmt.Sprint("row ", row), Generation: g, Prompt: fmt.Sprint("prompt ", row),
				Text: "text " + evil, FinishReason: "stop", PromptTokens: 5 + row%50, CompletionTokens: row % 200}
			if row%100 == 3 {
				c.FinishReason, c.Err, c.Text = "error", evil, ""
			}
			p.Add(c)
		}
	}
	return p
}

func write(t testing.TB, p *Page) string {
	t.Helper()
	var b bytes.Buffer
	if err := p.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestPage(t *testing.T) {
	text := write(t, full())
	for _, bad := range []string{"<script", "<img", "onerror=\"", "<link", "@import", "url("} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %s", bad)
		}
	}
	for _, want := range []string{"Tokens per second", "Slots in use", "Most pages in use",
		"Length of completions", "3,000 completions", "10 of 1,000 prompts (1.0 %) have an error", ">30</td>",
		"was killed", "finished", "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	if len(text) > 1<<20 {
		t.Errorf("the page has %d bytes", len(text))
	}
}

// A page of a large output stays small, and is the same every time.
func TestPageIsBounded(t *testing.T) {
	make := func() string {
		p := &Page{Output: "out"}
		for i := range 50_000 {
			p.Add(Completion{ID: fmt.Sprint(i), Prompt: strings.Repeat("x", 3000), Text: strings.Repeat("y", 3000),
				FinishReason:     fmt.Sprint("reason ", i%100),
				CompletionTokens: i,
				Err:              map[bool]string{true: "error " + strings.Repeat("x", i%1000)}[i%3 == 0]})
		}
		return write(t, p)
	}
	a := make()
	if len(a) > 1<<20 || a != make() {
		t.Errorf("%d bytes", len(a))
	}
	if strings.Count(a, `<tr><td class="n">`) > 101 {
		t.Error("not all kinds of errors can be shown")
	}
}

// An output without anything, and a series of one point, make a page too.
func TestPageOfLittle(t *testing.T) {
	for _, p := range []*Page{
		{Output: "empty"},
		{Output: "one", Processes: []telemetry.Process{{Points: []telemetry.Point{{Seconds: 1}}}}},
		{Output: "still", Processes: []telemetry.Process{
			{Points: []telemetry.Point{{Seconds: 1}, {Seconds: 1}, {Seconds: 1}}}}},
		{Output: "bad", Processes: []telemetry.Process{
			{Points: []telemetry.Point{{Seconds: -1e300}, {Seconds: 1e300, Tokens: -1 << 63},
				{Seconds: 2, Active: 1 << 60}}}}},
	} {
		write(t, p)
	}
	p := &Page{Output: "o"}
	p.Add(Completion{ID: "a", Text: "\xff\xfe", FinishReason: "stop"})
	p.Add(Completion{ID: "b", FinishReason: "length", CompletionTokens: 8})
	text := write(t, p)
	if !strings.Contains(text, "8 tokens, no text") || strings.Contains(text, "<pre></pre>") {
		t.Error("a completion without text is not shown as such")
	}
	if !strings.Contains(text, `\xff\xfe`) {
		t.Error("bytes that are no text are not shown as such")
	}
}

// Ticks are few round numbers.
func TestTicks(t *testing.T) {
	for _, c := range []struct {
		least, most float64
		want        string
	}{
		{0, 23, "0 5 10 15 20"}, {0, 64, "0 20 40 60"}, {0, 26_500, "0 5k 10k 15k 20k 25k"},
		{0, 1.06, "0 0.2 0.4 0.6 0.8 1"}, {3, 54, "10 20 30 40 50"}, {5, 5, ""},
		{math.Inf(-1), 1, ""}, {-1e300, 1e300, "a few"},
	} {
		var labels []string
		for _, tick := range (ticks{}).Ticks(c.least, c.most) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want && c.most < 1e299 || len(labels) > 10 {
			t.Errorf("%g to %g: %s, want %s", c.least, c.most, got, c.want)
		}
	}
	// Rows and tokens are whole: no tick is a part of one.
	l := lengths{8: 4}
	f := l.histogram("lengths", "rows")
	for _, c := range []struct {
		axis *plot.Axis
		want string
	}{{&f.X, "8 9"}, {&f.Y, "0 1 2 3 4"}} {
		var labels []string
		for _, tick := range c.axis.Tick.Marker.Ticks(c.axis.Min, c.axis.Max) {
			labels = append(labels, tick.Label)
		}
		if got := strings.Join(labels, " "); got != c.want {
			t.Errorf("a histogram has the ticks %s, want %s", got, c.want)
		}
	}
}

// A short run has seconds on its axis, and no line touches the frame.
func TestAxes(t *testing.T) {
	for span, unit := range map[float64]string{23: "seconds", 900: "minutes", 20_000: "hours"} {
		run := telemetry.Process{Start: telemetry.Start{Slots: 64, Pages: 100}}
		for i := range 11 {
			at := span / 10 * float64(i)
			run.Points = append(run.Points, telemetry.Point{Seconds: at, Tokens: int64(100 * at), Calls: int64(i),
				Counts: tally.Counts{Rows: int64(i)}, CallSeconds: at, Active: 64, Pages: 100})
		}
		p := &Page{Processes: []telemetry.Process{run}}
		for _, m := range measures {
			f := p.overTime(m)
			if f == nil || f.X.Label.Text != unit+" since the start" {
				t.Fatalf("%s of %g s: %+v", m.title, span, f)
			}
			for _, q := range lineOf(run, m, func(x float64) float64 { return x }) {
				if q.Y > 0.96*f.Y.Max {
					t.Errorf("%s of %g s: %g of an axis that ends at %g", m.title, span, q.Y, f.Y.Max)
				}
			}
		}
	}
}

// A worker that was started again has one name and one row; runs have numbers.
func TestNames(t *testing.T) {
	p := &Page{Processes: []telemetry.Process{{Name: "w-a"}, {}, {Name: "w-b"}, {Name: "w-a"}, {}}}
	places, names := p.names()
	if !slices.Equal(places, []int{0, 1, 2, 0, 3}) || !slices.Equal(names, []string{"w-a", "run 2", "w-b", "run 5"}) {
		t.Error(places, names)
	}
}

// Charts are well-formed XML.
func TestChartsAreWellFormed(t *testing.T) {
	charts, err := full().charts()
	if err != nil || len(charts) != 8 {
		t.Fatal(len(charts), err)
	}
	for _, c := range charts {
		d := xml.NewDecoder(strings.NewReader(string(c.SVG)))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", c.Title, err)
			}
		}
	}
}

func browser(t *testing.T) string {
	for _, name := range []string{"chromium-headless-shell", "headless-shell", "chromium", "chromium-browser",
		"google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Skip("no Chromium is installed: apt-get install chromium-headless-shell")
	return ""
}

// In a browser the page shows what it should, runs nothing, and asks nobody for anything.
func TestInBrowser(t *testing.T) {
	path := filepath.Join(t.TempDir(), "report.html")
	if err := os.WriteFile(path, []byte(write(t, full())), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(browser(t)), chromedp.NoSandbox)...)
	defer cancel()
	ctx, cancel = chromedp.NewContext(ctx)
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, 90*time.Second)
	defer cancel()
	var asked, said []string
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			asked = append(asked, e.Request.URL)
		case *runtime.EventExceptionThrown:
			said = append(said, e.ExceptionDetails.Text)
		case *runtime.EventConsoleAPICalled:
			said = append(said, fmt.Sprint(e.Type))
		case *page.EventJavascriptDialogOpening:
			said = append(said, e.Message)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := chromedp.Do(ctx, chromedp.Navigate("file://"+path), chromedp.WaitVisible("div#samples")); err != nil {
		t.Fatal(err)
	}
	text := func(selector string) string {
		got, err := chromedp.Run(ctx, chromedp.Text(selector))
		if err != nil {
			t.Fatal(selector, err)
		}
		return got
	}
	// What is folded is shown by a click; here all at once.
	if _, err := chromedp.Run(ctx, chromedp.Evaluate[bool](
		`(document.querySelectorAll("details").forEach(d => d.open = true), true)`)); err != nil {
		t.Fatal(err)
	}
	facts, samples, errorText := text("#facts"), text("#samples pre:not(.prompt)"), text("#errors")
	pwned, err := chromedp.Run(ctx, chromedp.Evaluate[string]("String(window.pwned)"))
	if err != nil {
		t.Fatal(err)
	}
	counts, err := chromedp.Run(ctx, chromedp.Evaluate[map[string]float64](`({
		charts: [...document.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width > 300 && s.getBoundingClientRect().height > 100).length,
		lines: document.querySelectorAll("svg path").length,
		scripts: document.scripts.length, images: document.images.length,
		processes: document.querySelectorAll("#processes tr").length, slowest: document.querySelectorAll("#slowest tr").length,
		samples: [...document.querySelectorAll("#samples .card")].filter(c => c.getClientRects().length).length,
		wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
	})`))
	if err != nil {
		t.Fatal(err)
	}
	if pwned != "undefined" || counts["scripts"] != 0 || counts["images"] != 0 || len(said) != 0 {
		t.Errorf("something ran: %s %v %v", pwned, counts, said)
	}
	if len(asked) != 1 || asked[0] != "file://"+path {
		t.Errorf("it asked for %v", asked)
	}
	if !strings.Contains(facts, evil) || !strings.Contains(samples, evil) || !strings.Contains(errorText, evil) {
		t.Errorf("texts are not shown as they are: %q %q %q", facts, samples, errorText)
	}
	if counts["charts"] != 8 || counts["lines"] < 50 || counts["processes"] != 3 || counts["slowest"] != 3 ||
		counts["samples"] != randomRows {
		t.Errorf("%v", counts)
	}
	if counts["wide"] > 0 {
		t.Errorf("the page is %g pixels too wide", counts["wide"])
	}
	for _, theme := range []string{"light", "dark"} {
		for _, width := range []int64{380, 800, 1200, 1900} {
			checkLayout(t, ctx, theme, width)
		}
	}
}

// checkLayout looks at the page in a theme and a width: nothing makes it scroll sideways, numbers stay on one line,
// text stands out from its background, charts use the width, and their texts can be read.
func checkLayout(t *testing.T, ctx context.Context, theme string, width int64) {
	t.Helper()
	err := chromedp.Do(ctx, chromedp.EmulateViewport(width, 900))
	if err == nil {
		_, err = chromedp.Call(ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: theme}}})
	}
	if err != nil {
		t.Fatal(err)
	}
	if to := os.Getenv("QUIRE_SCREENSHOTS"); to != "" {
		shot, err := chromedp.Run(ctx, chromedp.FullScreenshot(100))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, fmt.Sprintf("report-%s-%d.png", theme, width)), shot, 0o666)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	seen, err := chromedp.Run(ctx, chromedp.Evaluate[map[string]float64](`(() => {
		const light = c => { const [r, g, b] = c.match(/\d+/g).map(Number); return (r + g + b) / 3 }
		const figures = [...document.querySelectorAll(".charts figure")].map(f => f.getBoundingClientRect())
		const body = getComputedStyle(document.body), tick = getComputedStyle(document.querySelector("svg text"))
		return {
			wide: document.documentElement.scrollWidth - document.documentElement.clientWidth,
			broken: [...document.querySelectorAll("td.n")].filter(c => c.getClientRects().length &&
				c.clientHeight > 2 * parseFloat(getComputedStyle(c).lineHeight) && c.parentElement.cells.length > 4 &&
				getComputedStyle(c).whiteSpace != "nowrap").length,
			text: light(body.color) - light(body.backgroundColor), ticks: light(tick.fill) - light(body.backgroundColor),
			used: (Math.max(...figures.map(r => r.right)) - Math.min(...figures.map(r => r.left))) /
				Math.min(document.documentElement.clientWidth, 1216),
			label: document.querySelector("svg").getAttribute("aria-label").length,
			small: [...document.querySelectorAll("svg text")].map(t => t.getBoundingClientRect().height)
				.filter(h => h > 0 && h < 11).length,
			charts: [...document.querySelectorAll("svg")].filter(s => s.getBoundingClientRect().width > 0).length,
		}
	})()`))
	if err != nil {
		t.Fatal(err)
	}
	contrast := seen["text"]
	if theme == "light" {
		contrast, seen["ticks"] = -contrast, -seen["ticks"]
	}
	if seen["wide"] > 0 || seen["broken"] > 0 || contrast < 120 || seen["ticks"] < 120 || seen["used"] < 0.85 ||
		seen["label"] < 30 || seen["small"] > 0 || seen["charts"] != 8 {
		t.Errorf("%s, %d pixels: %v", theme, width, seen)
	}
}

// The page's figures are the table's: what has an error is no completion, and a refused row's prompt was not run.
func TestPageCounts(t *testing.T) {
	p := &Page{}
	for i := range 2998 {
		p.Add(Completion{ID: fmt.Sprint(i), FinishReason: "stop", PromptTokens: 7, CompletionTokens: 2})
	}
	for i := range 2 {
		p.Add(Completion{ID: fmt.Sprint("bad ", i), FinishReason: "error", Err: "no prompt"})
	}
	if err := p.counts.Check(); err != nil {
		t.Error(err)
	}
	want := tally.Counts{Rows: 3000, RowsWithErrors: 2, Completions: 2998, PromptTokens: 7 * 2998,
		CompletionTokens: 2 * 2998, FinishReasons: tally.Reasons{Stop: 2998, Error: 2}}
	if p.counts != want {
		t.Errorf("counted %+v, want %+v", p.counts, want)
	}
	if s := p.promptLens.summary("prompts"); s.Least != 7 {
		t.Errorf("the shortest prompt has %d tokens", s.Least)
	}
	if text := write(t, p); !strings.Contains(text, "</i>stop 2,998 <small>") {
		t.Error("the page shows another number of completions")
	}
}

// A call's tokens were drawn since the call before, not in the second in which they are counted.
func TestLinesOfCountsHaveNoGaps(t *testing.T) {
	var run telemetry.Process
	for second := range 40 {
		calls := second / 4
		run.Points = append(run.Points, telemetry.Point{Seconds: float64(second), Tokens: int64(calls * 400),
			Calls: int64(calls), CallSeconds: 3 * float64(calls)})
	}
	for i, want := range map[int]float64{0: 100, 4: 3000} { // tokens a second; milliseconds a call
		line := lineOf(run, measures[i], func(x float64) float64 { return x })
		if len(line) < 9 {
			t.Fatalf("%s: %d points", measures[i].title, len(line))
		}
		for _, p := range line[:9] {
			if p.Y != want {
				t.Errorf("%s: %g at %g s, want %g", measures[i].title, p.Y, p.X, want)
			}
		}
	}
}

// The page of a job whose weights changed has when engines had which weights, and what these generated.
func TestPageOfWeights(t *testing.T) {
	p := full()
	if text := write(t, p); strings.Contains(text, `id="weights"`) {
		t.Error("weights that stay are on the page")
	}
	p = full()
	p.Versions = map[string]Generated{"0123456789abcdef": {Completions: 1234, Tokens: 56789}}
	began := p.Processes[0].Start.Time
	p.Processes[0].Weights = []telemetry.Weights{{Version: "0123456789abcdef", Time: began},
		{Name: evil, Version: evil, Time: began.Add(100 * time.Second), LoadSeconds: 2, StopSeconds: 0.0123}}
	p.Processes[1].Weights = []telemetry.Weights{{Name: "step-3", Version: "fedcba", Time: began.Add(25 * time.Minute)}}
	text := write(t, p)
	for _, want := range []string{"Weights that generated", "3 versions", "the model", "0123456789ab<", "1,234",
		"56,789", "12.3 ms", "step-3", "&lt;script&gt;"} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %s", want)
		}
	}
	for range 300 { // a long job
		p.Processes[0].Weights = append(p.Processes[0].Weights, p.Processes[0].Weights[1])
	}
	if text := write(t, p); !strings.Contains(text, "and 103 before these") || strings.Contains(text, "<script") {
		t.Error("the table is not bounded")
	}
}
