package xla

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/opening"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/backend/xla/internal/topologies"
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

// TopologyPlatform returns the platform, "cuda" or "tpu", whose plugin compiles for the topology with this name. It
// leaves names that are not a GPU's to libtpu.
func TopologyPlatform(name string) string { return topologies.Platform(name) }

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
	if topologies.Platform(o.Name) == "cuda" {
		ownOptions = topologies.GPUOptions(o.Name)
		maps.Copy(ownOptions, o.Options)
	} else {
		environment = append(environment, topologies.WithoutTPU...)
	}
	for _, v := range environment {
		if os.Getenv(v[0]) == "" {
			_ = os.Setenv(v[0], v[1])
		}
	}
	if o.Name == "" {
		return nil, fmt.Errorf("%w: it has no name; %s", ErrUnknownTopology, topologies.Names())
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
		t.MemoryBytes = int64(topologies.GPUMemoryFraction * float64(t.MemoryBytes))
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
	p := opening.Patience{Plugin: o.Plugin, Limit: o.ClientTimeout, Waiting: o.Waiting,
		Likely: "it may wait for a server, or for another process that has loaded it"}
	if topologies.Platform(o.Name) != "cuda" && os.Getenv("TPU_SKIP_MDS_QUERY") != "1" {
		p.Likely = "it may wait for " + opening.MetadataServer
	}
	m, err := opening.Open(ctx, p, fmt.Sprintln("topology", o.Plugin, o.Name, options),
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
		err = fmt.Errorf("%w %q: %s", ErrUnknownTopology, o.Name, topologies.Names()) // libtpu's message is a pattern
	} else if err != nil && m.plugin != nil {
		err = fmt.Errorf("xla: topology %q of %s: %w", o.Name, o.Plugin, err)
	}
	return m.plugin, m.described, err
}

// topology is what a backend has in place of a client when it only compiles.
type topology struct {
	Topology
	described *pjrtc.Topology
	records   *programcache.Cache // nil: none are kept
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

// loadAhead compiles the program for the topology, and keeps it in the cache for those who have the devices. What it
// needs can't be read from a serialized one without a device, but from the record of one that was compiled before.
func (b *Backend) loadAhead(p *builder, e *Executable) (*Executable, error) {
	options, records := topologies.CompileOptions(b.assigned(-1)), b.topology.records
	var key, recordKey string
	if b.cache != nil {
		key = b.cache.Key(e.text, b.assigned(-1))
	}
	if records != nil {
		recordKey = records.Key(slices.Concat(options, e.text), b.assigned(-1))
		switch r := records.Known(recordKey); {
		case r == nil:
		case r.Refused != nil:
			b.cacheLoads.Add(1)
			return nil, b.failed(p, r.Refused)
		case b.cache == nil || b.cache.Has(key):
			e.ahead, e.FromCache = r, true
			b.cacheLoads.Add(1)
			return e, nil
		}
	}
	compiled, err := b.topology.described.Compile(e.text, options)
	if err != nil {
		failed, refused := b.failed(p, err), (*pjrtc.Error)(nil)
		if records != nil && memoryerror.IsOutOfMemory(failed) && errors.As(err, &refused) {
			records.Learn(recordKey, nil, refused)
		}
		return nil, failed
	}
	e.ahead = compiled
	b.compiles.Add(1)
	if b.cache != nil {
		b.cache.Store(key, compiled.Serialize)
	}
	if records != nil {
		records.Learn(recordKey, compiled, nil)
	}
	pjrtc.Trim()
	return e, nil
}
