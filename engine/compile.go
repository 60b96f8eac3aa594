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

const compilerTrack = "compiler"

// compileAndLoad compiles the programs side by side and puts the weights on the device meanwhile. It does not wait for
// those that a job may begin without: they are compiled after the others.
func (e *Engine) compileAndLoad(ctx context.Context, programs []device.Program) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	loaded := make(chan error, 1)
	go func() { loaded <- e.loadWeights(ctx) }()
	var first, later []device.Program
	for _, p := range programs {
		e.programs[p.Name] = &program{there: make(chan struct{})}
		if p.Later && e.inStep == nil { // processes compare all programs before they begin
			later = append(later, p)
		} else {
			first = append(first, p)
		}
	}
	end := e.span(compilerTrack, "compile")
	gr := e.graphs // addFeatures may give the engine others while the later ones compile
	err := e.compile(gr, first)
	end("programs", len(first))
	if err == nil && e.inStep != nil {
		err = e.inStep.agree(e)
	}
	if err != nil {
		stop()
		<-loaded
		for _, p := range later {
			close(e.programs[p.Name].there)
		}
		return err
	}
	e.compiling.Go(func() {
		defer e.span(compilerTrack, "compile")("programs", len(later))
		if err := e.compile(gr, later); err != nil {
			e.log.Error("programs that move pages to the host and back", "err", err) // and whoever wants one fails
		}
		e.releaseMemory()
		debug.FreeOSMemory() // what building programs and reading weights left in Go's heap
	})
	return <-loaded
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

// releaseMemory gives what the compiler and the weights took and gave back to the operating system.
func (e *Engine) releaseMemory() {
	if b, ok := e.cfg.Backend.(interface{ ReleaseMemory() }); ok {
		b.ReleaseMemory()
	}
}

// Executables returns the compiled programs by their names in Plan.Programs, to be looked at: they stay the engine's.
// It waits for those that are compiled beside a job.
func (e *Engine) Executables() map[string]compute.Executable {
	all := make(map[string]compute.Executable, len(e.programs))
	for name, p := range e.programs {
		if c, err := p.wait(); err == nil {
			all[name] = c.Executable
		}
	}
	return all
}
