package engine

import (
	"fmt"
	"sync/atomic"
	"time"

	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
)

// inspector lets observers look at the engine's tables.
type inspector struct {
	core    *core.Core
	calls   *atomic.Int64
	inspect func(Inspection) (file string) // Config.Inspect; nil for nobody
}

// hook is the hook of a run's scheduler; nil if nobody wants to look.
func (i *inspector) hook() func(view func() schedule.View, failure error) error {
	if i.inspect == nil {
		return nil
	}
	return func(view func() schedule.View, failure error) error {
		v := view()
		return i.look(&v, failure)
	}
}

// look lets observers look at the tables, and returns the failure, with the file that they wrote the tables to.
func (i *inspector) look(view *schedule.View, failure error) error {
	if i.inspect == nil {
		return failure
	}
	file := i.inspect(Inspection{Replica: i.core.Settled.Config.Replica, Calls: i.calls.Load(), Fault: failure,
		Tables: func() *tables.Dump { return i.dump(view, failure) }})
	if failure != nil && file != "" {
		return fmt.Errorf("%w (the device's tables are in %s)", failure, file)
	}
	return failure
}

// dump reads the device's tables, which changes nothing there.
func (i *inspector) dump(view *schedule.View, failure error) *tables.Dump {
	z := i.core.Settled.Sizes
	head := tables.Head{Time: time.Now(), Model: i.core.Settled.Model.Architecture,
		Backend: i.core.Settled.Config.Backend.Description(), Replica: i.core.Settled.Config.Replica,
		Calls: i.calls.Load(), Slots: z.Slots, FirstContext: z.FirstContext(), PageSize: z.PageSize}
	if failure != nil {
		head.Fault = failure.Error()
	}
	arrays, err := i.core.ReadTables()
	if err != nil {
		head.Lost = err.Error()
	}
	return tables.New(head, arrays, view)
}
