package xla

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-xla/pjrt"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// Topology is a kind and an arrangement of devices that programs can be compiled for with none of them there.
type Topology struct {
	// Name is, of a TPU, as the plugin takes it: the chip and the chips along each axis, "v5e:2x4", "v5p:2x2x1"; of a
	// GPU the model and how many there are in one host: "h200:1".
	Name string
	// DeviceKind is the plugin's name of the device: "TPU v5 lite".
	DeviceKind string
	// NumDevices is how many devices there are on all hosts together.
	NumDevices int
	// MemoryBytes is how much memory of one device programs can use; 0 where the plugin does not say.
	MemoryBytes int64
}

// TopologyOptions are the options of [OpenTopology].
type TopologyOptions struct {
	// Plugin is the absolute path of the PJRT plugin, a shared library.
	Plugin string
	// Name is the topology's, see [Topology].
	Name string
	// Options are the plugin's own; libtpu takes chips_per_host_bounds ([]int64 of 3) and num_slices (int).
	Options map[string]any
	// CacheDir is the folder compiled programs are kept in, as in [Options]: a backend on such devices then finds them
	// there.
	CacheDir string
	// RecordDir is the folder where it is kept what compiled programs need and consist of, so that none is compiled
	// twice; "" keeps nothing.
	RecordDir string
	// Kernels, KernelDir, ClientTimeout and Waiting are as in [Options].
	Kernels       string
	KernelDir     string
	ClientTimeout time.Duration
	Waiting       func(waited time.Duration, what string)
}

var (
	// ErrUnknownTopology is wrapped by OpenTopology's error for a name that the plugin does not know.
	ErrUnknownTopology = errors.New("xla: unknown topology")
	// ErrNoDevice is wrapped by the errors of a backend that only compiles, where a device would be needed.
	ErrNoDevice = errors.New("xla: programs are only compiled here, there is no device")
)

// topologyNames says what names there are.
func topologyNames() string {
	return "give a TPU chip and the chips along each axis, such as v5e:1x1, v5e:2x4, v6e:4x4, v5p:2x2x1, v4:2x2x1 or " +
		"tpu7x:2x2x1, or a GPU and how many, such as h200:1; GPUs are " + gpuNames()
}

// tpuWithoutTPU is the environment in which libtpu compiles on a machine without a TPU. Without the first it waits
// minutes for a server of Google Cloud; the second lets processes that only compile run side by side; the others keep
// it from asking for what it would need to run, and quiet. A variable that is set already stays as it is.
var tpuWithoutTPU = [][2]string{
	{"TPU_SKIP_MDS_QUERY", "1"},
	{"ALLOW_MULTIPLE_LIBTPU_LOAD", "1"},
	{"TPU_ACCELERATOR_TYPE", "v5litepod-4"},
	{"TPU_WORKER_HOSTNAMES", "localhost"},
	{"TPU_WORKER_ID", "0"},
	{"TPU_LOG_DIR", "disabled"},
}

// OpenTopology is [OpenTopologyContext] without a context.
func OpenTopology(o TopologyOptions) (*Backend, error) {
	return OpenTopologyContext(context.Background(), o)
}

