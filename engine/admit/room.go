package admit

import (
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/stopping"
)

// Room is the room for the stops of a run, as the scheduler knows it.
type Room struct{ *stopping.Arena }

// Hold implements [schedule.Stops].
func (r Room) Hold(request *schedule.Request) bool {
	return r.Arena.Hold(Of(request).Stops.list()...)
}

// Release implements [schedule.Stops].
func (r Room) Release(request *schedule.Request) { r.Arena.Release(Of(request).Stops.list()...) }

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
