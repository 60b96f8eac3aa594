package generate

import (
	"testing"

	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/data/promptset/completion"
)

// A row asks again for generations before one that is accepted, if an engine failed that was to give them.
func TestRowAsksForGaps(t *testing.T) {
	w := &waves{}
	j := &judgedRow{rule: verdict.NewRule(&verdict.Settings{Regex: "x", Until: 1}, 4), first: 2, most: 4,
		known: []completion.Result{{Generation: 4, Judgment: completion.Accepted}},
		asked: map[int]bool{3: true}, waiting: map[int]bool{}}
	if got := w.ask(j); len(got) != 1 || got[0] != 2 {
		t.Errorf("it asks for %v, want 2", got)
	}
	if got := w.ask(j); len(got) > 0 {
		t.Errorf("it asks for %v again", got)
	}
}
