package batch

import (
	"errors"
	"strings"
	"testing"
)

// A run with workers that has all rows does not say how to go on; one that lacks some does.
func TestEndingWithWorkers(t *testing.T) {
	r := &CrewReport{Output: "out"}
	r.Rows, r.RowsWithErrors = 24, 6
	partial := rowsWithErrors(6, 24, "out")
	for name, c := range map[string]struct {
		missing int
		err     error
		outcome Outcome
		goOn    bool
	}{
		"rows with errors":          {0, partial, Partial, false},
		"rows with errors, missing": {1, partial, Partial, true},
		"failed":                    {0, errors.New("fire"), Failed, true},
		"missing":                   {1, nil, Failed, true},
	} {
		err := r.ending(c.missing, 24, c.err)
		if OutcomeOf(err) != c.outcome || strings.Contains(err.Error(), "to go on") != c.goOn {
			t.Errorf("%s: %v", name, err)
		}
	}
}
