package engine

import "github.com/quire/quire/engine/schedule"

// Inspected lets a test look at the runs of an engine that others use too, until it gives the engine back.
func (e *Engine) Inspected(inspect func(Inspection) string, trace schedule.Tracer) (back func()) {
	e.runs.inspector.inspect, e.core.Trace = inspect, trace
	return func() {
		e.swapper.WaitCopies() // copies are in the trace too
		e.runs.inspector.inspect, e.core.Trace = nil, nil
	}
}
