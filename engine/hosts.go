package engine

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/lockstep"
	"github.com/quire/quire/tree"
)

// inStep is what an engine has whose devices are those of several processes, one engine in each.
//
// Process 0's engine is the one that takes requests, schedules and yields completions. Each time it runs a program it
// first tells the others which one, with the whole input; they run it on theirs. So they decide nothing, and when a
// request comes or a text is matched makes no difference to them. After each call whose output the host reads, the
// outputs are compared.
type inStep struct {
	group *lockstep.Group
	calls int
	chain [sha256.Size]byte // of all calls so far and what they came to

	// Pages that moved to the hosts: each process has those of its devices, by the number that process 0 gave them.
	blocks  map[uint64]*block // of those that follow
	numbers uint64
	mu      sync.Mutex
	dropped []uint64 // numbers of blocks that process 0 has no use for any more

	observe func(in *device.Input) // for tests: what a follower is about to run
}

// callHeader begins what process 0 tells of a call; the arrays of the program's input follow, empty where they are
// those of its last call.
type callHeader struct {
	Program string
	Block   uint64   `json:",omitempty"` // that save makes, or load takes
	Dropped []uint64 `json:",omitempty"` // blocks
}

// ErrSeveralHosts says that an engine on devices of several processes does not do something, to be told by errors.Is.
var ErrSeveralHosts = errors.New("an engine on the devices of several hosts can't do that")

func newInStep(cfg Config) (*inStep, error) {
	switch {
	case cfg.Hosts == nil || cfg.Hosts.NumProcesses() == 1:
		return nil, nil
	case cfg.Contexts > 0:
		return nil, fmt.Errorf("%w: Config.Contexts must be 0", ErrSeveralHosts)
	}
	return &inStep{group: cfg.Hosts, blocks: map[uint64]*block{}}, nil
}

// leads says that the engine tells others what to do.
func (s *inStep) leads() bool { return s != nil && s.group.Leads() }

// sameMemory lets all processes take the KV memory that the one with the least has.
func (s *inStep) sameMemory(settled *config.Settled) (*config.Settled, error) {
	cfg := settled.Config
	cfg.KVMemory = settled.KVBytes
	all, err := s.group.Gather([]byte(fmt.Sprint(settled.KVBytes)))
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	for _, text := range all {
		var bytes int64
		if _, err := fmt.Sscan(string(text), &bytes); err != nil {
			return nil, fmt.Errorf("planning the engine: the KV memory of another process: %w", err)
		}
		cfg.KVMemory = min(cfg.KVMemory, bytes)
	}
	return config.Settle(cfg)
}

// agree compares what the processes are about to run.
func (s *inStep) agree(e *Engine) error {
	p := e.plan
	p.Backend = "" // names a path, and devices by their numbers here
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	facts := []lockstep.Fact{{Name: "the model's fingerprint", Value: e.cfg.Model.FingerPrint()}}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Plan]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if value, ok := fields[name]; ok {
			facts = append(facts, lockstep.Fact{Name: name, Value: string(value)})
		}
	}
	facts = append(facts, e.stops.facts()...)
	for _, name := range e.plan.Programs {
		if x, ok := e.program(name).Executable.(interface{ StableHLO() string }); ok {
			sum := sha256.Sum256([]byte(x.StableHLO()))
			facts = append(facts, lockstep.Fact{Name: "program " + name, Value: hex.EncodeToString(sum[:8])})
		}
	}
	return s.group.Agree("the engine", facts)
}

// announce tells the others of a call, if this process leads.
func (s *inStep) announce(p *device.Compiled, input [][]byte, moved *block) error {
	if !s.leads() {
		return nil
	}
	header := callHeader{Program: p.Name}
	if moved != nil {
		if moved.number == 0 {
			s.numbers++
			moved.number = s.numbers
			// When nobody has the block any more, the others need not keep theirs.
			runtime.AddCleanup(moved, s.drop, moved.number)
		}
		header.Block = moved.number
	}
	s.mu.Lock()
	header.Dropped, s.dropped = s.dropped, nil
	s.mu.Unlock()
	text, err := json.Marshal(header)
	if err != nil {
		return err
	}
	call := append([][]byte{text}, input...)
	s.note(call)
	return s.group.Announce(call...)
}

func (s *inStep) drop(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, number)
}

// note adds to the chain of all that was done.
func (s *inStep) note(pieces [][]byte) {
	h := sha256.New()
	h.Write(s.chain[:])
	for _, piece := range pieces {
		sum := sha256.Sum256(piece)
		h.Write(sum[:])
	}
	h.Sum(s.chain[:0])
}

// confirm compares what a call came to on all processes.
func (s *inStep) confirm(p *device.Compiled, got []tree.Array) error {
	if s == nil {
		return nil
	}
	s.calls++
	facts := []lockstep.Fact{{Name: "what was done before", Value: hex.EncodeToString(s.chain[:8])}}
	var sums [][]byte
	for i, a := range got {
		if !p.Output[i].Own {
			sum := sha256.Sum256(tree.Bytes(a.Flat))
			facts = append(facts, lockstep.Fact{Name: a.Name, Value: hex.EncodeToString(sum[:8])})
			sums = append(sums, sum[:])
		}
	}
	s.note(sums)
	return s.group.Confirm(s.calls, "program "+p.Name, facts)
}

