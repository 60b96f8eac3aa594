package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/schedule/model"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// twoDevices has the device and the model of it do the same, and compares what they come to.
type twoDevices struct {
	schedule.Device
	t     *testing.T
	model *model.Device
	saved map[*schedule.Pages]*schedule.Pages // by those of the device, the model's
	kept  map[schedule.Block]schedule.Block
	calls int
}

// Run implements [schedule.Device]. The model draws the tokens that the device drew.
func (d *twoDevices) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	got, spent, err := d.Device.Run(in)
	if err != nil {
		return got, spent, err
	}
	d.model.Draw = func(s model.Sequence) (int32, schedule.Finish) {
		if got.Owners[s.Place] < 0 {
			panic(fmt.Sprintf("call %d: the device drew nothing at place %d", d.calls, s.Place))
		}
		return got.Tokens[s.Place], schedule.Finish(got.Finish[s.Place])
	}
	want, _, err := d.model.Run(in)
	if err != nil {
		return nil, spent, err
	}
	for i, owner := range got.Owners { // what nobody owns may be anything, and the model has no scores
		if owner < 0 {
			got.Tokens[i], got.Finish[i] = 0, 0
		}
	}
	want.Logprobs, want.Processed = got.Logprobs, got.Processed
	a, b := reflect.ValueOf(*got), reflect.ValueOf(*want)
	for i := range a.NumField() {
		if !reflect.DeepEqual(a.Field(i).Interface(), b.Field(i).Interface()) {
			d.t.Fatalf("call %d: %s is %v, the model has %v, for %+v", d.calls, a.Type().Field(i).Name,
				a.Field(i).Interface(), b.Field(i).Interface(), in)
		}
	}
	d.calls++
	return got, spent, nil
}

// Save implements [schedule.Device].
func (d *twoDevices) Save(row, tokens int) (*schedule.Pages, error) {
	pages, err := d.Device.Save(row, tokens)
	if err == nil {
		d.saved[pages], err = d.model.Save(row, tokens)
	}
	return pages, err
}

// Load implements [schedule.Device].
func (d *twoDevices) Load(row int, pages *schedule.Pages, from schedule.Origin) ([]int32, error) {
	taken, err := d.Device.Load(row, pages, from)
	if err != nil {
		return nil, err
	}
	want, err := d.model.Load(row, d.saved[pages], from)
	if !slices.Equal(taken, want) {
		d.t.Fatalf("call %d: row %d was loaded into pages %v, in the model into %v", d.calls, row, taken, want)
	}
	return taken, err
}

// Keep implements [schedule.Device].
func (d *twoDevices) Keep(pages []int32) (schedule.Block, error) {
	b, err := d.Device.Keep(pages)
	if err == nil {
		d.kept[b], err = d.model.Keep(pages)
	}
	return b, err
}

// Restore implements [schedule.Device].
func (d *twoDevices) Restore(b schedule.Block, from, to, place int, hold []int32) ([]int32, error) {
	pages, err := d.Device.Restore(b, from, to, place, hold)
	if err != nil {
		return nil, err
	}
	want, err := d.model.Restore(d.kept[b], from, to, place, hold)
	if !slices.Equal(pages, want) {
		d.t.Fatalf("call %d: restored to pages %v, in the model to %v", d.calls, pages, want)
	}
	return pages, err
}

// The model that the scheduler's tests run on is a model of this device: call by call it admits the same entries to the
// same rows, runs as many steps and tokens, and has as many pages free.
func TestDeviceIsAsItsModel(t *testing.T) {
	for _, c := range []struct {
		name      string
		pages     int64
		admission Admission
		host      int64
	}{{"swaps", 24, Overcommit, 0}, {"reserves", 40, Reserve, 0}, {"host cache", 24, Overcommit, 64 << 20}} {
		t.Run(c.name, func(t *testing.T) {
			if c.name != "host cache" {
				testenv.Slow(t)
			}
			m := testenv.Model(t, "smollm2-like")
			cfg := Config{Model: m, Backend: testenv.XLA(t), MaxSeqs: 6, PageSize: 4, PrefillTokens: 16,
				MaxModelLen: 64,
				MaxRounds:   8, Admission: c.admission, HostKVMemory: c.host}
			probe, err := cfg.Plan()
			if err != nil {
				t.Fatal(err)
			}
			cfg.KVMemory = c.pages * probe.KVBytesPerToken * int64(probe.PageSize)
			e, err := New(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			e.runs.inOrder = true
			d := &twoDevices{t: t, model: model.New(e.core.Settled.Schedule(), e.plan.PrefillTokens),
				saved: map[*schedule.Pages]*schedule.Pages{}, kept: map[schedule.Block]schedule.Block{}}
			e.runs.watch = func(device schedule.Device) schedule.Device { d.Device = device; return d }
			for _, err := range e.Run(t.Context(), slices.Values(manyRequests(60))) {
				if err != nil {
					t.Fatal(err)
				}
			}
			s := e.Stats()
			t.Logf("%d calls, %d preemptions, %d hits, %d bytes moved", d.calls, s.Preemptions, s.HitTokens,
				s.MovedBytes)
			if d.calls == 0 || c.admission == Overcommit && s.Preemptions == 0 || s.HitTokens == 0 {
				t.Error("the run did not come to what this is about")
			}
		})
	}
}

// manyRequests have a few prefixes in common.
func manyRequests(n int) (list []*Request) {
	rng := rand.New(rand.NewPCG(5, 6))
	tokens := func(n int) (list []int32) {
		for range n {
			list = append(list, 5+rng.Int32N(100))
		}
		return list
	}
	prefixes := [][]int32{tokens(9), tokens(17), nil}
	for i := range n {
		list = append(list, &Request{ID: fmt.Sprint(i), N: 1 + rng.IntN(4), MaxTokens: 1 + rng.IntN(25),
			Tokens:   slices.Concat(prefixes[rng.IntN(len(prefixes))], tokens(1+rng.IntN(12))),
			Sampling: sampling.Settings{Temperature: 1, TopP: 1, Seed: uint64(i)}, IgnoreEOS: i%2 == 0, Leaf: i%3 > 0})
	}
	return list
}