// OpenTopologyContext loads the plugin and makes a backend that builds and compiles programs for a topology, and has no
// devices: buffers and executions answer [ErrNoDevice]. It needs neither the devices nor the network, and ends early as
// [NewContext] does.
//
// For TPUs it sets environment variables of the process that libtpu reads when it is loaded: TPU_SKIP_MDS_QUERY,
// ALLOW_MULTIPLE_LIBTPU_LOAD, TPU_ACCELERATOR_TYPE, TPU_WORKER_HOSTNAMES, TPU_WORKER_ID and TPU_LOG_DIR, each where it
// is not set. So a process that has opened a topology is not one to run on a TPU.
func OpenTopologyContext(ctx context.Context, o TopologyOptions) (*Backend, error) {
	if o.Plugin == "" {
		return nil, errors.New("xla: no PJRT plugin given: set TopologyOptions.Plugin to the path of one")
	}
	environment, ownOptions := [][2]string{{logLevel, "1"}}, o.Options
	if TopologyPlatform(o.Name) == "cuda" {
		ownOptions = gpuOptions(o.Name)
		maps.Copy(ownOptions, o.Options)
	} else {
		environment = append(environment, tpuWithoutTPU...)
	}
	for _, v := range environment {
		if os.Getenv(v[0]) == "" {
			_ = os.Setenv(v[0], v[1])
		}
	}
	if o.Name == "" {
		return nil, fmt.Errorf("%w: it has no name; %s", ErrUnknownTopology, topologyNames())
	}
	options, err := clientOptions(ownOptions)
	if err != nil {
		return nil, err
	}
	plugin, described, err := o.describe(ctx, options)
	if err != nil {
		return nil, err
	}
	if len(described.Devices) == 0 {
		described.Close()
		return nil, fmt.Errorf("%w %q: it has no devices", ErrUnknownTopology, o.Name)
	}
	first := described.Devices[0]
	t := &topology{described: described, Topology: Topology{Name: o.Name, DeviceKind: first.Kind,
		NumDevices: len(described.Devices)}}
	t.MemoryBytes, _ = first.Attributes["device_memory_bytes_limit"].(int64)
	if described.Platform == "cuda" {
		t.MemoryBytes = int64(gpuMemoryFraction * float64(t.MemoryBytes))
	}
	b := &Backend{plugin: plugin, topology: t, pluginPath: o.Plugin, platform: strings.ToLower(described.Platform)}
	b.composites = nativeComposites(b.platform)
	if err := errors.Join(b.addKernels(o.Kernels), b.addMosaic(o.Kernels, o.KernelDir),
		b.addTriton(o.Kernels)); err != nil {
		described.Close()
		return nil, err
	}
	if o.CacheDir != "" {
		if b.cache, err = openCache(o.CacheDir, b); err != nil {
			described.Close()
			return nil, err
		}
	}
	if o.RecordDir != "" {
		if err := b.openRecords(o); err != nil {
			described.Close()
			return nil, err
		}
	}
	return b, nil
}

// describe loads the plugin and has it describe the topology.
func (o *TopologyOptions) describe(ctx context.Context, options pjrt.NamedValuesMap) (*pjrt.Plugin, *pjrtc.Topology,
	error) {
	type made struct {
		plugin    *pjrt.Plugin
		described *pjrtc.Topology
	}
	p := patience{plugin: o.Plugin, limit: o.ClientTimeout, waiting: o.Waiting,
		likely: "it may wait for a server, or for another process that has loaded it"}
	if TopologyPlatform(o.Name) != "cuda" && os.Getenv("TPU_SKIP_MDS_QUERY") != "1" {
		p.likely = "it may wait for " + metadataServer
	}
	m, err := open(ctx, p, fmt.Sprintln("topology", o.Plugin, o.Name, options),
		func(enter func(stage string)) (m made, err error) {
			if m.plugin, err = loadPlugin(o.Plugin); err != nil {
				return m, err
			}
			enter("describing topology " + o.Name)
			m.described, err = pjrtc.NewTopology(m.plugin, o.Name, options)
			return m, err
		})
	var refused *pjrtc.Error
	if errors.As(err, &refused) && refused.Code == pjrtc.CodeInvalidArgument {
		err = fmt.Errorf("%w %q: %s", ErrUnknownTopology, o.Name, topologyNames()) // libtpu's message is a pattern
	} else if err != nil && m.plugin != nil {
		err = fmt.Errorf("xla: topology %q of %s: %w", o.Name, o.Plugin, err)
	}
	return m.plugin, m.described, err
}

// topology is what a backend has in place of a client when it only compiles.
type topology struct {
	Topology
	described *pjrtc.Topology
	records   *executableCache // nil: none are kept
}

// Topology returns what the backend compiles for, and whether it only compiles.
func (b *Backend) Topology() (Topology, bool) {
	if b.topology == nil {
		return Topology{}, false
	}
	return b.topology.Topology, true
}

// DeviceKind returns the plugin's name for the kind of its devices: "TPU v5 lite", "NVIDIA H200", "cpu".
func (b *Backend) DeviceKind() (string, error) {
	d, err := b.describeDevice()
	return d.Kind, err
}

