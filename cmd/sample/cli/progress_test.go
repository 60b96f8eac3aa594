package cli

import (
	"bytes"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/quire/quire/data/tally"
)

// What is told while a progress bar stands replaces the bar, which is generated again below.
func TestMessagesStandAboveTheBar(t *testing.T) {
	var out bytes.Buffer
	screen := NewScreen(&out)
	m := &Meter{To: screen, Mode: "bar", Each: 2}
	m.Start(4)
	fmt.Fprintln(screen, "warning: first")
	m.Finish(tally.Counts{Rows: 4, FinishReasons: tally.Reasons{Stop: 8}}, tally.Counts{}, tally.Counts{})
	fmt.Fprintln(screen, "rows 4")
	var shown []string // lines as a terminal has them in the end
	for line := range strings.Lines(out.String()) {
		cleared := strings.Split(strings.TrimRight(line, "\r\n"), clearLine)
		drawn := strings.Split(cleared[len(cleared)-1], "\r")
		shown = append(shown, strings.TrimSpace(drawn[len(drawn)-1]))
	}
	if len(shown) != 3 || shown[0] != "warning: first" || !strings.HasPrefix(shown[1], "100% |") ||
		!strings.Contains(shown[1], "(8/8") || shown[2] != "rows 4" {
		t.Errorf("a terminal shows %q", shown)
	}
}

// A narrow terminal has figures in place of the bar, as many as it has room for, and nothing wraps.
func TestNarrowProgress(t *testing.T) {
	for columns, want := range map[int]string{
		50: `^2400/20000, 1000 tok/s, ETA 14m40s, 10 rows/s$`,
		40: `^2400/20000, 1000 tok/s, ETA 14m40s$`,
		79: `^2400/20000, 1000 tok/s, ETA 14m40s, 10 rows/s, 7 with errors(, .*B)?(, 2m0s)?$`,
		9:  `^$`,
	} {
		t.Setenv("COLUMNS", strconv.Itoa(columns))
		var out bytes.Buffer
		m := &Meter{To: &out, total: 10000, Each: 2, started: time.Now().Add(-2 * time.Minute),
			bar: progressbar.New(10000)}
		m.moments = []moment{{time: m.started}}
		m.done = tally.Counts{Rows: 1200, RowsWithErrors: 7, FinishReasons: tally.Reasons{Stop: 2393, Error: 7}}
		m.drawn = tally.Counts{Rows: 1200, CompletionTokens: 120_000, FinishReasons: m.done.FinishReasons}
		m.show()
		line, cleared := strings.CutPrefix(out.String(), clearLine)
		if !cleared || !regexp.MustCompile(want).MatchString(line) || len(line) >= columns {
			t.Errorf("%d columns: %q, want %s", columns, out.String(), want)
		}
	}
}

// What is left is told in tokens: those of completions that are done, times the completions that are not, less what
// these have. So there is a time before the first row is done.
func TestTimeLeft(t *testing.T) {
	m := &Meter{total: 50, Each: 2, done: tally.Counts{Rows: 20, FinishReasons: tally.Reasons{Stop: 60}},
		drawn: tally.Counts{CompletionTokens: 4000, FinishReasons: tally.Reasons{Length: 20}}}
	for _, c := range []struct {
		tokens int64
		rate   float64
		want   time.Duration
	}{{4000, 100, 80 * time.Second}, {6000, 100, 60 * time.Second}, {90000, 100, 0}, {4000, 0, 0}} {
		if got := m.left(moment{tokens: c.tokens}, c.rate); got != c.want {
			t.Errorf("%d tokens drawn, %g a second: %s left, want %s", c.tokens, c.rate, got, c.want)
		}
	}
	m.done = tally.Counts{Rows: 50, FinishReasons: tally.Reasons{Stop: 100}}
	if got := m.left(moment{tokens: 4000}, 100); got != 0 {
		t.Errorf("all rows are done: %s left", got)
	}
}

// Rows may say how many completions they have: what is expected comes to what there is.
func TestExpectedCompletions(t *testing.T) {
	m := &Meter{total: 10, Each: 4}
	for _, c := range []struct{ rows, finished, want int64 }{{0, 0, 40}, {0, 7, 40}, {5, 20, 40}, {5, 5, 25},
		{10, 10, 10}, {5, 80, 85}, {10, 160, 160}} {
		m.done = tally.Counts{Rows: c.rows, FinishReasons: tally.Reasons{Stop: c.finished}}
		if got := m.expected(); got != c.want {
			t.Errorf("%d rows and %d completions are done: %d expected, want %d", c.rows, c.finished, got, c.want)
		}
	}
}

func TestRate(t *testing.T) {
	for x, want := range map[float64]string{0: "0", 0.01234: "0.0123", 9.5: "9.5", 99.96: "100", 8321.5: "8322"} {
		if got := Rate(x); got != want {
			t.Errorf("%v is %s, want %s", x, got, want)
		}
	}
}
