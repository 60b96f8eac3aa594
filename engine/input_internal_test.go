package engine

import (
	"reflect"
	"slices"
	"testing"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/stopping"
	"github.com/quire/quire/tree"
)

// No parameter of a row is left out: fill writes each array of the rows at the place of an entry, and nothing else.
func TestRowIsFilled(t *testing.T) {
	e := &Engine{admission: admission{cfg: Config{Model: &models.Checkpoint{Config: models.Config{VocabSize: 10}}},
		plan: Plan{MaxModelLen: 100, PageSize: 16, Pages: 10}, settled: &config.Settled{}}}
	sizes := device.Sizes{Stops: stopping.NewTables(100, 0, 0)}
	sizes.Slots, sizes.PageSize, sizes.Pages = 2, 16, 10
	e.stops.states, e.stops.sets = 100, map[string]*stopping.Set{}
	r := &Request{ID: "a", Tokens: []int32{1, 2, 3}, N: 1, MaxTokens: 20, StopTokens: []int32{7},
		StopSequences: [][]int32{{1, 2}}, Leaf: true,
		Sampling: sampling.Settings{Temperature: 0.5, TopP: 0.9, MinP: 0.1, TopK: 40, Seed: 3, MinTokens: 5}}
	entry := schedule.Entry{Request: e.scheduled(r), Generation: 2, PromptLen: 3, MaxPages: 1}
	on := onDevice{e: e, stops: room{stopping.NewArena(100)}}
	on.stops.Hold(entry.Request)
	in := sizes.Fill(&schedule.Input{Waiting: []schedule.Entry{entry}}, on.row)
	rows := &in.Waiting.Rows
	for _, a := range tree.Arrays(rows) {
		flat := reflect.ValueOf(a.Flat)
		n := flat.Len() / len(in.Waiting.Starts)
		for i := range flat.Len() {
			if zero := flat.Index(i).IsZero(); zero == (i/n == 0) {
				t.Errorf("%s[%d] is %v", a.Name, i, flat.Index(i))
			}
		}
	}
	if states := rows.StopStates[0]; states[stopping.OfText] != stopping.None || states[stopping.OfTokens] < 0 {
		t.Errorf("the states of automata are %v", states)
	}
	if stops := rows.StopTokens[0]; stops[0] != 7 || stops[1] != schedule.None {
		t.Errorf("the stop tokens are %v", stops)
	}
}

// The model's own tokens bar or end a completion, as ignore_eos and min_tokens say; each token is there once.
func TestStopTokensOfARequest(t *testing.T) {
	e := &admission{cfg: Config{Model: &models.Checkpoint{Config: models.Config{EOS: []int32{2, 9}}}}}
	for _, c := range []struct {
		r    Request
		want []int32
	}{
		{Request{}, []int32{2, 9}},
		{Request{IgnoreEOS: true}, nil},
		{Request{IgnoreEOS: true, Sampling: sampling.Settings{MinTokens: 1}},
			[]int32{device.BarredOnly(2), device.BarredOnly(9)}},
		{Request{StopTokens: []int32{9, 5, 9}}, []int32{5, 9, 2}},
		{Request{StopTokens: []int32{9, 5}, IgnoreEOS: true, Sampling: sampling.Settings{MinTokens: 1}},
			[]int32{5, 9, device.BarredOnly(2)}},
	} {
		if got, _ := e.stopTokens(&c.r); !slices.Equal(got, c.want) {
			t.Errorf("%+v: %v, want %v", c.r, got, c.want)
		}
	}
}
