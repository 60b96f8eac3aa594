package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/collective"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/sampling"
	"github.com/quire/quire/seqtable"
)

// hostInput is a call's input on the host, by the names of its leaves.
type hostInput map[string]any

func newHostInput(leaves []leaf) hostInput {
	in := make(hostInput, len(leaves))
	for _, l := range leaves {
		in[l.name] = reflect.MakeSlice(reflect.SliceOf(l.shape.DType.GoType()), l.shape.Size(),
			l.shape.Size()).Interface()
	}
	return in
}

func (h hostInput) ints(name string) []int32     { return h[name].([]int32) }
func (h hostInput) floats(name string) []float32 { return h[name].([]float32) }

// input fills in what the plan says.
func (s *scheduler) input(c *callPlan, leaves []leaf, columns, enoughFree int) hostInput {
	e, p := s.e, s.e.plan
	in := newHostInput(leaves)
	copy(in["Release"].([]bool), s.release)
	copy(in.ints("Tokens"), c.tokens)
	copy(in.ints("Starts"), c.starts)
	in.ints("Columns")[0], in.ints("EnoughFree")[0] = int32(columns), int32(enoughFree)

	in.ints("Line.Count")[0] = int32(len(c.line))
	key, stops := in["Line.Sampling.Key"].([]uint32), in.ints("Line.StopTokens")
	for i := range stops {
		stops[i] = none
	}
	for i, seq := range c.line {
		f, r := seq.family, seq.family.req
		in.floats("Line.Sampling.Temperature")[i] = float32(r.Sampling.Temperature)
		in.floats("Line.Sampling.TopP")[i], in.floats("Line.Sampling.MinP")[i] = float32(r.Sampling.TopP),
			float32(r.Sampling.MinP)
		in.ints("Line.Sampling.TopK")[i] = int32(r.Sampling.TopK)
		k := sampling.RequestKey(r.Sampling.Seed, sampling.HashID(r.ID), uint32(seq.generation))
		key[2*i], key[2*i+1] = k[0], k[1]
		maxLen := e.maxLen(r)
		in.ints("Line.Starts")[i], in.ints("Line.PromptLens")[i], in.ints("Line.MaxLens")[i] = c.begins[i],
			int32(len(r.Tokens)), int32(maxLen)
		in.ints("Line.MaxPages")[i] = int32(e.surePages(r))
		copy(stops[i*maxStopTokens:(i+1)*maxStopTokens], e.stopTokens(r))
		in.ints("Line.Sources")[i] = none
		if i < c.resumed {
			// The row's source is named here, not by the family, whose own may be gone.
			in.ints("Line.Resume")[i], in.ints("Line.Held")[i], in.ints("Line.PromptLens")[i] = 1, int32(seq.done),
				int32(seq.done)
			in.ints("Line.Sources")[i] = int32(s.out[slices.IndexFunc(s.out,
				func(m *moved) bool { return m.seq == seq })].back.row)
			continue
		}
		if f.source != nil {
			in.ints("Line.Sources")[i], in.ints("Line.Held")[i] = int32(f.source.row), int32(f.held)
			if f.source.first == f && seq.generation == r.FirstGeneration+f.begin {
				in.ints("Line.First")[i] = 1
			}
		}
	}
	in.ints("Ahead.Count")[0] = int32(len(c.ahead))
	for i := range p.aheadLen() {
		in.ints("Ahead.Rows")[i], in.ints("Ahead.Sources")[i] = none, none
	}
	for i, h := range c.ahead {
		in.ints("Ahead.Rows")[i], in.ints("Ahead.Starts")[i], in.ints("Ahead.Behind")[i] = int32(h.row), c.heads[i],
			c.behind[i]
		in.ints("Ahead.PromptLens")[i], in.ints("Ahead.MaxPages")[i] = int32(len(h.tokens)), int32(s.maxPages(h))
		if h.source != nil {
			in.ints("Ahead.Sources")[i], in.ints("Ahead.Held")[i] = int32(h.source.row), int32(h.held)
		}
	}
	return in
}

// hostOutput is a call's output on the host, by the names of its leaves.
type hostOutput map[string]any

func (h hostOutput) ints(name string) []int32     { return h[name].([]int32) }
func (h hostOutput) floats(name string) []float32 { return h[name].([]float32) }
func (h hostOutput) int(name string) int          { return int(h.ints(name)[0]) }

