package tally

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"
)

// For any counts in any order, the figures add up, and survive a note unchanged.
func TestCountsAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var all, before, now Counts
		outputs := int64(0)
		for range rapid.IntRange(0, 20).Draw(t, "rows") {
			of := &now
			if rapid.Bool().Draw(t, "before") {
				of = &before
			}
			failed := false
			for range rapid.IntRange(1, 4).Draw(t, "n") {
				reason := rapid.SampledFrom([]string{"stop", "length", "tool_calls", "error"}).Draw(t, "reason")
				tokens := rapid.IntRange(0, 9).Draw(t, "tokens")
				failed = failed || reason == "error"
				of.Completion(reason, tokens, reason == "error")
				all.Completion(reason, tokens, reason == "error")
				outputs++
			}
			of.Row(5, failed)
			all.Row(5, failed)
		}
		if sum := before.Plus(now); sum != all || all.Minus(before) != now {
			t.Fatalf("%+v and %+v are not %+v", before, now, all)
		}
		if err := all.Check(); err != nil {
			t.Fatal(err)
		}
		if n := all.FinishReasons.Sum(); n != outputs || n != all.Completions+all.FinishReasons.Error {
			t.Fatalf("%d rows of the output are %+v", outputs, all)
		}
		note, err := json.Marshal(all)
		var read Counts
		if err == nil {
			err = json.Unmarshal(note, &read)
		}
		if err != nil || read.Noted() != all {
			t.Fatalf("noted %+v, read %+v (%v)", all, read.Noted(), err)
		}
	})
}

func TestOldNotes(t *testing.T) {
	var old Counts
	err := json.Unmarshal(
		[]byte(`{"part":3,"rows":750,"rows_with_errors":2,"completions":748,"prompt_tokens":9,"completion_tokens":8}`),
		&old)
	old = old.Noted()
	if want := (Reasons{Unknown: 748, Error: 2}); err != nil || old.FinishReasons != want ||
		old.FinishReasons.Sum() != 750 {
		t.Errorf("an old note is %+v (%v)", old, err)
	}
	if err := old.Check(); err != nil {
		t.Error(err)
	}
	if text := old.FinishReasons.String(); text != "2 error, 748 not known, of parts by an older version" {
		t.Errorf("shown as %q", text)
	}
	if text := (Reasons{}).String(); text != "none" {
		t.Errorf("nothing is shown as %q", text)
	}
}

func TestCheck(t *testing.T) {
	for _, bad := range []Counts{
		{Completions: 1}, {FinishReasons: Reasons{Stop: 1}}, {Rows: 1, RowsWithErrors: 1},
		{RowsWithErrors: 1, FinishReasons: Reasons{Error: 1}},
	} {
		if bad.Check() == nil {
			t.Errorf("%+v adds up", bad)
		}
	}
}
