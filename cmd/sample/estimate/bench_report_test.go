package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch/measure"
	workloads "github.com/quire/quire/bench/workload"
)

// A limit is said to be rough where reading changed by more than a fifth while the runs continued.
func TestBenchSaysWhereReadingChanged(t *testing.T) {
	for _, c := range []struct {
		before, after float64
		rough         bool
	}{{30e9, 60e9, true}, {60e9, 30e9, true}, {34e9, 36e9, false}, {0, 36e9, false}} {
		var out bytes.Buffer
		r := &measure.Report{Median: &measure.Figures{}, Workload: &workloads.Workload{}}
		r.Compare(cpukernel.Peak{Read: c.after, ReadBefore: c.before})
		printBench(&out, r)
		if rough := strings.Contains(out.String(), "after them: the limit is rough"); rough != c.rough {
			t.Errorf("%+v: %t\n%s", c, rough, &out)
		}
	}
}