func readOutput(leaves []leaf, buffers []compute.Buffer) (hostOutput, error) {
	h := make(hostOutput, len(leaves))
	for i, l := range leaves {
		parts := []compute.Buffer{buffers[i]}
		if of, ok := buffers[i].(parted); ok && l.own {
			parts = of.Parts()
		}
		flat := reflect.MakeSlice(reflect.SliceOf(l.shape.DType.GoType()), l.size(len(parts)), l.size(len(parts)))
		for j, part := range parts {
			if err := part.ToFlatData(flat.Slice(j*l.shape.Size(), (j+1)*l.shape.Size()).Interface()); err != nil {
				return nil, fmt.Errorf("reading %s: %w", l.name, err)
			}
		}
		h[l.name] = flat.Interface()
	}
	return h, nil
}

// parted is a buffer that may be of several devices.
type parted interface {
	// Parts are what each of them has.
	Parts() []compute.Buffer
}

// check turns what the device noted into errors; pinned is as ErrOutOfPages has it, which the device does not know.
func (h hostOutput) check(pinned int) error {
	status := make([]int32, 0, 4)
	for _, name := range []string{"Status.Code", "Status.Need", "Status.Have", "Status.Slot"} {
		status = append(status, h.ints(name)[0])
	}
	if err := seqtable.StatusError(status); err != nil {
		var short pagetable.ErrOutOfPages
		if errors.As(err, &short) {
			short.Pinned = pinned
			return short
		}
		return err
	}
	if counts, ok := h["Rules"]; ok {
		return seqtable.CheckError(counts.([]int32))
	}
	return nil
}

// execute runs a program once: the input up, the state in place, the output down.
func (e *Engine) execute(p *compiled, in hostInput) (hostOutput, error) {
	input, err := e.upload(p, in, 0, len(p.input))
	if err != nil {
		return nil, err
	}
	defer finalize(input)
	if err := e.inStep.announce(p, in, nil); err != nil {
		return nil, err
	}
	results, err := e.dispatch(p, input)
	if err != nil {
		return nil, err
	}
	defer finalize(results)
	got, err := p.read(results)
	if err == nil {
		err = e.inStep.confirm(p, got)
	}
	return got, err
}

// upload copies some arrays of a program's input to the device, from place from on and before place to.
func (e *Engine) upload(p *compiled, in hostInput, from, to int) ([]compute.Buffer, error) {
	buffers := make([]compute.Buffer, 0, to-from)
	for _, l := range p.input[from:to] {
		b, err := toDevices(e.cfg.Backend, l, in[l.name])
		if err != nil {
			finalize(buffers)
			return nil, fmt.Errorf("program %s, input %s: %w", p.name, l.name, err)
		}
		buffers = append(buffers, b)
	}
	return buffers, nil
}

// toDevices copies one array of an input to the backend's device, or to each of them its own.
func toDevices(backend compute.Backend, l leaf, flat any) (compute.Buffer, error) {
	group, ok := backend.(collective.Group)
	if !ok || !l.own || group.Partitions() == 1 {
		return backend.BufferFromFlatData(0, flat, l.shape)
	}
	var parts []compute.Buffer
	for i := range group.Places() {
		member, err := group.Member(i)
		var part compute.Buffer
		if err == nil {
			part, err = member.BufferFromFlatData(0, reflect.ValueOf(flat).Slice(i*l.shape.Size(),
				(i+1)*l.shape.Size()).Interface(), l.shape)
		}
		if err != nil {
			finalize(parts)
			return nil, err
		}
		parts = append(parts, part)
	}
	return group.Join(parts)
}

// dispatch runs a program on input that is on the device, and returns what the host gets, still on the device, when the
// program is through. Both are the caller's.
func (e *Engine) dispatch(p *compiled, input []compute.Buffer) ([]compute.Buffer, error) {
	args := slices.Concat(e.state, input)
	if p.weights {
		args = append(args, e.weights...)
	}
	donate := make([]bool, len(args))
	for i := range p.numState {
		donate[i] = !p.reads
	}
	run := func(_ *compiled, args []compute.Buffer, donate []bool) ([]compute.Buffer, error) {
		return p.executable.Execute(args, donate, 0)
	}
	if e.inStep != nil {
		run = e.inStep.execute
	}
	begin := e.now()
	results, err := run(p, args, donate)
	e.ran = e.now().Sub(begin)
	if err != nil {
		if !p.reads {
			e.state = nil // donated
		}
		return nil, fmt.Errorf("program %s: %w", p.name, err)
	}
	if p.reads {
		return results, nil
	}
	e.state = results[:p.numState:p.numState]
	return results[p.numState:], nil
}

// read copies what the host gets to the host.
func (p *compiled) read(results []compute.Buffer) (hostOutput, error) {
	got, err := readOutput(p.output, results)
	if err != nil {
		return nil, fmt.Errorf("program %s: %w", p.name, err)
	}
	return got, nil
}
