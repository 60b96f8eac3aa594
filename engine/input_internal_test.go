package engine

import (
	"reflect"
	"testing"

	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
)

// No parameter of a row is left out: fill writes each array of the rows at the place of an entry, and nothing else.
func TestRowIsFilled(t *testing.T) {
	model := &models.Checkpoint{Config: models.Config{VocabSize: 10}}
	checker := admit.New(config.Config{Model: model, StopStates: 100},
		admit.Limits{MaxModelLen: 100, PageSize: 16, Pages: 10})
	sizes := device.Sizes{Stops: stopping.NewTables(100, 0, 0)}
	sizes.Slots, sizes.PageSize, sizes.Pages, sizes.Adapters = 2, 16, 10, 1
	r := &Request{ID: "a", Tokens: []int32{1, 2, 3}, N: 1, MaxTokens: 20, StopTokens: []int32{7},
		StopSequences: [][]int32{{1, 2}}, Leaf: true,
		Sampling: sampling.Settings{Temperature: 0.5, TopP: 0.9, MinP: 0.1, TopK: 40, Seed: 3, MinTokens: 5}}
	entry := schedule.Entry{Request: checker.Schedule(r), Generation: 2, PromptLen: 3, MaxPages: 1}
	on := onDevice{room: admit.Room{Arena: stopping.NewArena(100)}}
	on.room.Hold(entry.Request)
	entry.Request.Adapter = &schedule.Adapter{Slot: 1}
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
