// Package core runs the programs of an engine: it compiles them, holds the weights and the state on the device, sends
// the input of calls and reads their output ([Execute]), and moves pages between the device and the host ([Swapper]).
// If several processes run the model together, they do the same calls ([Hosts], [Follower]).
//
// It knows nothing of requests. Package schedule decides what a call works on.
package core

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/collective"
	"github.com/quire/quire/ops/tree"
)

// Core is the device of an engine with all that is on it. One goroutine uses it at a time, but for what its parts copy
// or compile alongside.
type Core struct {
	Settled *config.Settled
	Log     *slog.Logger
	// Now is the clock that the account of time is kept by; a field for tests.
	Now   func() time.Time
	Trace schedule.Tracer // nil without Config.Trace
	// Pinned is how many pages give way to nobody, which errors about missing pages report.
	Pinned func() int
	// Adapters are those that rows of the next call may name.
	Adapters *Adapters
	// Renewed is called when the device has an empty state: everything that the host knew of the previous state is
	// void.
	Renewed func()

	backend  compute.Backend
	hosts    *Hosts // nil if this process runs the model alone
	programs *programs
	graphs   *device.Graphs // graphs of the current programs: Grow replaces them
	weights  weights
	state    []compute.Buffer // nil after a call failed, which had taken it
	extras   []compute.Buffer // arrays of the features of program run, after its state
	inputs   inputs
	resident residents
	began    time.Time     // when the device began the program that it ran last
	ran      time.Duration // how long it ran that program
}

// Graphs are the graphs of the current programs.
func (c *Core) Graphs() *device.Graphs { return c.graphs }

// Several reports whether several processes run the model together.
func (c *Core) Several() bool { return c.hosts != nil }

// Follows reports whether the process does what process 0 does.
func (c *Core) Follows() bool { return c.hosts != nil && !c.hosts.leads() }

// HasState reports whether there is a device state: a call that fails leaves none.
func (c *Core) HasState() bool { return c.state != nil }

// State returns the arrays of the device state, and the arrays of the features of program run. They stay the core's.
func (c *Core) State() (state, extras []compute.Buffer) { return c.state, c.extras }

// Ran returns when the device began the program that it ran last, and how long it ran.
func (c *Core) Ran() (began time.Time, elapsed time.Duration) { return c.began, c.ran }

// FailHosts ends the other processes if err is a failure of this one. A run that was cancelled is no failure: process 0
// announces the end.
func (c *Core) FailHosts(cancelled bool, err error) {
	if c.hosts != nil && err != nil && !cancelled {
		c.hosts.group.Fail(err)
	}
}

// Program returns one of the programs that were compiled before the engine was there: all that are not
// [device.Program.Later].
func (c *Core) Program(name string) *device.Compiled {
	p, err := c.programs.byName[name].wait()
	if err != nil {
		panic(err) // then there is no engine
	}
	return p
}

// LaterProgram returns a program that may be [device.Program.Later].
func LaterProgram(c *Core, name string) (*device.Compiled, error) { return c.programs.waitLater(name) }

// Executables returns the compiled programs by their names, to be looked at. Those that a job may do without are
// compiled for it, and waited for.
func (c *Core) Executables() map[string]compute.Executable {
	all := make(map[string]compute.Executable, len(c.programs.byName))
	for name := range c.programs.byName {
		if p, err := c.programs.waitLater(name); err == nil {
			all[name] = p.Executable
		}
	}
	return all
}

// ExpectTransfers has the programs that move pages compiled once half of the pages are taken: rows may have to leave
// the device before they end.
func (c *Core) ExpectTransfers(freePages int) {
	if freePages < c.Settled.Sizes.Pages/2 {
		c.programs.compileLater()
	}
}

// WaitCompiled waits until nothing is compiled alongside the calls.
func (c *Core) WaitCompiled() { c.programs.compiling.Wait() }

