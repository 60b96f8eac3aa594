package distribute

import (
	"errors"
	"strings"
	"testing"

	"github.com/quire/quire/batch/outcome"
)

// A run with workers that has all rows does not say how to continue; one that lacks some does.
func TestEndingWithWorkers(t *testing.T) {
	r := &Report{Output: "out"}
	r.Rows, r.RowsWithErrors = 24, 6
	partial := outcome.RowsWithErrors(6, 24, "out")
	for name, c := range map[string]struct {
		missing int
		err     error
		outcome outcome.Outcome
		goOn    bool
	}{
		"rows with errors":          {0, partial, outcome.Partial, false},
		"rows with errors, missing": {1, partial, outcome.Partial, true},
		"failed":                    {0, errors.New("fire"), outcome.Failed, true},
		"missing":                   {1, nil, outcome.Failed, true},
	} {
		err := r.result(c.missing, 24, c.err)
		if outcome.Of(err) != c.outcome || strings.Contains(err.Error(), "to continue") != c.goOn {
			t.Errorf("%s: %v", name, err)
		}
	}
}
