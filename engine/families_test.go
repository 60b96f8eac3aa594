package engine_test

import (
	"slices"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Completions of each family whose contract no other test looks at depend on their request alone: on no other row, on
// no order, clone or slot, nor on having been moved to the host and back. By itself no completion is moved.
func TestSameBytesOfFamilies(t *testing.T) {
	testenv.Slow(t)
	elsewhere := slices.Concat(stateful, []string{contractFamily, "qwen3-next", // TestSameBytesWithStates
		"llama3", "mixtral", "gpt-oss"}) // TestSameBytesOfBlocks
	requests := func() []*engine.Request { return append(contractRequests(), longRequests(8)...) }
	for _, family := range testenv.Families(t) {
		if slices.Contains(elsewhere, family) {
			continue
		}
		t.Run(family, func(t *testing.T) {
			e := stateEngine(t, family, 22, nil)
			want := collect(t, e, requests()...)
			if s := e.Stats(); s.Preemptions == 0 {
				t.Errorf("no row was moved to the host: %d pages were enough", s.Pages)
			}
			sameBytesInOtherCompany(t, e, want, requests)
		})
	}
}
