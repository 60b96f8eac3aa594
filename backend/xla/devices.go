package xla

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/gomlx/compute"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/backend/xla/internal/topologies"
)

// lifetime is whether a backend may still be used. A group ends with the backend that it is a group of, its owner.
type lifetime struct {
	once  sync.Once
	over  atomic.Bool
	owner *lifetime // nil for a backend with a client or topology of its own
}

// errFinalized is the error of every call after Finalize.
var errFinalized = errors.New("xla: the backend was finalized")

func (l *lifetime) valid() error {
	if l.over.Load() || l.owner != nil && l.owner.over.Load() {
		return errFinalized
	}
	return nil
}

// Topology is a kind and an arrangement of devices. Programs can be compiled for it without any of the devices.
type Topology struct {
	// Name is a TPU chip and the number of chips along each axis, as the plugin takes it, "v5e:2x4" or "v5p:2x2x1", or
	// a GPU model and the number of GPUs in one host: "h200:1".
	Name string
	// DeviceKind is the plugin's name of the device: "TPU v5 lite".
	DeviceKind string
	// NumDevices is the number of devices on all hosts together.
	NumDevices int
	// MemoryBytes is how much memory of one device programs can use. It is 0 if the plugin does not report it.
	MemoryBytes int64
}

// ErrNoDevice is wrapped by the errors of a backend that only compiles, if a call needs a device.
var ErrNoDevice = errors.New("xla: programs are only compiled here, there is no device")

// topology replaces the client of a backend that only compiles.
type topology struct {
	Topology
	described *pjrtc.Topology
	records   *programcache.Cache // nil if none are kept
}

func (t *topology) noDevice() error {
	return fmt.Errorf("%w: it was opened for the topology %s", ErrNoDevice, t.Name)
}

// devices are the devices of a backend: all that the client reaches, one at a time, or a group that runs each program
// together.
type devices struct {
	lifetime
	plugin     *pjrt.Plugin
	pluginPath string
	platform   string
	standIn    bool                // devices of a different platform run what this platform's devices would
	options    []topologies.Option // of the compiler, for all programs
	client     *pjrt.Client        // nil if topology is set
	topology   *topology           // set for a backend that only compiles
	group      []int               // the devices of a group, by their numbers; nil for all, one at a time
	ids        []int               // the plugin's own numbers for the group's devices, or for the devices of all hosts
	hosts      *hosts              // set if the group also has devices of other processes
}

// Platform returns the plugin's platform in lower case: "cpu", "cuda", "tpu".
func (d *devices) Platform() string { return d.platform }

// NumDevices implements [compute.Backend].
func (d *devices) NumDevices() int {
	switch {
	case d.valid() != nil:
		return 0
	case d.group != nil:
		return len(d.group)
	case d.topology != nil:
		return d.topology.NumDevices
	}
	return d.client.NumDevices()
}

// DeviceDescription implements [compute.Backend].
func (d *devices) DeviceDescription(number compute.DeviceNum) string {
	device, err := d.device(number)
	if err != nil {
		return err.Error()
	}
	description, err := device.GetDescription()
	if err != nil {
		return err.Error()
	}
	return description.DebugString()
}

// device returns a device of this process by its number.
func (d *devices) device(number compute.DeviceNum) (*pjrt.Device, error) {
	if err := d.valid(); err != nil {
		return nil, err
	}
	if d.topology != nil {
		return nil, d.topology.noDevice()
	}
	if number < 0 || int(number) >= d.NumDevices() {
		return nil, fmt.Errorf("xla: there is no device %d: the %s backend has devices 0 to %d", number, d.platform,
			d.NumDevices()-1)
	}
	if d.group != nil {
		number = compute.DeviceNum(d.group[number])
	}
	here := d.client.AddressableDevices()
	if int(number) >= len(here) {
		return nil, fmt.Errorf("xla: device %d belongs to another process", number)
	}
	return here[number], nil
}

// Topology returns what the backend compiles for, and whether it only compiles.
func (d *devices) Topology() (Topology, bool) {
	if d.topology == nil {
		return Topology{}, false
	}
	return d.topology.Topology, true
}

