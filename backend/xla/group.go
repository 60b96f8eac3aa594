package xla

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Group returns a backend on some of the devices of b, given by their numbers. It shares b's client, kernels and cache,
// and must not be used after b's end; its own Finalize frees nothing of b.
//
// All of the devices run each program together, every one the same program on arrays of its own: shapes of parameters
// and results are those of one device. A [Buffer] of the group stands for one array on each device:
// [Backend.BufferFromFlatData] gives all of them the same one, and [Backend.Join] makes one of arrays that differ.
// Composites "all_reduce" and "all_gather" move numbers between the devices; nothing else does. Where a program
// branches or loops on a value, that must be the same on all devices.
//
// The outputs' ToFlatData reads the first device's; [Buffer.Parts] has the others.
func (b *Backend) Group(devices ...int) (*Backend, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	owner := b
	if b.owner != nil {
		owner = b.owner
	}
	there := b.NumDevices()
	g := &Backend{
		plugin: b.plugin, client: b.client, topology: b.topology, pluginPath: b.pluginPath, platform: b.platform,
		cache:      b.cache,
		composites: maps.Clone(b.composites), kernels: b.kernels, mosaic: b.mosaic, triton: b.triton, uses: b.uses,
		standIn: b.standIn,
		owner:   owner,
	}
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
		maps.Copy(g.composites, collectives)
	}
	return g, nil
}

// ErrOtherHost is wrapped by the error of a group with devices that another process of a slice of several hosts
// reaches: that is one of [Backend.GroupOver].
var ErrOtherHost = errors.New("xla: the device belongs to another host")

// identify finds the names by which the plugin knows the devices of a group.
func (b *Backend) identify() error {
	b.ids = slices.Clone(b.group)
	if b.topology != nil {
		return nil
	}
	here := b.client.AddressableDevices()
	for i, d := range b.group {
		if d >= len(here) {
			return fmt.Errorf("%w: device %d, of which %d are here", ErrOtherHost, d, len(here))
		}
		described, err := pjrtc.DescribeDevice(here[d])
		if err != nil {
			return fmt.Errorf("xla: device %d: %w", d, err)
		}
		b.ids[i] = described.ID
	}
	return nil
}

// Partitions is how many devices run each program together: see [Backend.Group]. It is 1 for a backend that is no
// group.
func (b *Backend) Partitions() int {
	if b.hosts != nil {
		return b.hosts.partitions
	}
	return b.here()
}

// Places are those of this process' devices in the group, ascending: all, unless the group is one of
// [Backend.GroupOver].
func (b *Backend) Places() []int {
	if b.hosts != nil {
		return slices.Clone(b.hosts.places)
	}
	places := make([]int, b.here())
	for i := range places {
		places[i] = i
	}
	return places
}

// here is how many devices of this process run each program together.
func (b *Backend) here() int { return max(1, len(b.group)) }

// Member returns a backend on one device of a group alone, the i-th of this process: what it puts there can be an array
// of the group's by [Backend.Join].
func (b *Backend) Member(i int) (compute.Backend, error) {
	return b.Group(i)
}

// Join makes one buffer of the group from arrays of the same shape, one on each of its devices of this process in their
// order, which it takes over.
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

// sameDevices reports whether buffers of one of two backends are those of the other.
func (b *Backend) sameDevices(other *Backend) bool {
	return b == other || b.client == other.client && b.client != nil && b.owner != nil && other.owner != nil &&
		slices.Equal(b.group, other.group)
}

// Parts returns views of what each device of the group has of the buffer. They are valid as long as the buffer is, and
// not to be finalized.
func (b *Buffer) Parts() []compute.Buffer {
	views := make([]compute.Buffer, len(b.parts))
	for i, part := range b.parts {
		views[i] = &Buffer{backend: b.backend, parts: []*pjrt.Buffer{part}, shape: b.shape}
	}
	return views
}

