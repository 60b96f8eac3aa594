package engine

import (
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
)

// span begins a span of a track; the function that it returns ends it.
func (e *Engine) span(track, name string) (end func(args ...any)) {
	trace := e.trace
	if trace == nil {
		return func(...any) {}
	}
	begin := e.now()
	return func(args ...any) { trace.Span(track, name, begin, e.now(), args...) }
}

// stepsTrack has, below each call, how long its steps of each kind took in all: the device's clock adds them up, and
// does not tell when each ran.
const stepsTrack = "steps of calls, added up by kind"

// traceSteps shows the steps of the call that ended last.
func (e *Engine) traceSteps(got *device.Output, spent schedule.Spent) {
	if e.trace == nil || spent.Prefill+spent.Decode == 0 {
		return
	}
	at := e.began
	rest := max(0, spent.Device-spent.Prefill-spent.Decode)
	prefill := at.Add(spent.Prefill)
	decode := prefill.Add(spent.Decode)
	e.trace.Span(stepsTrack, "prefill", at, prefill, "steps", got.PrefillSteps, "tokens", got.PrefillTokens)
	e.trace.Span(stepsTrack, "decode", prefill, decode, "steps", got.DecodeSteps, "tokens", got.DecodeTokens)
	e.trace.Span(stepsTrack, "admission and the rest", decode, decode.Add(rest))
}
