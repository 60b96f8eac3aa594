package engine

import (
	"context"
	"slices"
	"testing"

	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/tree"
)

// countedCalls counts what goes up in each call.
type countedCalls struct {
	schedule.Device
	backend *slowUploads
	arrays  []int64 // by call
}

// Run implements [schedule.Device].
func (d *countedCalls) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	before := d.backend.uploads
	out, spent, err := d.Device.Run(in)
	d.arrays = append(d.arrays, d.backend.uploads-before)
	return out, spent, err
}

// A call takes its input in two arrays at most, and those that did not change since the last call stay where they are.
// What the host gets is one array, and the clock.
func TestArraysOfACall(t *testing.T) {
	backend := &slowUploads{Backend: testenv.XLA(t), clock: &hands{}}
	e := accountedEngine(t, backend)
	e.runs.inOrder = true
	counted := &countedCalls{backend: backend}
	e.runs.watch = func(device schedule.Device) schedule.Device { counted.Device = device; return counted }
	for c, err := range e.Run(context.Background(), slices.Values([]*Request{accounted("a", 1, 100)})) {
		if err != nil || c.Err != nil || len(c.Tokens) != 100 {
			t.Fatal(err, c)
		}
	}
	// Calls of 1, 2, 4, 8, 8, ... steps: the first has the prompt, the next two another number of steps.
	arrays := counted.arrays
	if len(arrays) < 10 || arrays[0] > 2 || slices.Max(arrays[1:]) > 1 || slices.Max(arrays[5:len(arrays)-1]) > 0 {
		t.Errorf("the calls took %v arrays", arrays)
	}
	p := e.core.Program(device.Run)
	if up, down := len(p.Input.Arrays()), len(p.Packing.Arrays()); up != 2 || down > 2 {
		t.Errorf("the program takes %d arrays and returns %d: %v, %v", up, down, p.Input.Arrays(), p.Packing.Arrays())
	}
}

// BenchmarkCall is what a call costs beside its steps: it has none.
func BenchmarkCall(b *testing.B) {
	e, err := New(context.Background(), Config{Model: testenv.Model(b, "smollm2-like"), Backend: testenv.XLA(b),
		MaxSeqs: 64, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 64, KVMemory: 8 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	for b.Loop() {
		in := e.core.Graphs().Fill(&schedule.Input{Columns: 1}, onDevice{}.row)
		if _, err := core.Execute[device.Output](e.core, e.core.Program(device.Run), tree.Arrays(in)); err != nil {
			b.Fatal(err)
		}
	}
}
