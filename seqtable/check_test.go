package seqtable_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/seqtable"
	"github.com/quire/quire/tokenqueue"
)

// TestCheckFindsCorruption breaks each rule by hand, one at a time, in a state that obeys them all.
func TestCheckFindsCorruption(t *testing.T) {
	z := sizes{slots: 4, pagesPerSeq: 3, pageSize: 4, pages: 8, queue: 4, tokens: 4, maxSeqs: 4, clones: 1}
	sound := func() model {
		m := z.model()
		m.seqs.Rows[0] = seqtable.Row{Used: true, Len: 6, Pages: []int32{5, 2}, Source: -1}
		m.seqs.Rows[2] = seqtable.Row{Used: true, Len: 9, Pages: []int32{5, 1, 7}, Source: 0}
		m.seqs.Rows[3] = seqtable.Row{Used: true, Source: -1}
		copy(m.pages.RefCounts, []int32{0, 1, 1, 0, 0, 2, 1, 1}) // Page 6 is pinned.
		m.queue.Enqueue(tokenqueue.Entry{Token: 11, Slot: 0, Pos: 6}, tokenqueue.Entry{Token: 12, Slot: 2, Pos: 9})
		return m
	}
	pins := []int32{0, 0, 0, 0, 0, 0, 1, 0}
	finished := []bool{false, false, false, true}
	// Places in the vector of the state.
	const lens, rows, used, sources, refs, tokens, slots, count = 0, 4, 16, 20, 28, 53, 57, 65

	type change struct {
		at    int
		value int32
	}
	type corruption struct {
		rule    string // A rule that must be found broken.
		changes []change
	}
	cases := []corruption{
		{seqtable.Rules[0], []change{{refs + 3, -1}}},
		{seqtable.Rules[1], []change{{refs + 5, 3}}},
		{seqtable.Rules[1], []change{{refs + 5, 1}}},
		{seqtable.Rules[1], []change{{refs + 6, 2}}},
		{seqtable.Rules[2], []change{{refs + 2, 0}}},
		{seqtable.Rules[3], []change{{rows + 3*3, 8}}},
		{seqtable.Rules[3], []change{{rows + 3*3, -2}}},
		{seqtable.Rules[4], []change{{lens + 0, 9}}},
		{seqtable.Rules[4], []change{{lens + 2, 13}}},
		{seqtable.Rules[4], []change{{lens + 3, -1}}},
		{seqtable.Rules[5], []change{{lens + 0, 0}, {rows + 0, -1}, {refs + 5, 1}}},
		{seqtable.Rules[5], []change{{rows + 2, 5}, {refs + 5, 3}}},
		{seqtable.Rules[6], []change{{rows + 3, 2}, {refs + 2, 2}}},
		{seqtable.Rules[7], []change{{lens + 1, 1}}},
		{seqtable.Rules[7], []change{{sources + 1, 0}}},
		{seqtable.Rules[7], []change{{used + 3, 0}, {rows + 3*3, 2}, {refs + 2, 2}}},
		{seqtable.Rules[8], []change{{sources + 2, 1}}},
		{seqtable.Rules[9], []change{{tokens + 3, 1}}},
		{seqtable.Rules[9], []change{{count, 5}}},
		{seqtable.Rules[10], []change{{slots + 0, 1}}},
		{seqtable.Rules[10], []change{{slots + 0, 3}}}, // Finished.
		{seqtable.Rules[10], []change{{slots + 1, 4}}},
		{seqtable.Rules[11], []change{{refs + 0, 1}}},
	}
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		exec, err := NewExec(backend, func(vector, pins, finished *Node) *Node {
			s := z.unflatten(vector)
			return s.Seqs.Check(seqtable.CheckInput{Pages: s.Pages, Queue: s.Queue, Pins: pins,
				Finished: ConvertDType(finished, dtypes.Bool)})
		})
		if err != nil {
			t.Fatal(err)
		}
		check := func(vector []int32) error {
			out, err := exec.Exec(vector, pins, finished)
			if err != nil {
				t.Fatal(err)
			}
			return seqtable.CheckError(tensors.MustCopyFlatData[int32](out[0]))
		}
		if err := check(sound().vector()); err != nil {
			t.Fatalf("the sound state: %v", err)
		}
		for _, c := range cases {
			vector := sound().vector()
			for _, change := range c.changes {
				vector[change.at] = change.value
			}
			err := check(vector)
			if !errors.Is(err, seqtable.ErrRuleBroken{}) || !brokenRule(err, c.rule) {
				t.Errorf("%v does not break %q, but: %v", c.changes, c.rule, err)
			}
			var finalized seqtable.ErrPageFinalized
			if shared := brokenRule(err, seqtable.Rules[6]); errors.As(err, &finalized) != shared ||
				errors.Is(err, seqtable.ErrPageFinalized{}) != shared || shared && finalized.Count != 1 {
				t.Errorf("%v: %v is an ErrPageFinalized, or is none: %+v", c.changes, err, finalized)
			}
		}
		// Every rule has its case.
		for _, rule := range seqtable.Rules {
			if !slices.ContainsFunc(cases, func(c corruption) bool { return c.rule == rule }) {
				t.Errorf("rule %q is not tested", rule)
			}
		}
	})
}

func brokenRule(err error, rule string) bool {
	joined, ok := err.(interface{ Unwrap() []error })
	return ok && slices.ContainsFunc(joined.Unwrap(), func(e error) bool {
		var broken seqtable.ErrRuleBroken
		return errors.As(e, &broken) && broken.Rule == rule && broken.Count > 0
	})
}