// Names in the text of a group's program.
const (
	meshName = "group"
	axisName = "device"
	bodyName = "one_device"
)

// groupText makes the text of one device's program, whose main function is named bodyName, that of a group's: a main
// function of arrays that are the devices' side by side on their first axes, with one manual computation, in which each
// device sees its own. So Shardy has nothing to decide, and no operation of the body is partitioned. A scalar is the
// same on all devices.
func (b *builder) groupText(body string) string {
	devices := b.backend.spmd()
	sharding := func(s shapes.Shape) string {
		if s.Rank() == 0 {
			return "<@" + meshName + ", []>"
		}
		return fmt.Sprintf("<@%s, [{%q}%s]>", meshName, axisName, strings.Repeat(", {}", s.Rank()-1))
	}
	whole := func(s shapes.Shape) string {
		x := toXLA(s)
		if s.Rank() > 0 {
			x.Dimensions[0] *= devices
		}
		return x.ToStableHLO()
	}
	each := func(list []shapes.Shape, f func(i int, s shapes.Shape) string) string {
		parts := make([]string, len(list))
		for i, s := range list {
			parts[i] = f(i, s)
		}
		return strings.Join(parts, ", ")
	}
	local := func(_ int, s shapes.Shape) string { return toXLA(s).ToStableHLO() }
	global := func(_ int, s shapes.Shape) string { return whole(s) }
	shardings := func(_ int, s shapes.Shape) string { return sharding(s) }
	in, out := b.main.paramShapes, b.main.outputs
	results := func(prefix string) string {
		return each(out, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%s#%d", prefix, i) })
	}

	var t strings.Builder
	head, functions, _ := strings.Cut(body, "{\n")
	fmt.Fprintf(&t, "%s{\n  sdy.mesh @%s = <[%q=%d]>\n", head, meshName, axisName, devices)
	fmt.Fprintf(&t, "  func.func @main(%s) -> (%s) {\n", each(in, func(i int, s shapes.Shape) string {
		alias := ""
		if output, ok := b.alias[b.main.params[i]]; ok {
			alias = fmt.Sprintf("tf.aliasing_output = %d : i32, ", output)
		}
		return fmt.Sprintf("%%p%d: %s {%ssdy.sharding = #sdy.sharding%s}", i, whole(s), alias, sharding(s))
	}), each(out, func(_ int, s shapes.Shape) string {
		return fmt.Sprintf("%s {sdy.sharding = #sdy.sharding%s}", whole(s), sharding(s))
	}))
	fmt.Fprintf(&t,
		"    %%whole:%d = \"sdy.manual_computation\"(%s) <{in_shardings = #sdy.sharding_per_value<[%s]>, "+
			"out_shardings = #sdy.sharding_per_value<[%s]>, manual_axes = #sdy<manual_axes{%q}>}> ({\n",
		len(out), each(in, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%%p%d", i) }), each(in, shardings),
		each(out, shardings), axisName)
	if len(in) > 0 {
		fmt.Fprintf(&t, "      ^bb0(%s):\n",
			each(in, func(i int, s shapes.Shape) string { return fmt.Sprintf("%%a%d: %s", i, local(i, s)) }))
	}
	fmt.Fprintf(&t, "      %%own:%d = func.call @%s(%s) : (%s) -> (%s)\n", len(out), bodyName,
		each(in, func(i int, _ shapes.Shape) string { return fmt.Sprintf("%%a%d", i) }), each(in, local),
		each(out, local))
	fmt.Fprintf(&t, "      \"sdy.return\"(%s) : (%s) -> ()\n", results("%own"), each(out, local))
	fmt.Fprintf(&t, "    }) : (%s) -> (%s)\n", each(in, global), each(out, global))
	fmt.Fprintf(&t, "    return %s : %s\n  }\n\n", results("%whole"), each(out, global))
	t.WriteString(strings.Replace(functions, "func.func @"+bodyName+"(", "func.func private @"+bodyName+"(", 1))
	return t.String()
}
