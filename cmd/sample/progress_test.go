package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

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
