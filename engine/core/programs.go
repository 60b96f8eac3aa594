package core

import (
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
)

// programs are the compiled programs of an engine.
type programs struct {
	backend   compute.Backend
	tuned     bool // on the device, while they are compiled
	log       *slog.Logger
	span      func(track, name string) (end func(args ...any))
	byName    map[string]*program
	later     later
	compiling sync.WaitGroup // what is compiled alongside the first calls
}

// program is a program that may still be compiled.
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

// later are the programs that a job may do without: see [device.Program.Later].
type later struct {
	begin    sync.Once
	graphs   *device.Graphs // graphs at the start: Core.Grow makes others
	programs []device.Program
}

// waitLater returns a program that may be [device.Program.Later], and has it compiled if nobody had before.
func (p *programs) waitLater(name string) (*device.Compiled, error) {
	p.compileLater()
	return p.byName[name].wait()
}

// compileLater begins to compile those programs that are not there yet. It does not wait for them.
func (p *programs) compileLater() {
	p.later.begin.Do(func() {
		if len(p.later.programs) == 0 {
			return
		}
		p.compiling.Go(func() {
			defer p.span(compilerTrack, "compile")("programs", len(p.later.programs))
			if err := p.compile(p.later.graphs, p.later.programs); err != nil {
				p.log.Error("programs that move pages to the host and back", "err", err) // callers then fail
			}
			p.releaseMemory()
		})
	})
}

// compilerTrack is the track of a trace that shows what is compiled.
const compilerTrack = "compiler"

// compile compiles programs side by side, or one after the other if they are tuned.
func (p *programs) compile(gr *device.Graphs, list []device.Program) error {
	start := time.Now()
	failures := make([]error, len(list))
	var wg sync.WaitGroup
	for i, one := range list {
		to := p.byName[one.Name]
		wg.Go(func() {
			defer close(to.there)
			to.compiled, to.err = gr.Compile(p.backend, one)
			failures[i] = to.err
			p.log.Debug("compiled", "program", one.Name, "seconds", time.Since(start).Seconds())
		})
		if p.tuned {
			wg.Wait()
		}
	}
	wg.Wait()
	return errors.Join(failures...)
}

// releaseMemory gives what the compiler and the weights took and gave back to the operating system: memory of the
// backend, and what building programs and reading weights left in Go's heap.
func (p *programs) releaseMemory() {
	if b, ok := p.backend.(interface{ ReleaseMemory() }); ok {
		b.ReleaseMemory()
	}
	debug.FreeOSMemory()
}

// add registers the programs, and returns the programs to compile first. With later, programs that are
// [device.Program.Later] are not among them.
func (p *programs) add(gr *device.Graphs, list []device.Program, later bool) (first []device.Program) {
	p.later.graphs = gr
	for _, one := range list {
		p.byName[one.Name] = &program{there: make(chan struct{})}
		if one.Later && later {
			p.later.programs = append(p.later.programs, one)
		} else {
			first = append(first, one)
		}
	}
	return first
}

func (p *programs) close() {
	for _, one := range p.byName {
		if one.compiled != nil {
			one.compiled.Executable.Finalize()
		}
	}
	p.byName = nil
}