// Span begins a span of a track in the trace; the function that it returns ends it.
func (c *Core) Span(track, name string) (end func(args ...any)) {
	trace := c.Trace
	if trace == nil {
		return func(...any) {}
	}
	begin := c.Now()
	return func(args ...any) { trace.Span(track, name, begin, c.Now(), args...) }
}

// Renew makes an empty device state in place of one that was lost, on all processes that run the model together.
func (c *Core) Renew() error {
	if err := c.hosts.announce(c.Program(device.Init), nil, nil); err != nil {
		return err
	}
	return c.Reset()
}

// Reset makes an empty device state.
func (c *Core) Reset() error {
	finalize(c.state)
	finalize(c.extras)
	c.extras = nil
	state, err := c.Program(device.Init).Executable.Execute(nil, nil, 0)
	if err != nil {
		return fmt.Errorf("making the device state: %w", err)
	}
	c.state = state
	c.Renewed()
	c.extras, err = c.newExtras(c.Program(device.Run), nil)
	return err
}

// newExtras makes the extras of the program run, except the extras that its previous form has: it takes these over.
func (c *Core) newExtras(built, before *device.Compiled) (extras []compute.Buffer, err error) {
	have := map[string]compute.Buffer{}
	if before != nil {
		for i, l := range before.Extras {
			have[l.Name] = c.extras[i]
		}
	}
	var made []compute.Buffer
	for _, l := range built.Extras {
		b := have[l.Name]
		if b == nil {
			n := l.Shape.Size()
			zeros := reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), n, n).Interface()
			if b, err = toDevices(c.backend, l, zeros); err != nil {
				finalize(made)
				return nil, fmt.Errorf("%s: %w", l.Name, err)
			}
			made = append(made, b)
		}
		extras = append(extras, b)
	}
	return extras, nil
}

// DropState gives up the device state.
func (c *Core) DropState() {
	finalize(c.state)
	c.state = nil
}

// Close frees the device's memory, after wait, which waits for the copies of pages. It does nothing if another process
// is gone: a device may then wait for that process's devices forever.
func (c *Core) Close(wait func()) {
	if c.hosts.over() {
		return
	}
	wait()
	c.programs.compiling.Wait()
	finalize(c.state)
	finalize(c.extras)
	c.state, c.extras = nil, nil
	c.weights.close()
	c.resident.close()
	c.inputs.close()
	c.programs.close()
}

// BytesOnHost is the memory of the host that the pages of length tokens take, of all devices of this process.
func (c *Core) BytesOnHost(length int) int64 {
	blocks := ceilDiv(ceilDiv(length, c.Settled.Sizes.PageSize), device.BlockPages)
	return int64(blocks) * device.BlockPages * c.Settled.ModelPageBytes() * int64(len(collective.Places(c.backend)))
}

// errNoState means that there is no device state.
var errNoState = errors.New("the program that failed had taken the state, and gave none back")

// ReadTables copies the device's tables to the host, all of the state but the caches. If several devices run the model
// together, it reads the first device's: all have the same.
func (c *Core) ReadTables() ([]tree.Array, error) {
	if c.state == nil {
		return nil, errNoState
	}
	var all []tree.Array
	var tables []compute.Buffer
	var flats []any
	for i, l := range c.Program(device.Init).State {
		if !l.InTables() {
			continue
		}
		from := c.state[i]
		if buffer, ok := from.(parted); ok {
			from = buffer.Parts()[0]
		}
		n := l.Shape.Size()
		a := tree.Array{Name: l.Name, Shape: l.Shape,
			Flat: reflect.MakeSlice(reflect.SliceOf(l.Shape.DType.GoType()), n, n).Interface()}
		all, tables, flats = append(all, a), append(tables, from), append(flats, a.Flat)
	}
	if err := download(c.backend, tables, flats); err != nil {
		return nil, fmt.Errorf("reading the tables: %w", err)
	}
	return all, nil
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }
