package jinja_test

import (
	"bufio"
	"encoding/json"
	"math"
	"math/big"
	"os"
	"testing"

	"github.com/quire/quire/text/chat/jinja"
)

// TestExpressions renders what scripts/oracle/jinja_goldens.py rendered with Python's jinja2.
func TestExpressions(t *testing.T) {
	large := func(s string) *big.Int { n, _ := new(big.Int).SetString(s, 10); return n }
	row := func(a string, b int) any { return jinja.NewDict("a", a, "b", b) }
	vars := map[string]any{
		"big": large("18446744073709551615"), "neg": large("-12345678901234567890123"), "f": 1e15,
		"z": math.Copysign(0, -1), "n": 7, "x": 2.675, "s": "Straße ﬁ ŉ İ ΑΣ ǆ", "none": nil,
		"words": "the quick brown-fox jumps (over) [the] lazy dog's back",
		"rows":  &jinja.List{Items: []any{row("x", 2), row("Y", 1), row("X", 3), row("y", 1)}},
		"d":     jinja.NewDict("z", 1, "a", &jinja.List{Items: []any{1, 2.5, nil, true}}, "m", jinja.NewDict("k", "v")),
	}
	file, err := os.Open("testdata/expressions.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	rendered := 0
	for lines := bufio.NewScanner(file); lines.Scan(); rendered++ {
		var line [3]*string
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		text, err := "", error(nil)
		template, err := jinja.Parse(*line[0])
		if err == nil {
			text, err = template.Render(vars, limits)
		}
		switch want := line[1]; {
		case want == nil && err == nil:
			t.Errorf("%s:\n got %q, want %s", *line[0], text, *line[2])
		case want != nil && (err != nil || text != *want):
			t.Errorf("%s:\n got %q, %v\nwant %q", *line[0], text, err, *want)
		}
	}
	if rendered < 4000 {
		t.Errorf("only %d lines", rendered)
	}
}
