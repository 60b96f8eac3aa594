package core

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/lockstep"
	"github.com/quire/quire/ops/tree"
)

// Hosts are the processes on whose devices an engine runs, one engine in each.
//
// The engine of process 0 takes requests, schedules and yields completions. Before it runs a program it announces the
// program with its whole input, and the others run it on their devices. So they decide nothing, and the time at which a
// request comes or a text is matched makes no difference to them. After each call whose output the host reads, the
// outputs are compared.
type Hosts struct {
	group *lockstep.Group
	calls int
	chain [sha256.Size]byte // hash of all calls so far and their results

	// Pages that moved to the hosts: each process has the pages of its devices, by the number that process 0 gave them.
	numbers uint64
	mu      sync.Mutex // guards dropped
	dropped []uint64   // numbers of blocks that process 0 has no use for any more
}

// callHeader begins the announcement of a call; the arrays of the program's input follow, empty if they equal the
// arrays of its last call.
type callHeader struct {
	Program string
	Block   uint64   `json:",omitempty"` // the block that save makes, or load takes
	Dropped []uint64 `json:",omitempty"` // blocks
}

// ErrSeveralHosts means that an engine on devices of several processes cannot do something.
var ErrSeveralHosts = errors.New("an engine on the devices of several hosts can't do that")

// Join returns the processes that run the model together, nil for one alone, and the config settled again for the KV
// memory of the process that has least.
func Join(settled *config.Settled) (*Hosts, *config.Settled, error) {
	s, err := newHosts(settled.Config)
	if err != nil {
		return nil, nil, fmt.Errorf("planning the engine: %w", err)
	}
	if s != nil {
		settled, err = s.sameMemory(settled)
	}
	return s, settled, err
}

func newHosts(cfg config.Config) (*Hosts, error) {
	switch {
	case cfg.Hosts == nil || cfg.Hosts.NumProcesses() == 1:
		return nil, nil
	case cfg.Contexts > 0:
		return nil, fmt.Errorf("%w: Config.Contexts must be 0", ErrSeveralHosts)
	}
	return &Hosts{group: cfg.Hosts}, nil
}

// leads reports whether other processes follow this one.
func (s *Hosts) leads() bool { return s != nil && s.group.Leads() }

// sameMemory lets all processes take the KV memory that the one with the least has, and the number of slots and the
// size of pages that follow from the least memory.
func (s *Hosts) sameMemory(settled *config.Settled) (*config.Settled, error) {
	cfg, z := settled.Config, settled.Sizes
	all, err := s.group.Gather([]byte(fmt.Sprint(settled.KVBytes, z.MaxSeqs, z.PageSize)))
	if err != nil {
		return nil, fmt.Errorf("planning the engine: %w", err)
	}
	cfg.KVMemory = settled.KVBytes
	slots, page := z.MaxSeqs, z.PageSize
	for _, text := range all {
		var bytes int64
		var itsSlots, itsPage int
		if _, err := fmt.Sscan(string(text), &bytes, &itsSlots, &itsPage); err != nil {
			return nil, fmt.Errorf("planning the engine: the sizes of another process: %w", err)
		}
		cfg.KVMemory, slots, page = min(cfg.KVMemory, bytes), min(slots, itsSlots), max(page, itsPage)
	}
	if z.Paged && cfg.MaxSeqs == 0 {
		cfg.MaxSeqs = slots
	}
	if z.Paged && cfg.PageSize == 0 {
		cfg.PageSize = page
	}
	return config.Settle(cfg)
}

// announce sends a call to the others, if this process leads.
func (s *Hosts) announce(p *device.Compiled, input [][]byte, moved *Block) error {
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

func (s *Hosts) drop(number uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropped = append(s.dropped, number)
}

// note adds to the chain of all that was done.
func (s *Hosts) note(pieces [][]byte) {
	h := sha256.New()
	h.Write(s.chain[:])
	for _, piece := range pieces {
		sum := sha256.Sum256(piece)
		h.Write(sum[:])
	}
	h.Sum(s.chain[:0])
}

// confirm compares what a call came to on all processes.
func (s *Hosts) confirm(p *device.Compiled, arrays []tree.Array) error {
	if s == nil {
		return nil
	}
	s.calls++
	facts := []lockstep.Fact{{Name: "what was done before", Value: hex.EncodeToString(s.chain[:8])}}
	var sums [][]byte
	for i, a := range arrays {
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

// execute runs a program on the devices of all. If another process is gone, it does not wait for a device that waits
// for that process. Then nothing of the device may be used or freed any more.
func (s *Hosts) execute(p *device.Compiled, args []compute.Buffer, donate []bool) ([]compute.Buffer, error) {
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

// over reports whether the processes are no longer in step. Then the contents of the devices are lost.
func (s *Hosts) over() bool { return s != nil && s.group.Err() != nil }
