package cpukernel_test

import (
	"testing"

	"github.com/quire/quire/backend/xla/cpukernel"
)

func TestMeasurePeak(t *testing.T) {
	one, err := cpukernel.MeasurePeak(1)
	if err != nil {
		t.Fatal(err)
	}
	// A processor of this century on the one side, a hundred cores on the other: what is outside is a mistake in the
	// counting.
	for name, rate := range map[string]float64{"float32": one.Float32, "bfloat16": one.BFloat16, "int8": one.Int8,
		"reading": one.Read} {
		if rate < 1e8 || rate > 1e13 {
			t.Errorf("%s: %g a second", name, rate)
		}
	}
	t.Logf("%+v", one)
}
