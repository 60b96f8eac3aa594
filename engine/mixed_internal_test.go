package engine

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// With the kernels for CPUs a sequence draws on while another's prompt runs; without them it waits. It draws the same
// tokens: see TestSameBytes.
func TestSequencesDrawWhilePromptsRun(t *testing.T) {
	for _, c := range []struct {
		name    string
		backend compute.Backend
		mixed   bool
	}{{"kernels", testenv.XLA(t), true}, {"plain", testenv.XLAWithoutKernels(t), false}} {
		t.Run(c.name, func(t *testing.T) {
			if !c.mixed {
				testenv.Slow(t)
			}
			e, err := New(t.Context(), Config{Model: testenv.Model(t, "smollm2-like"), Backend: c.backend,
				MaxSeqs: 2, PageSize: 8, PrefillTokens: 16, MaxModelLen: 160, MaxRounds: 8, KVMemory: 8 << 20})
			if err != nil {
				t.Fatal(err)
			}
			defer e.Close()
			e.runs.inOrder = true
			request := func(id string, prompt, tokens int) *Request {
				r := &Request{ID: id, N: 1, MaxTokens: tokens, IgnoreEOS: true, Sampling: sampling.Settings{TopP: 1}}
				for i := range prompt {
					r.Tokens = append(r.Tokens, int32(len(id)*7+i))
				}
				return r
			}
			// "long" draws 40 tokens, the first in a step of prompts. Meanwhile the prompt behind "short" takes 7
			// steps.
			const steps = 39
			for c, err := range e.Run(t.Context(), slices.Values([]*Request{request("long", 5, steps+1),
				request("short", 5, 5), request("behind", 112, 2)})) {
				if err != nil || c.Err != nil {
					t.Fatal(err, c)
				}
			}
			s := e.Stats()
			if mixed := s.DecodeSteps <= steps-6; mixed != c.mixed {
				t.Errorf("%d steps of drawn tokens alone, %d of prompts", s.DecodeSteps, s.PrefillSteps)
			}
		})
	}
}

// endings notes behind how many steps completions end, of calls that draw a column at most.
type endings struct {
	schedule.Device
	steps  int32
	behind []int32
}

// Run implements [schedule.Device].
func (d *endings) Run(in *schedule.Input) (*schedule.Output, schedule.Spent, error) {
	out, spent, err := d.Device.Run(in)
	if err == nil {
		d.steps += out.PrefillSteps + out.DecodeSteps
		for slot, owner := range out.Owners {
			if out.Columns == 1 && owner >= 0 && schedule.Finish(out.Finish[slot]) != schedule.Running {
				d.behind = append(d.behind, d.steps)
			}
		}
	}
	return out, spent, err
}

// rowOf is how many tokens a row has of a prompt, and draws.
type rowOf struct{ prompt, tokens int }

// endingsOf runs rows with steps of 16 prompt tokens, and calls that draw a column at most, and returns behind how many
// steps completions end.
func endingsOf(t *testing.T, backend compute.Backend, slots int, rows []rowOf) []int32 {
	t.Helper()
	e, err := New(t.Context(), Config{Model: testenv.Model(t, "smollm2-like"), Backend: backend, MaxSeqs: slots,
		PageSize: 8, PrefillTokens: 16, MaxModelLen: 160, MaxRounds: 1, KVMemory: 8 << 20})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	ends := &endings{}
	e.runs.inOrder = true
	e.runs.watch = func(d schedule.Device) schedule.Device { ends.Device = d; return ends }
	var requests []*Request
	for i, r := range rows {
		requests = append(requests, &Request{ID: fmt.Sprint(i), N: 1, MaxTokens: r.tokens, IgnoreEOS: true,
			Tokens: slices.Repeat([]int32{int32(7 + i)}, r.prompt), Sampling: sampling.Settings{TopP: 1}})
	}
	for c, err := range e.Run(t.Context(), slices.Values(requests)) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c)
		}
	}
	if len(ends.behind) != len(rows) {
		t.Fatalf("%d completions of %d rows", len(ends.behind), len(rows))
	}
	return ends.behind
}

// A prompt waits for no drawn tokens, and for no prompt that was admitted later: a row draws its first token after as
// many steps as its prompt and those admitted before it fill, however many rows draw beside it.
func TestFirstTokenIsBounded(t *testing.T) {
	for name, backend := range map[string]compute.Backend{"kernels": testenv.XLA(t),
		"plain": testenv.XLAWithoutKernels(t)} {
		t.Run(name, func(t *testing.T) {
			if name == "plain" {
				testenv.Slow(t)
			}
			// Three rows draw 80 tokens each. The fourth slot has a short row first, then one with a prompt of 7 steps
			// that draws one token, and another such one.
			at := endingsOf(t, backend, 4, []rowOf{{5, 80}, {5, 80}, {5, 80}, {5, 5}, {112, 1}, {112, 1}})
			if at[1]-at[0] > 7 || at[2]-at[1] > 7 || at[3]-at[2] < 7 {
				t.Errorf("completions end behind %v steps; a prompt fills 7", at)
			}
			// The first slot has one row after the other, with prompts of 3 steps; the second a prompt of 7.
			at = endingsOf(t, backend, 2, []rowOf{{48, 1}, {112, 1}, {48, 1}, {48, 1}, {48, 1}, {48, 1}})
			if !slices.Equal(at, []int32{3, 10, 13, 16, 19, 22}) {
				t.Errorf("completions end behind %v steps; the second prompt was admitted with the first", at)
			}
		})
	}
}
