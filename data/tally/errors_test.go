package tally

import (
	"fmt"
	"slices"
	"testing"
)

func TestErrorKinds(t *testing.T) {
	var kinds ErrorKinds
	for i := range 5 {
		what := fmt.Sprintf(`many.jsonl line %d: temperature is text "warm %d"; it must be a number`, i, i)
		kinds.Add(what, fmt.Sprint(i))
	}
	kinds.Add("the prompt has 300 tokens, and 200 fit", "long")
	kinds.Add("the prompt has 301 tokens, and 200 fit", "long")
	all := kinds.All()
	if len(all) != 2 || all[0].What != `temperature is text "…"; it must be a number` || all[0].Count != 5 ||
		!slices.Equal(all[0].IDs, []string{"0", "1", "2"}) || all[0].Example[:18] != "many.jsonl line 0:" {
		t.Errorf("%+v", all)
	}
	if all[1].What != "the prompt has N tokens, and N fit" || all[1].Count != 2 || len(all[1].IDs) != 1 {
		t.Errorf("%+v", all[1])
	}
	for i := range 5 * mostKinds { // kinds are bounded
		kinds.Add("\xff"+string(rune('a'+i%26))+string(rune('a'+i/26)), "x")
	}
	if all := kinds.All(); len(all) != mostKinds+1 || all[0].What != otherErrors {
		t.Errorf("%d kinds, the first %+v", len(all), all[0])
	}
}
