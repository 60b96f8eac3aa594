package admit

import (
	"github.com/quire/quire/engine/adapters"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/stopping"
)

// Room is the room for the stops and the adapters of a run, as the scheduler knows it.
type Room struct {
	*stopping.Arena                // nil if the device looks for no stops
	Adapters        *adapters.Pool // nil without adapters
}

// Hold implements [schedule.Stops].
func (r Room) Hold(request *schedule.Request) bool {
	if !r.Adapters.Hold(request) {
		return false
	}
	if r.Arena != nil && !r.Arena.Hold(Of(request).Stops.list()...) {
		r.Adapters.Release(request)
		return false
	}
	return true
}

// Release implements [schedule.Stops].
func (r Room) Release(request *schedule.Request) {
	r.Adapters.Release(request)
	if r.Arena != nil {
		r.Arena.Release(Of(request).Stops.list()...)
	}
}

// States returns the states that the row of an entry starts with.
func (r Room) States(entry schedule.Entry) (states [stopping.Lanes]int32) {
	if entry.StopStates != nil {
		return [stopping.Lanes]int32(entry.StopStates)
	}
	for lane, set := range Of(entry.Request).Stops {
		if states[lane] = stopping.None; set != nil {
			states[lane] = r.Start(set)
		}
	}
	return states
}
