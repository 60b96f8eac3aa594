package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// hands is a clock that only what is timed moves.
type hands struct{ seconds atomic.Int64 }

func (h *hands) now() time.Time { return time.Unix(h.seconds.Load(), 0) }

// slowUploads is a backend whose uploads take a second each.
type slowUploads struct {
	*xla.Backend
	clock   *hands
	uploads int64
}

func (b *slowUploads) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer,
	error) {
	b.clock.seconds.Add(1)
	b.uploads++
	return b.Backend.BufferFromFlatData(device, flat, shape)
}

// slowProgram takes 1,000 s each time.
type slowProgram struct {
	compute.Executable
	clock *hands
}

func (p slowProgram) Execute(inputs []compute.Buffer, donate []bool, device compute.DeviceNum) ([]compute.Buffer,
	error) {
	p.clock.seconds.Add(1000)
	return p.Executable.Execute(inputs, donate, device)
}

// All the time of a run is the device's or the host's: the device's is what the program takes, and copying inputs is
// the host's.
func TestTimeIsTheDevicesOrTheHosts(t *testing.T) {
	clock := &hands{}
	backend := &slowUploads{Backend: testenv.XLA(t), clock: clock}
	e := accountedEngine(t, backend)
	e.core.Now = clock.now
	e.core.Program(device.Run).Executable = slowProgram{e.core.Program(device.Run).Executable, clock}
	backend.uploads = 0
	tokens := 0
	for c, err := range e.Run(context.Background(),
		slices.Values([]*Request{accounted("a", 3, 9), accounted("b", 1, 4)})) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c)
		}
		tokens += len(c.Tokens)
	}
	s := e.Stats()
	if s.Calls == 0 || s.DeviceSeconds != 1000*float64(s.Calls) {
		t.Errorf("the device ran %v s in %d calls of 1,000", s.DeviceSeconds, s.Calls)
	}
	if least := float64(backend.uploads); least == 0 || s.HostSeconds < least {
		t.Errorf("the host took %v s, and uploads alone %v", s.HostSeconds, least)
	}
	if s.HostSeconds+s.DeviceSeconds != s.WallSeconds {
		t.Errorf("%v s of the host and %v of the device are %v", s.HostSeconds, s.DeviceSeconds, s.WallSeconds)
	}
	if s.GeneratedTokens != tokens || tokens != 31 || s.DrawnTokens < tokens {
		t.Errorf("%d tokens came out of %d drawn; %d were counted", tokens, s.DrawnTokens, s.GeneratedTokens)
	}
}

// The clock in the program tells steps of both kinds apart, and no time of a step is outside of the program's.
func TestClockOfSteps(t *testing.T) {
	e := accountedEngine(t, testenv.XLA(t))
	run := func(requests ...*Request) Stats {
		for c, err := range e.Run(context.Background(), slices.Values(requests)) {
			if err != nil || c.Err != nil {
				t.Fatal(err, c)
			}
		}
		return e.Stats()
	}
	both := run(accounted("a", 3, 9), accounted("b", 1, 4))
	if both.PrefillSeconds <= 0 || both.DecodeSeconds <= 0 ||
		both.PrefillSeconds+both.DecodeSeconds > both.DeviceSeconds {
		t.Errorf("prompts took %v s and decoding %v of %v: %+v", both.PrefillSeconds, both.DecodeSeconds,
			both.DeviceSeconds, both)
	}
	one := run(accounted("c", 1, 1)) // its one token is drawn by the last step of the prompt
	if one.PrefillSeconds <= 0 || one.DecodeSteps != 0 || one.DecodeSeconds != 0 {
		t.Errorf("a run without decoding: %+v", one)
	}
}

// Without kernels there is no clock: nothing is measured, and nothing estimated.
func TestNoClockWithoutKernels(t *testing.T) {
	testenv.Slow(t)
	e := accountedEngine(t, testenv.XLAWithoutKernels(t))
	for _, err := range e.Run(context.Background(), slices.Values([]*Request{accounted("a", 2, 5)})) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if s := e.Stats(); s.PrefillSteps == 0 || s.DecodeSteps == 0 || s.PrefillSeconds != 0 || s.DecodeSeconds != 0 {
		t.Errorf("%+v", s)
	}
}

// accountedEngine has the programs of TestGreedyEqualsTransformers.
func accountedEngine(t *testing.T, backend compute.Backend) *Engine {
	t.Helper()
	e, err := New(context.Background(), Config{Model: testenv.Model(t, "smollm2-like"), Backend: backend,
		MaxSeqs: 8, PageSize: 8, PrefillTokens: 64, MaxModelLen: 160, MaxRounds: 8, KVMemory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func accounted(id string, n, tokens int) *Request {
	return &Request{ID: id, Tokens: []int32{1, 2, 3, 4, 5}, N: n, MaxTokens: tokens, IgnoreEOS: true,
		Sampling: sampling.Settings{Temperature: 1, TopP: 1}}
}

func TestStatsOfAnEngineAfterAnother(t *testing.T) {
	a := Stats{StartSeconds: 1, WallSeconds: 10, DeviceSeconds: 9, HostSeconds: 1, Calls: 3, GeneratedTokens: 5,
		Pages: 8, PeakPages: 7}
	b := Stats{StartSeconds: 2, WallSeconds: 4, DeviceSeconds: 3, HostSeconds: 1, Calls: 1, GeneratedTokens: 6,
		Pages: 8, PeakPages: 2, FirstTokenSeconds: 1}
	want := Stats{StartSeconds: 3, WallSeconds: 14, DeviceSeconds: 12, HostSeconds: 2, Calls: 4, GeneratedTokens: 11,
		Pages: 8, PeakPages: 7, FirstTokenSeconds: 11}
	if got := a.Then(b); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}
