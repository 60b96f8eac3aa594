package engine

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"time"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/tables"
	"github.com/quire/quire/tree"
)

// Tables describes the engine's tables between runs; ErrRunning during one.
func (e *Engine) Tables() (d *tables.Dump, err error) {
	err = e.alone(func() error {
		d = e.dump(nil, nil)
		d.Calls = 0
		return nil
	})
	return d, err
}

// DumpTables writes the engine's tables for people, between runs; ErrRunning during one.
func (e *Engine) DumpTables(w io.Writer) error {
	d, err := e.Tables()
	if err != nil {
		return err
	}
	return d.WriteText(w)
}

// inspect is the hook of a run's scheduler; nil where nobody wants to look.
func (e *Engine) inspect() func(view func() schedule.View, failure error) error {
	if e.cfg.Inspect == nil {
		return nil
	}
	return func(view func() schedule.View, failure error) error {
		v := view()
		return e.look(&v, failure)
	}
}

// look lets those who watch look at the tables, and returns the failure, with the file that they put the tables in.
func (e *Engine) look(view *schedule.View, failure error) error {
	if e.cfg.Inspect == nil {
		return failure
	}
	file := e.cfg.Inspect(Inspection{Replica: e.cfg.Replica, Calls: e.Calls(), Fault: failure,
		Tables: func() *tables.Dump { return e.dump(view, failure) }})
	if failure != nil && file != "" {
		return fmt.Errorf("%w (the device's tables are in %s)", failure, file)
	}
	return failure
}

// dump reads the device's tables, which changes nothing there.
func (e *Engine) dump(view *schedule.View, failure error) *tables.Dump {
	head := tables.Head{Time: time.Now(), Model: e.plan.Model, Backend: e.plan.Backend, Replica: e.cfg.Replica,
		Calls: e.Calls(), Slots: e.plan.Slots, FirstContext: e.graphs.FirstContext(), PageSize: e.plan.PageSize}
	if failure != nil {
		head.Fault = failure.Error()
	}
	arrays, err := e.readTables()
	if err != nil {
		head.Lost = err.Error()
	}
	return tables.New(head, arrays, view, func(r *schedule.Request) string { return r.Tag.(tag).asked.ID })
}

// errNoState says that there is no device state.
var errNoState = errors.New("the program that failed had taken the state, and gave none back")

// readTables copies the device's tables to the host, all of the state but the caches. Where several devices run the
// model together they are the first one's: all have the same.
func (e *Engine) readTables() ([]tree.Array, error) {
	if e.state == nil {
		return nil, errNoState
	}
	var all []tree.Array
	for i, l := range e.program(device.Init).State {
		if !l.InTables() {
			continue
		}
		from := e.state[i]
		if of, ok := from.(parted); ok {
			from = of.Parts()[0]
		}
		n := l.Shape.Size()
		a := tree.Array{Name: l.Name, Shape: l.Shape,
			Flat: reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), n, n).Interface()}
		if err := from.ToFlatData(a.Flat); err != nil {
			return nil, fmt.Errorf("reading %s: %w", l.Name, err)
		}
		all = append(all, a)
	}
	return all, nil
}
