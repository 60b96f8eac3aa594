package engine

import "github.com/quire/quire/engine/device"

// Followed lets f change what the engine is about to run as process 0 does.
func (e *Engine) Followed(f func(columns *int32)) {
	e.follower.Observe = func(in *device.Input) { f(&in.Columns) }
}
