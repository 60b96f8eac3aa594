package pretoken

import (
	"strings"
	"testing"
	"time"
)

// TestTimeout meets a pattern of exponential cost.
func TestTimeout(t *testing.T) {
	p, err := compilePattern(`(a+)+$`)
	if err != nil {
		t.Fatal(err)
	}
	p.re.MatchTimeout = 50 * time.Millisecond
	if _, err := p.findAll(strings.Repeat("a", 40) + "b"); err == nil ||
		!strings.Contains(err.Error(), "took too long") {
		t.Errorf("error %v", err)
	}
}
