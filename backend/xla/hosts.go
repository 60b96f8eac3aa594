package xla

import (
	"cmp"
	"errors"
	"fmt"
	"slices"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/stablehlo"

	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Hosts are the processes, one a host, whose devices run programs together. All of them make the same group, build the
// same programs, and execute them in the same order: package lockstep is what sees to that.
type Hosts interface {
	NumProcesses() int
	ProcessID() int
	// Exchange returns what all processes give for the same device on the same occasion, by process. It is called where
	// the plugin itself does not reach the other processes; an error of it is the execution's.
	Exchange(device int, channel uint64, data []byte) ([][]byte, error)
}

// hosts is what a group knows of the processes that it has devices of.
type hosts struct {
	count      int
	partitions int   // devices of all
	places     []int // of this process' among them
	// exchange says that each process compiles for its own devices alone, and that its programs hand numbers to the
	// other processes' by a kernel; else the plugin compiles for all.
	exchange bool
}

// ErrHosts says that devices of several processes can't run programs together on the platform.
var ErrHosts = errors.New("xla: one program on the devices of several hosts is not possible here")

// GroupOver is [Backend.Group] over devices of several processes: those given, of this process, and as many of each of
// the others. With one process it is Group.
//
// On TPU the processes are those of a slice, all devices of which are in the group; libtpu finds the others by its own
// environment. On the CPU, whose plugin knows of no other process, programs exchange numbers through hosts, and places
// count the devices of process 0 first. On other platforms it is ErrHosts.
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
		if err := g.ofSlice(h); err != nil {
			return nil, err
		}
	default:
		return nil, fmt.Errorf("%w: it needs TPUs, or the CPU with a plugin that calls kernels, but the platform is %s",
			ErrHosts, b.platform)
	}
	g.hosts = h
	for op, emit := range collectives {
		g.composites[op] = emit
	}
	return g, nil
}

// ofSlice finds the places of a TPU's devices among those of its slice.
func (b *Backend) ofSlice(h *hosts) error {
	all, err := b.client.AllDevices()
	if err != nil {
		return fmt.Errorf("xla: the devices of the slice: %w", err)
	}
	devices := make([]pjrtc.Device, len(all))
	for i, d := range all {
		if devices[i], err = pjrtc.DescribeDevice(d); err != nil {
			return fmt.Errorf("xla: the devices of the slice: %w", err)
		}
	}
	ids, order, err := h.arrange(devices, b.ids)
	if err != nil {
		return err
	}
	group := make([]int, len(order))
	for to, from := range order {
		group[to] = b.group[from]
	}
	b.group, b.ids = group, ids
	return nil
}

// arrange orders all devices of a slice by the plugin's numbers for them, as a program compiled ahead for the topology
// has them, and notes the places of those of this process, whose numbers are here. order is in which of the latter
// come.
func (h *hosts) arrange(all []pjrtc.Device, here []int) (ids, order []int, err error) {
	processes := map[int]int{}
	for _, d := range all {
		ids = append(ids, d.ID)
		processes[d.Process]++
	}
	if len(processes) != h.count || len(ids) != h.partitions {
		return nil, nil,
			fmt.Errorf(
				"%w: there are %d processes with %d devices each, but the slice has %d devices on %d hosts: run one "+
					"process on each host, with all of its devices",
				ErrHosts, h.count, len(here), len(ids), len(processes))
	}
	slices.Sort(ids)
	for i := range here {
		order = append(order, i)
	}
	slices.SortFunc(order, func(i, j int) int { return cmp.Compare(here[i], here[j]) })
	for _, i := range order {
		h.places = append(h.places, slices.Index(ids, here[i]))
	}
	return ids, order, nil
}

// disconnect ends what a group has of the other processes.
func (h *hosts) disconnect() {
	if h != nil && h.exchange {
		_ = cpukernel.SetExchange(nil)
	}
}

// exchanges says that numbers go to other processes through the host.
func (b *Backend) exchanges() bool { return b.hosts != nil && b.hosts.exchange }

// spmd is how many devices the plugin compiles a program for.
func (b *Backend) spmd() int {
	if b.hosts != nil && !b.hosts.exchange {
		return b.hosts.partitions
	}
	return b.here()
}

// devicesOfAll is how many devices there are on all hosts.
func (b *Backend) devicesOfAll() int {
	if b.topology == nil {
		if all, err := b.client.AllDevices(); err == nil {
			return len(all)
		}
	}
	return b.NumDevices()
}

// ofAll is what all devices of the group have, [devices, ...] by place: each takes what its like in the other processes
// have, and then what its neighbours took.
func (f *function) ofAll(x *stablehlo.Value) (*stablehlo.Value, error) {
	h, here := f.b.backend.hosts, f.b.backend.here()
	shape := fromXLA(x.Shape())
	wide := func(first ...int) shapes.Shape {
		return shapes.Make(shape.DType, append(first, shape.Dimensions...)...)
	}
	f.b.channels++
	config := fmt.Sprintf("{channel = %d : i64, devices = %d : i64}", f.b.channels, here)
	target, _ := cpukernel.ExchangeHandler()
	out, err := f.ffiCall(target, config, []*stablehlo.Value{x}, []shapes.Shape{wide(h.count)})
	if err != nil {
		return nil, err
	}
	f.lastStatement().Attributes["has_side_effect"] = mlir("true") // it is no other one with the same operand
	all := out[0]
	if here == 1 {
		return all, nil
	}
	if all, err = stablehlo.Reshape(all, toXLA(wide(1, h.count))); err != nil {
		return nil, err
	}
	if all, err = f.gather(all, 0); err != nil {
		return nil, err
	}
	order := []int{1, 0}
	for axis := range shape.Rank() {
		order = append(order, 2+axis)
	}
	if all, err = stablehlo.Transpose(all, order...); err != nil {
		return nil, err
	}
	return stablehlo.Reshape(all, toXLA(wide(h.partitions)))
}

// sumOver adds up what all devices have, in the order of their places.
func (f *function) sumOver(x *stablehlo.Value) ([]*stablehlo.Value, error) {
	all, err := f.ofAll(x)
	if err != nil {
		return nil, err
	}
	shape := all.Shape()
	var sum *stablehlo.Value
	for place := range f.b.backend.Partitions() {
		from, to := make([]int, shape.Rank()), slices.Clone(shape.Dimensions)
		from[0], to[0] = place, place+1
		one, err := stablehlo.Slice(all, from, to, nil)
		if err == nil {
			one, err = stablehlo.Reshape(one, x.Shape())
		}
		if err == nil && sum != nil {
			one, err = stablehlo.Add(sum, one)
		}
		if err != nil {
			return nil, err
		}
		sum = one
	}
	return []*stablehlo.Value{sum}, nil
}

// concatenateOver puts what all devices have one behind the other on an axis.
func (f *function) concatenateOver(x *stablehlo.Value, axis int) ([]*stablehlo.Value, error) {
	all, err := f.ofAll(x)
	if err != nil {
		return nil, err
	}
	shape := fromXLA(x.Shape())
	if axis < 0 || axis >= shape.Rank() {
		return nil, fmt.Errorf("%s has no axis %d", shape, axis)
	}
	var order []int
	for a := range shape.Rank() {
		if a == axis {
			order = append(order, 0)
		}
		order = append(order, a+1)
	}
	if all, err = stablehlo.Transpose(all, order...); err != nil {
		return nil, err
	}
	shape.Dimensions[axis] *= f.b.backend.Partitions()
	out, err := stablehlo.Reshape(all, toXLA(shape))
	return []*stablehlo.Value{out}, err
}
