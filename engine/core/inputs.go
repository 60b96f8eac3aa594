package core

import (
	"bytes"
	"fmt"

	"github.com/gomlx/compute"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/ops/tree"
)

// inputs are what each program had last.
type inputs struct {
	backend compute.Backend
	sent    map[string]*sent // sent inputs by program
}

// sent is the input that a program had last. It stays on the device: an array that is the same in the next call is not
// sent again.
type sent struct {
	flats   []any // arrays of the packing
	spare   []any // memory for the next ones
	buffers []compute.Buffer
	changed []bool // with the last call
}

// pieces are the arrays that changed with the last call; nil in place of the others.
func (s *sent) pieces() [][]byte {
	list := make([][]byte, len(s.flats))
	for i, flat := range s.flats {
		if s.changed[i] {
			list[i] = tree.Bytes(flat)
		}
	}
	return list
}

// last is what a program was given last: nothing, at first.
func (in *inputs) last(p *device.Compiled) *sent {
	s := in.sent[p.Name]
	if s == nil {
		n := len(p.Input.Arrays())
		s = &sent{flats: p.Input.New(), spare: p.Input.New(), buffers: make([]compute.Buffer, n),
			changed: make([]bool, n)}
		in.sent[p.Name] = s
	}
	return s
}

// upload brings a program's input to the device, as far as it is not there. The buffers stay the engine's.
func (in *inputs) upload(p *device.Compiled, arrays []tree.Array) (*sent, error) {
	s := in.last(p)
	for i := range s.flats {
		copy(tree.Bytes(s.spare[i]), tree.Bytes(s.flats[i])) // absent leaves keep these values
	}
	p.Input.Put(s.spare, arrays)
	for i, a := range p.Input.Arrays() {
		s.changed[i] = s.buffers[i] == nil || !bytes.Equal(tree.Bytes(s.spare[i]), tree.Bytes(s.flats[i]))
		if !s.changed[i] {
			continue
		}
		b, err := in.backend.BufferFromFlatData(0, s.spare[i], a.Shape)
		if err != nil {
			return nil, fmt.Errorf("program %s, input %s: %w", p.Name, a.Name, err)
		}
		if s.buffers[i] != nil {
			_ = s.buffers[i].Finalize()
		}
		s.buffers[i] = b
		s.flats[i], s.spare[i] = s.spare[i], s.flats[i]
	}
	return s, nil
}

// forget drops the last inputs of a program.
func (in *inputs) forget(name string) {
	if s := in.sent[name]; s != nil {
		finalize(s.buffers)
		delete(in.sent, name)
	}
}

func (in *inputs) close() {
	for name := range in.sent {
		in.forget(name)
	}
}

// receive fills the arrays of a program's input with what process 0 sent, and what the last call had.
func (in *inputs) receive(p *device.Compiled, arrays []tree.Array, pieces [][]byte) error {
	last := in.last(p)
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
	p.Input.Take(flats, arrays)
	tree.Store(arrays)
	return nil
}
