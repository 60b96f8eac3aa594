package xla

import (
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/native"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Group returns a backend on some of the devices of b, given by their numbers. It shares the client, kernels and cache
// of b, and must not be used after the end of b. Its own Finalize frees nothing that b has.
//
// All devices run each program together, each on arrays of its own: the shapes of parameters and results are the shapes
// on one device. A [Buffer] of the group stands for one array on each device: [Backend.BufferFromFlatData] gives all of
// them the same array, and [Backend.Join] makes a buffer of arrays that differ. Only the composites "all_reduce" and
// "all_gather" move numbers between devices. A value on which a program branches or loops must be the same on all
// devices.
//
// ToFlatData of an output reads the first device's array, and [Buffer.Parts] returns all of them.
func (b *Backend) Group(devices ...int) (*Backend, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	owner := &b.lifetime
	if b.owner != nil {
		owner = b.owner
	}
	there := b.NumDevices()
	g := &Backend{forms: b.forms, cache: b.cache, loaded: b.loaded}
	g.owner, g.plugin, g.pluginPath, g.platform, g.standIn, g.client, g.topology, g.options = owner, b.plugin,
		b.pluginPath, b.platform, b.standIn, b.client, b.topology, b.options
	if len(devices) == 0 {
		return nil, errors.New("xla: a group has at least one device")
	}
	for i, d := range devices {
		if d < 0 || d >= there || slices.Contains(devices[:i], d) {
			return nil,
				fmt.Errorf(
					"xla: devices %v can't be a group: the %s backend has devices 0 to %d, and each may be listed once",
					devices, b.platform, there-1)
		}
		if b.group != nil {
			d = b.group[d]
		}
		g.group = append(g.group, d)
	}
	if err := g.identify(); err != nil {
		return nil, err
	}
	if len(g.group) > 1 {
		g.forms = native.WithCollectives(b.forms)
	}
	return g, nil
}

// Member returns a backend on a single device of a group, the i-th of this process. [Backend.Join] makes a buffer of
// the group from the arrays of its members.
func (b *Backend) Member(i int) (compute.Backend, error) { return b.Group(i) }

// Join makes one buffer of the group from arrays of the same shape, one on each of the group's devices of this process
// in their order. It takes the arrays over.
func (b *Backend) Join(parts []compute.Buffer) (compute.Buffer, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	if len(parts) != b.here() {
		return nil, fmt.Errorf("xla: %d arrays can't be joined for a group of %d devices", len(parts), b.here())
	}
	out := &Buffer{backend: b}
	for i, p := range parts {
		part, ok := p.(*Buffer)
		if !ok || part.backend.client != b.client || len(part.parts) != 1 {
			return nil, fmt.Errorf("xla: array %d of a group is a %T of another backend, or of several devices", i, p)
		}
		if err := part.valid(); err != nil {
			return nil, err
		}
		want, err := b.device(compute.DeviceNum(i))
		if err != nil {
			return nil, err
		}
		got, err := part.parts[0].Device()
		if err != nil {
			return nil, err
		}
		if g, w := b.client.NumForDevice(got), b.client.NumForDevice(want); g != w {
			return nil, fmt.Errorf("xla: array %d of a group is on device %d, not on %d", i, g, w)
		}
		if i > 0 && !part.shape.Equal(out.shape) {
			return nil, fmt.Errorf("xla: array %d of a group is %s, the first is %s", i, part.shape, out.shape)
		}
		out.shape = part.shape
		out.parts, out.pieces = append(out.parts, part.parts[0]), append(out.pieces, part.pieces...)
	}
	return out, nil
}

// GroupOver is [Backend.Group] for devices of several processes: the given ones, of this process, and as many of each
// other process. With one process it is Group.
//
// On TPU the processes are the hosts of a slice, and all devices of the slice are in the group. libtpu finds the other
// processes by its own environment. On the CPU, whose plugin knows of no other process, programs exchange numbers
// through over, and places count the devices of process 0 first. On other platforms the error is ErrHosts.
func (b *Backend) GroupOver(over Hosts, devices ...int) (*Backend, error) {
	g, err := b.Group(devices...)
	if err != nil || over.NumProcesses() == 1 {
		return g, err
	}
	h := &hosts{count: over.NumProcesses(), partitions: over.NumProcesses() * len(devices)}
	switch {
	case b.platform == "cpu" && pjrtc.HasFFI(b.plugin) && b.topology == nil:
		target, handler := cpukernel.ExchangeHandler()
		if err := pjrtc.RegisterHandler(b.plugin, "Host", target, handler); err != nil {
			return nil, err
		}
		if err := cpukernel.SetExchange(over.Exchange); err != nil {
			return nil, err
		}
		h.exchange = true
		for i := range devices {
			h.places = append(h.places, over.ProcessID()*len(devices)+i)
		}
	case b.platform == "tpu" && b.topology == nil:
		if err := g.joinSlice(h); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: it needs TPUs, or the CPU with a plugin that calls kernels, but the platform is %s",
			ErrHosts, b.platform)
	}
	g.hosts = h
	g.forms = native.WithCollectives(g.forms)
	return g, nil
}