// describeDevice returns what the plugin says of the first device.
func (b *Backend) describeDevice() (pjrtc.Device, error) {
	if b.topology != nil {
		return b.topology.described.Devices[0], b.valid()
	}
	d, err := b.device(0)
	if err != nil {
		return pjrtc.Device{}, err
	}
	described, err := pjrtc.DescribeDevice(d)
	if err != nil {
		return pjrtc.Device{}, fmt.Errorf("xla: the kind of device 0: %w", err)
	}
	return described, nil
}

func (t *topology) noDevice() error {
	return fmt.Errorf("%w: it was opened for the topology %s", ErrNoDevice, t.Name)
}

// compileOptions is a serialized xla.CompileOptionsProto for a program on these devices together, or, if there are
// none, on one device, whichever the caller names. The numbers are those of xla/pjrt/proto/compile_options.proto and
// xla/xla_data.proto.
func compileOptions(devices []int) []byte {
	number := func(to []byte, field protowire.Number, value int) []byte {
		return protowire.AppendVarint(protowire.AppendTag(to, field, protowire.VarintType), uint64(value))
	}
	message := func(to []byte, field protowire.Number, value []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(to, field, protowire.BytesType), value)
	}
	partitions := max(1, len(devices))
	build := number(nil, 1, -1)          // device_ordinal
	build = number(build, 4, 1)          // num_replicas
	build = number(build, 5, partitions) // num_partitions
	if len(devices) == 0 {
		return number(message(nil, 3, build), 4, 1) // executable_build_options, compile_portable_executable
	}
	if partitions > 1 {
		build = number(build, 6, 1) // use_spmd_partitioning
	}
	assignment := number(number(nil, 1, 1), 2, partitions) // replica_count, computation_count
	for _, d := range devices {
		replicas := protowire.AppendVarint(nil, uint64(d))
		assignment = message(assignment, 3, message(nil, 1, replicas)) // computation_devices, replica_device_ids
	}
	build = message(build, 9, assignment) // device_assignment
	if partitions > 1 {
		build = number(build, 19, 1) // use_shardy_partitioner
	}
	return message(nil, 3, build)
}

// loadAhead compiles the program for the topology, and keeps it in the cache for those who have the devices. What it
// needs can't be read from a serialized one without a device, but from the record of one that was compiled before.
func (b *Backend) loadAhead(p *builder, e *Executable) (*Executable, error) {
	options, records := compileOptions(b.assigned(-1)), b.topology.records
	var key, recordKey string
	if b.cache != nil {
		key = b.cache.key(e.text, b.assigned(-1))
	}
	if records != nil {
		recordKey = records.key(slices.Concat(options, e.text), b.assigned(-1))
		switch r := records.known(recordKey); {
		case r == nil:
		case r.Refused != nil:
			b.cacheLoads.Add(1)
			return nil, p.failed(r.Refused)
		case b.cache == nil || b.cache.has(key):
			e.ahead, e.FromCache = r, true
			b.cacheLoads.Add(1)
			return e, nil
		}
	}
	compiled, err := b.topology.described.Compile(e.text, options)
	if err != nil {
		failed, refused := p.failed(err), (*pjrtc.Error)(nil)
		if records != nil && lacksMemory(failed) && errors.As(err, &refused) {
			records.learn(recordKey, nil, refused)
		}
		return nil, failed
	}
	e.ahead = compiled
	b.compiles.Add(1)
	if b.cache != nil {
		b.cache.storeBytes(key, compiled.Serialize)
	}
	if records != nil {
		records.learn(recordKey, compiled, nil)
	}
	pjrtc.Trim()
	return e, nil
}

// tpuKey writes what the programs of a TPU depend on beside their text. Host, path of the plugin and so on are left
// out, so that a machine with the devices finds what one without them has compiled: the version tells libtpu's build
// and the chip.
func (b *Backend) tpuKey(key io.Writer) {
	var version string
	if b.topology != nil {
		version = b.topology.described.Version
	} else {
		version = b.client.PlatformVersion()
	}
	fmt.Fprintf(key, "tpu %q devices %d\n", version, b.devicesOfAll())
	fmt.Fprintf(key, "LIBTPU_INIT_ARGS %q\n", os.Getenv("LIBTPU_INIT_ARGS"))
	fmt.Fprintf(key, "%s %q\n", xlaFlags, userFlags())
	fmt.Fprintf(key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
}
