package engine

import "github.com/quire/quire/engine/schedule"

// Inspected lets a test look at the runs of an engine that others use too, until it gives the engine back.
func (e *Engine) Inspected(inspect func(Inspection) string, trace schedule.Tracer) (back func()) {
	e.cfg.Inspect, e.trace = inspect, trace
	return func() {
		e.swapper.pending.Wait() // copies are in the trace too
		e.cfg.Inspect, e.trace = nil, nil
	}
}