// DeviceKind returns the plugin's name for the kind of its devices: "TPU v5 lite", "NVIDIA H200", "cpu".
func (d *devices) DeviceKind() (string, error) {
	described, err := d.describeDevice()
	return described.Kind, err
}

// describeDevice returns the plugin's description of the first device.
func (d *devices) describeDevice() (pjrtc.Device, error) {
	if d.topology != nil {
		return d.topology.described.Devices[0], d.valid()
	}
	first, err := d.device(0)
	if err != nil {
		return pjrtc.Device{}, err
	}
	described, err := pjrtc.DescribeDevice(first)
	if err != nil {
		return pjrtc.Device{}, fmt.Errorf("xla: the kind of device 0: %w", err)
	}
	return described, nil
}

// ErrOtherHost is wrapped by the error of a group with devices that another process of a slice of several hosts
// reaches: such a group is made by [Backend.GroupOver].
var ErrOtherHost = errors.New("xla: the device belongs to another host")

// identify sets the plugin's own numbers for the devices of a group.
func (d *devices) identify() error {
	d.ids = slices.Clone(d.group)
	if d.topology != nil {
		return nil
	}
	here := d.client.AddressableDevices()
	for i, number := range d.group {
		if number >= len(here) {
			return fmt.Errorf("%w: device %d, of which %d are here", ErrOtherHost, number, len(here))
		}
		described, err := pjrtc.DescribeDevice(here[number])
		if err != nil {
			return fmt.Errorf("xla: device %d: %w", number, err)
		}
		d.ids[i] = described.ID
	}
	return nil
}

// joinSlice finds the places of the group's devices, which are TPUs, among the devices of its slice.
func (d *devices) joinSlice(h *hosts) error {
	all, err := d.client.AllDevices()
	if err != nil {
		return fmt.Errorf("xla: the devices of the slice: %w", err)
	}
	described := make([]pjrtc.Device, len(all))
	for i, device := range all {
		if described[i], err = pjrtc.DescribeDevice(device); err != nil {
			return fmt.Errorf("xla: the devices of the slice: %w", err)
		}
	}
	ids, order, err := h.arrange(described, d.ids)
	if err != nil {
		return err
	}
	group := make([]int, len(order))
	for to, from := range order {
		group[to] = d.group[from]
	}
	d.group, d.ids = group, ids
	return nil
}

// Partitions returns the number of devices that run each program together: see [Backend.Group]. It is 1 for a backend
// that is not a group.
func (d *devices) Partitions() int {
	if d.hosts != nil {
		return d.hosts.partitions
	}
	return d.here()
}

// Places returns the places of this process' devices in the group, ascending. These are all places, unless
// [Backend.GroupOver] made the group.
func (d *devices) Places() []int {
	if d.hosts != nil {
		return slices.Clone(d.hosts.places)
	}
	places := make([]int, d.here())
	for i := range places {
		places[i] = i
	}
	return places
}

// here returns the number of devices of this process that run each program together.
func (d *devices) here() int { return max(1, len(d.group)) }

// compiledFor returns the number of devices that the plugin compiles a program for.
func (d *devices) compiledFor() int {
	if d.hosts != nil && !d.hosts.exchange {
		return d.hosts.partitions
	}
	return d.here()
}

// onAllHosts returns the number of devices on all hosts.
func (d *devices) onAllHosts() int {
	if d.topology == nil {
		if all, err := d.client.AllDevices(); err == nil {
			return len(all)
		}
	}
	return d.NumDevices()
}

// same reports whether buffers of one of two backends are also buffers of the other.
func (d *devices) same(other *devices) bool {
	return d == other || d.client == other.client && d.client != nil && d.owner != nil && other.owner != nil &&
		slices.Equal(d.group, other.group)
}

// assigned returns the devices that a program is compiled for, by their numbers. It returns none for a program that
// runs on the device that the caller of Execute names. number is the device that the program names, by its place in a
// group, or -1.
func (d *devices) assigned(number int) []int {
	switch {
	case d.compiledFor() > 1:
		return d.ids
	case number < 0:
		return nil
	case d.group != nil:
		return []int{d.ids[number]}
	}
	return []int{number}
}
