package engine

import (
	"context"
	"errors"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
)

// program is one of the engine's, which may still be compiled.
type program struct {
	there    chan struct{} // closed when one of the others is set
	compiled *device.Compiled
	err      error
}

// wait returns the program, once it is compiled.
func (p *program) wait() (*device.Compiled, error) {
	<-p.there
	return p.compiled, p.err
}

// program returns one of those that were compiled before the engine was there: all that are not
// [device.Program.Later].
func (e *Engine) program(name string) *device.Compiled {
	p, err := e.programs[name].wait()
	if err != nil {
		panic(err) // there is no engine then
	}
	return p
}

// later are the programs that a job may do without: see [device.Program.Later].
type later struct {
	begin    sync.Once
	graphs   *device.Graphs // of the start: addFeatures gives the engine others
	programs []device.Program
}

// laterProgram returns a program that may be [device.Program.Later], and has it compiled where nobody had yet.
func (e *Engine) laterProgram(name string) (*device.Compiled, error) {
	e.compileLater()
	return e.programs[name].wait()
}

// compileLater begins to compile those programs that are not there yet. It does not wait for them.
func (e *Engine) compileLater() {
	e.later.begin.Do(func() {
		if len(e.later.programs) == 0 {
			return
		}
		e.compiling.Go(func() {
			defer e.span(compilerTrack, "compile")("programs", len(e.later.programs))
			if err := e.compile(e.later.graphs, e.later.programs); err != nil {
				e.log.Error("programs that move pages to the host and back", "err", err) // who wants one fails
			}
			e.releaseMemory()
		})
	})
}

// expectTransfers has the programs that move pages compiled once half of the pages are taken: rows may have to leave
// the device before they end.
func (e *Engine) expectTransfers(free int) {
	if free < e.plan.Pages/2 {
		e.compileLater()
	}
}

const compilerTrack = "compiler"

// compileAndLoad compiles the programs side by side and puts the weights on the device meanwhile. Those that a job may
// do without are compiled beside the first calls where it is known that they are needed, or else once they may be.
func (e *Engine) compileAndLoad(ctx context.Context, programs []device.Program) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	loaded := make(chan error, 1)
	go func() { loaded <- e.loadWeights(ctx) }()
	e.later.graphs = e.graphs
	var first []device.Program
	for _, p := range programs {
		e.programs[p.Name] = &program{there: make(chan struct{})}
		if p.Later && e.inStep == nil { // processes compare all programs before they begin
			e.later.programs = append(e.later.programs, p)
		} else {
			first = append(first, p)
		}
	}
	end := e.span(compilerTrack, "compile")
	err := e.compile(e.graphs, first)
	end("programs", len(first))
	if err == nil && e.inStep != nil {
		err = e.inStep.agree(e)
	}
	if err != nil {
		stop()
		<-loaded
		return err
	}
	if e.cfg.HostKVMemory > 0 || e.plan.Contexts > 0 {
		e.compileLater()
	}
	err = <-loaded
	e.compiling.Go(e.releaseMemory)
	return err
}

// compile compiles programs side by side.
func (e *Engine) compile(gr *device.Graphs, programs []device.Program) error {
	start := time.Now()
	failures := make([]error, len(programs))
	var wg sync.WaitGroup
	for i, p := range programs {
		to := e.programs[p.Name]
		wg.Go(func() {
			defer close(to.there)
			to.compiled, to.err = gr.Compile(e.cfg.Backend, p)
			failures[i] = to.err
			e.log.Debug("compiled", "program", p.Name, "seconds", time.Since(start).Seconds())
		})
	}
	wg.Wait()
	return errors.Join(failures...)
}

// releaseMemory gives what the compiler and the weights took and gave back to the operating system: memory of the
// backend, and what building programs and reading weights left in Go's heap.
func (e *Engine) releaseMemory() {
	if b, ok := e.cfg.Backend.(interface{ ReleaseMemory() }); ok {
		b.ReleaseMemory()
	}
	debug.FreeOSMemory()
}

// Executables returns the compiled programs by their names in Plan.Programs, to be looked at: they stay the engine's.
// Those that a job may do without are compiled for it, and waited for.
func (e *Engine) Executables() map[string]compute.Executable {
	all := make(map[string]compute.Executable, len(e.programs))
	for name := range e.programs {
		if c, err := e.laterProgram(name); err == nil {
			all[name] = c.Executable
		}
	}
	return all
}
