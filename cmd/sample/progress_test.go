package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quire/quire/tally"
)

// What is told while a progress bar stands replaces the bar, which is drawn again below.
func TestMessagesStandAboveTheBar(t *testing.T) {
	var out bytes.Buffer
	screen := newScreen(&out)
	m := &meter{w: screen, mode: "bar"}
	m.Start(4)
	fmt.Fprintln(screen, "warning: first")
	m.Finish(tally.Counts{Rows: 4}, tally.Counts{})
	fmt.Fprintln(screen, "rows 4")
	var shown []string // lines as a terminal has them in the end
	for line := range strings.Lines(out.String()) {
		cleared := strings.Split(strings.TrimRight(line, "\r\n"), clearLine)
		drawn := strings.Split(cleared[len(cleared)-1], "\r")
		shown = append(shown, strings.TrimSpace(drawn[len(drawn)-1]))
	}
	if len(shown) != 3 || shown[0] != "warning: first" || !strings.Contains(shown[1], "(4/4") || shown[2] != "rows 4" {
		t.Errorf("a terminal shows %q", shown)
	}
}

// A narrow terminal has figures in place of the bar, as many as it has room for, and nothing wraps.
func TestNarrowProgress(t *testing.T) {
	for columns, want := range map[int]string{
		50: `^1200/10000, 1000 tok/s, ETA 14m40s, 10 rows/s$`,
		40: `^1200/10000, 1000 tok/s, ETA 14m40s$`,
		79: `^1200/10000, 1000 tok/s, ETA 14m40s, 10 rows/s, 7 with errors(, .*B)?(, 2m0s)?$`,
		9:  `^$`,
	} {
		t.Setenv("COLUMNS", strconv.Itoa(columns))
		var out bytes.Buffer
		m := &meter{w: &out, total: 10000, started: time.Now().Add(-2 * time.Minute), bar: progressbar.New(10000)}
		m.moments = []moment{{at: m.started}}
		m.done = tally.Counts{Rows: 1200, RowsWithErrors: 7}
		m.drawn = tally.Counts{Rows: 1200, CompletionTokens: 120_000}
		m.show()
		line, cleared := strings.CutPrefix(out.String(), clearLine)
		if !cleared || !regexp.MustCompile(want).MatchString(line) || len(line) >= columns {
			t.Errorf("%d columns: %q, want %s", columns, out.String(), want)
		}
	}
}

// What is left is told in tokens: those of rows that are done, times the rows that are not, less what these have.
func TestTimeLeft(t *testing.T) {
	m := &meter{total: 100, done: tally.Counts{Rows: 60}, drawn: tally.Counts{Rows: 20, CompletionTokens: 4000}}
	for _, c := range []struct {
		tokens int64
		rate   float64
		want   time.Duration
	}{{4000, 100, 80 * time.Second}, {6000, 100, 60 * time.Second}, {90000, 100, 0}, {4000, 0, 0}} {
		if got := m.left(moment{tokens: c.tokens}, c.rate); got != c.want {
			t.Errorf("%d tokens drawn, %g a second: %s left, want %s", c.tokens, c.rate, got, c.want)
		}
	}
	m.done.Rows = 100
	if got := m.left(moment{tokens: 4000}, 100); got != 0 {
		t.Errorf("all rows are done: %s left", got)
	}
}
