package engine

import "github.com/quire/quire/engine/device"

// CountPrefill adds up how many prompt tokens the run program runs, for tests.
func (e *Engine) CountPrefill(n *int) {
	e.flushed = func(got *device.Output) { *n += int(got.PrefillTokens) }
}
