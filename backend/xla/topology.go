package xla

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/native"
	"github.com/quire/quire/backend/xla/internal/opening"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/backend/xla/internal/topologies"
)

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
	// RecordDir is the folder for records of what compiled programs need and consist of, so that none is compiled
	// twice; "" keeps nothing.
	RecordDir string
	// Kernels, KernelDir, ClientTimeout and Waiting are as in [Options].
	Kernels       string
	KernelDir     string
	ClientTimeout time.Duration
	Waiting       func(waited time.Duration, what string)
}

// ErrUnknownTopology is wrapped by OpenTopology's error for a name that the plugin does not know.
var ErrUnknownTopology = errors.New("xla: unknown topology")

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
// ALLOW_MULTIPLE_LIBTPU_LOAD, TPU_ACCELERATOR_TYPE, TPU_WORKER_HOSTNAMES, TPU_WORKER_ID and TPU_LOG_DIR, each if it is
// not set. So a process that has opened a topology must not run on a TPU.
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
	b := &Backend{devices: devices{plugin: plugin, pluginPath: o.Plugin, topology: t,
		platform: strings.ToLower(described.Platform)}}
	b.options = topologies.Options(b.platform, t.DeviceKind, os.Getenv(libtpuFlags))
	if b.forms, err = native.New(native.Options{Platform: b.platform, Plugin: plugin, Mode: o.Kernels,
		Folder: o.KernelDir, Device: b.describeDevice}); err != nil {
		described.Close()
		return nil, err
	}
	if o.CacheDir != "" {
		if b.cache, err = openCache(o.CacheDir, &b.devices); err != nil {
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

// openRecords keeps records in a folder. Their key has everything that the compiler's answers depend on in addition to
// the program and its options.
func (b *Backend) openRecords(o TopologyOptions) error {
	if err := os.MkdirAll(o.RecordDir, 0o755); err != nil {
		return fmt.Errorf("xla: the folder for what is known of programs: %w: give another, or none", err)
	}
	var key bytes.Buffer
	fmt.Fprintf(&key, "record 1 %s %q\n", b.platform, o.Name)
	for _, name := range slices.Sorted(maps.Keys(o.Options)) {
		fmt.Fprintf(&key, "option %s %v\n", name, o.Options[name])
	}
	writeTPUKey(&key, &b.devices)
	if b.platform != "tpu" { // other platforms' versions do not identify the build
		plugin, err := os.Stat(b.pluginPath)
		if err != nil {
			return fmt.Errorf("xla: the plugin: %w", err)
		}
		fmt.Fprintf(&key, "described as %v\n", topologies.GPUOptions(o.Name))
		fmt.Fprintf(&key, "plugin %s %d %d\n", b.pluginPath, plugin.Size(), plugin.ModTime().UnixNano())
		fmt.Fprintf(&key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
	}
	b.topology.records = programcache.Open(o.RecordDir, key.Bytes())
	return nil
}