// deviceGrace is how long a call may take to notice that another process is gone, before it is left to itself.
const deviceGrace = 5 * time.Second

// execute runs a program on the devices of all. Where another process is gone, it does not wait for a device that waits
// for that one: then nothing of the device may be used or freed any more.
func (s *inStep) execute(p *device.Compiled, args []compute.Buffer, donate []bool) ([]compute.Buffer, error) {
	type done struct {
		results []compute.Buffer
		err     error
	}
	ended := make(chan done, 1)
	go func() {
		results, err := p.Executable.Execute(args, donate, 0)
		ended <- done{results, err}
	}()
	var d done
	select {
	case d = <-ended:
	case <-s.group.Done():
		select {
		case d = <-ended:
		case <-time.After(deviceGrace):
			d.err = errors.New("the devices wait for those of another process")
		}
	}
	if lost := s.group.Err(); d.err != nil && lost != nil {
		d.err = lost // the cause
	}
	return d.results, d.err
}

// over says that the processes are no longer in step: what the devices have is lost.
func (s *inStep) over() bool { return s != nil && s.group.Err() != nil }

// fail ends the other processes where this one failed. A run that was cancelled is no failure: process 0 says when all
// is over.
func (s *inStep) fail(ctx context.Context, err error) {
	if s != nil && err != nil && ctx.Err() == nil {
		s.group.Fail(err)
	}
}

// Follow does what the engine of process 0 does, until that is through: then it returns nil. It is for an engine with
// Config.Hosts of another process, in place of Run. When ctx is cancelled, process 0 is asked to end.
func (e *Engine) Follow(ctx context.Context) error {
	s := e.inStep
	if s == nil || s.leads() {
		return errors.New("engine: only the engine of a process other than 0 follows")
	}
	defer e.lock.leave(e.lock.begin())
	defer context.AfterFunc(ctx, s.group.Leave)()
	start := time.Now()
	for {
		call, err := s.group.Next()
		if err == io.EOF {
			e.swapper.wait()
			e.stats.WallSeconds = time.Since(start).Seconds()
			return nil
		}
		if err == nil {
			if err = e.follow(call); err != nil {
				err = e.look(nil, err)
			} else {
				_ = e.look(nil, nil)
			}
		}
		if err != nil {
			s.group.Fail(err)
			return err
		}
	}
}

// follow runs one program as process 0 does.
func (e *Engine) follow(call [][]byte) error {
	s := e.inStep
	var header callHeader
	if len(call) == 0 {
		return errors.New("process 0 announced nothing")
	}
	if err := json.Unmarshal(call[0], &header); err != nil {
		return fmt.Errorf("what process 0 announced: %w", err)
	}
	if header.Program == stopsProgram {
		s.note(call)
		return e.followStops(call[1:])
	}
	if header.Program == featuresProgram {
		s.note(call)
		return e.followFeatures(call[1:])
	}
	if e.programs[header.Program] == nil {
		return fmt.Errorf("process 0 runs program %q, which is not here", header.Program)
	}
	p := e.program(header.Program)
	s.note(call)
	for _, number := range header.Dropped {
		delete(s.blocks, number)
	}
	e.calls.Add(1)
	switch p.Name {
	case "init":
		return e.reset()
	case "save":
		in := device.NewSave()
		err := e.receive(p, tree.Arrays(in), call[1:])
		if err == nil {
			s.blocks[header.Block], err = e.swapper.down(in)
		}
		return err
	case "load":
		b := s.blocks[header.Block]
		if b == nil {
			return fmt.Errorf("process 0 loads pages (%d) that are not here", header.Block)
		}
		in := tree.Arrays(e.graphs.NewLoad())
		if err := e.receive(p, in, call[1:]); err != nil {
			return err
		}
		_, err := e.swapper.place(in, []*block{b})
		return err
	case "run":
		in := e.graphs.NewInput()
		arrays := tree.Arrays(in)
		if err := e.receive(p, arrays, call[1:]); err != nil {
			return err
		}
		if s.observe != nil {
			s.observe(in)
			arrays = tree.Arrays(in)
		}
		got, err := execute[device.Output](e, p, arrays)
		if err != nil {
			return err
		}
		return got.Status.Check(got.Rules, 0)
	}
	return fmt.Errorf("process 0 runs program %q, which it should not", header.Program)
}

// receive fills the arrays of a program's input with what process 0 sent, and what the last call had.
func (e *Engine) receive(p *device.Compiled, in []tree.Array, pieces [][]byte) error {
	last := e.lastInput(p)
	if len(pieces) != len(last.flats) {
		return fmt.Errorf("program %s: process 0 gives %d arrays, and %d are wanted here", p.Name, len(pieces),
			len(last.flats))
	}
	flats := p.Input.New()
	for i, l := range p.Input.Arrays() {
		from, to := pieces[i], tree.Bytes(flats[i])
		if len(from) == 0 {
			from = tree.Bytes(last.flats[i])
		}
		if len(from) != len(to) {
			return fmt.Errorf("program %s: process 0 gives another input %s than is wanted here", p.Name, l.Name)
		}
		copy(to, from)
	}
	p.Input.Take(flats, in)
	tree.Store(in)
	return nil
}
