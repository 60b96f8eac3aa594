// Package xla is Quire's serving backend: a GoMLX [compute.Backend] that builds StableHLO with go-xla's builder and
// runs it through a PJRT plugin.
//
// It does what serving needs and GoMLX's stock XLA backend lacks: bodies of loops and branches use values of any
// enclosing function, device state is updated in place ([Backend.Donating]), composites become native operations
// ([Backend.ReplacesComposite]), and compiled programs are kept on disk ([Options.CacheDir]). Operations it does not
// have answer [compute.ErrNotImplemented].
package xla

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/internal/plural"
)

// Options say which plugin a backend runs on, and how.
type Options struct {
	// Plugin is the absolute path of the PJRT plugin, a shared library.
	Plugin string
	// Platform is the platform asked for ("cpu", "cuda", "tpu"), or "" for whatever the plugin is. New refuses a plugin
	// of another platform.
	Platform string
	// ClientOptions are the plugin's own options, for instance cpu_device_count for XLA:CPU. Values are string, bool,
	// int, int64, []int64 or float32.
	ClientOptions map[string]any
	// CacheDir is the folder compiled programs are kept in, made if missing; "" keeps none.
	CacheDir string
	// Kernels says whether composites become kernels where the platform has some, in C on XLA:CPU, of package mosaic on
	// TPU, of package triton on GPUs: [KernelsAuto], also if empty, or [KernelsOff].
	Kernels string
	// KernelDir is a folder of kernels for TPU beside those that come with the program; "" for none.
	KernelDir string
	// ClientTimeout is how long the plugin may take to open its devices; 0 is [DefaultClientTimeout].
	ClientTimeout time.Duration
	// Waiting is told what the plugin does and may be waiting for, where that takes several seconds; it may be nil.
	Waiting func(waited time.Duration, what string)
	// StandIn, if not nil, has the backend build what a TPU would run, with its layouts and forms, and run it on the
	// plugin's devices: its platform is "tpu", and what StandIn returns is in the place of each kernel.
	StandIn StandIn
}

// Backend is a PJRT client with the devices it reaches. It implements [compute.Backend] and may be used by many
// goroutines at once.
type Backend struct {
	plugin     *pjrt.Plugin
	client     *pjrt.Client // nil where topology is set
	topology   *topology    // not nil for a backend that only compiles
	pluginPath string
	platform   string
	cache      *programcache.Cache
	composites map[string]emitter
	kernels    string         // instruction set of the kernels, "" if there are none
	mosaic     *mosaicKernels // on TPU with kernels on
	triton     *tritonKernels // on GPUs with kernels on
	uses       *kernelUses    // where one of them is
	owner      *Backend       // of the client, where this is a group of its devices
	group      []int          // the devices of a group, by their numbers; nil for all, one at a time
	ids        []int          // the plugin's own numbers for them, or for those of all hosts
	standIn    StandIn        // not nil where another platform's devices run what a TPU would
	hosts      *hosts         // where the group has devices of other processes too

	compiles, cacheLoads atomic.Int64
	finalize             sync.Once
	finalized            atomic.Bool
}

var _ compute.Backend = (*Backend)(nil)

// logLevel names the environment variable of XLA's own log: 0 prints all, 1 warnings and errors, 2 errors only.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// errFinalized is what a backend answers after Finalize.
var errFinalized = errors.New("xla: the backend was finalized")

// New is [NewContext] without a context.
func New(o Options) (*Backend, error) { return NewContext(context.Background(), o) }

// NewContext loads the plugin and makes a client on its devices. Where ctx ends first, or [Options.ClientTimeout]
// passes ([ErrClientTimeout]), the plugin's call is left behind: it can't be ended.
func NewContext(ctx context.Context, o Options) (*Backend, error) {
	if o.Plugin == "" {
		return nil, errors.New("xla: no PJRT plugin given: set Options.Plugin to the path of one")
	}
	if os.Getenv(logLevel) == "" {
		_ = os.Setenv(logLevel, "1") // or the plugin reports every client it makes
	}
	if o.Platform == "cpu" {
		setCPUFlags()
	}
	plugin, client, err := o.openClient(ctx)
	if err != nil {
		return nil, err
	}
	b := &Backend{plugin: plugin, client: client, pluginPath: o.Plugin, platform: strings.ToLower(client.Platform())}
	if o.Platform != "" && !strings.EqualFold(b.platform, o.Platform) {
		_ = client.Destroy()
		return nil, fmt.Errorf("xla: %s is a plugin for %q, not for %q: give the path of the right plugin", o.Plugin,
			b.platform, o.Platform)
	}
	if b.standIn = o.StandIn; b.standIn != nil {
		b.platform = "tpu"
	}
	b.composites = nativeComposites(b.platform)
	if err := errors.Join(b.addKernels(o.Kernels), b.addMosaic(o.Kernels, o.KernelDir),
		b.addTriton(o.Kernels)); err != nil {
		_ = client.Destroy()
		return nil, err
	}
	if o.CacheDir != "" {
		if b.cache, err = openCache(o.CacheDir, b); err != nil {
			_ = client.Destroy()
			return nil, err
		}
	}
	return b, nil
}

func clientOptions(options map[string]any) (pjrt.NamedValuesMap, error) {
	named := pjrt.NamedValuesMap{}
	for _, name := range slices.Sorted(maps.Keys(options)) {
		switch v := options[name].(type) {
		case int:
			named[name] = int64(v)
		case string, bool, int64, []int64, float32:
			named[name] = v
		default:
			return nil, fmt.Errorf("xla: client option %s is a %T: use a string, bool, int, int64, []int64 or float32",
				name, v)
		}
	}
	return named, nil
}

func (b *Backend) valid() error {
	if b.finalized.Load() || b.owner != nil && b.owner.finalized.Load() {
		return errFinalized
	}
	return nil
}

// Name implements [compute.Backend]: "xla".
func (b *Backend) Name() string { return "xla" }

// String implements [compute.Backend].
func (b *Backend) String() string { return b.Name() }

// Platform returns the plugin's platform in lower case: "cpu", "cuda", "tpu".
func (b *Backend) Platform() string { return b.platform }

// ReleaseMemory gives memory that loading programs and arrays took and freed back to the operating system.
func (b *Backend) ReleaseMemory() { pjrtc.Trim() }

// Description implements [compute.Backend].
func (b *Backend) Description() string {
	if b.valid() != nil {
		return "xla: finalized"
	}
	major, minor := b.plugin.Version()
	if b.topology != nil {
		return fmt.Sprintf("xla:%s ahead of time for %s, %d x %s, PJRT API %d.%d, %s", b.platform, b.topology.Name,
			b.NumDevices(),
			b.topology.DeviceKind, major, minor, b.pluginPath)
	}
	return fmt.Sprintf("xla:%s, %s, PJRT API %d.%d, kernels %s, %s", b.platform, b.devicesText(), major, minor,
		b.Kernels(), b.pluginPath)
}

// devicesText is how many devices there are; a CPU has one, or is cut into several that are no more than one.
func (b *Backend) devicesText() string {
	if n := b.NumDevices(); b.platform == "cpu" && n > 1 {
		return fmt.Sprintf("%d virtual devices", n)
	}
	return plural.Count(b.NumDevices(), "device")
}

// NumDevices implements [compute.Backend].
func (b *Backend) NumDevices() int {
	if b.valid() != nil {
		return 0
	}
	if b.group != nil {
		return len(b.group)
	}
	if b.topology != nil {
		return b.topology.NumDevices
	}
	return b.client.NumDevices()
}

// DeviceDescription implements [compute.Backend].
func (b *Backend) DeviceDescription(device compute.DeviceNum) string {
	d, err := b.device(device)
	if err != nil {
		return err.Error()
	}
	description, err := d.GetDescription()
	if err != nil {
		return err.Error()
	}
	return description.DebugString()
}

func (b *Backend) device(device compute.DeviceNum) (*pjrt.Device, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	if b.topology != nil {
		return nil, b.topology.noDevice()
	}
	if device < 0 || int(device) >= b.NumDevices() {
		return nil, fmt.Errorf("xla: there is no device %d: the %s backend has devices 0 to %d", device, b.platform,
			b.NumDevices()-1)
	}
	if b.group != nil {
		device = compute.DeviceNum(b.group[device])
	}
	devices := b.client.AddressableDevices()
	if int(device) >= len(devices) {
		return nil, fmt.Errorf("xla: device %d belongs to another process", device)
	}
	return devices[device], nil
}

// Capabilities implements [compute.Backend].
func (b *Backend) Capabilities() compute.Capabilities { return capabilities.Clone() }

// Builder implements [compute.Backend]: it starts a new program.
func (b *Backend) Builder(name string) compute.Builder { return newBuilder(b, name, nil, nil) }

// Compiles returns how many programs the backend has compiled; programs loaded from the cache are not counted.
func (b *Backend) Compiles() int { return int(b.compiles.Load()) }

// CacheLoads returns how many programs the backend has loaded from its cache on disk.
func (b *Backend) CacheLoads() int { return int(b.cacheLoads.Load()) }

// Finalize implements [compute.Backend]: it frees the client. Buffers and executables become unusable.
func (b *Backend) Finalize() {
	b.finalize.Do(func() {
		b.finalized.Store(true)
		b.hosts.disconnect()
		if b.owner != nil {
			return // the rest is the owner's
		}
		if b.topology != nil {
			b.topology.described.Close()
			return
		}
		_ = b.client.Destroy()
	})
}

// IsFinalized implements [compute.Backend].
func (b *Backend) IsFinalized() bool { return b == nil || b.finalized.Load() }

// View is a backend whose programs update some of their inputs in place. See [Backend.Donating].
type View struct {
	*Backend
	alias map[string]int

	mu       sync.Mutex
	compiled []*Executable
}

var _ compute.Backend = (*View)(nil)

// Donating returns a view of the backend for programs that update state in place: in the programs built from it, the
// storage of the parameter of the main function with name n may be used for output alias[n], which must have its shape
// and dtype. The caller then executes with donate set for those inputs; an input that is not donated is copied first. A
// name that the program does not have is an error of Compile. The view shares the client and buffers with b.
func (b *Backend) Donating(alias map[string]int) compute.Backend {
	return &View{Backend: b, alias: maps.Clone(alias)}
}

// Builder implements [compute.Backend].
func (v *View) Builder(name string) compute.Builder {
	return newBuilder(v.Backend, name, v.alias, func(e *Executable) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.compiled = append(v.compiled, e)
	})
}

// Executables returns the programs compiled from this view so far, oldest first. It is the way to an executable's
// memory statistics and HLO when GoMLX compiled it.
func (v *View) Executables() []*Executable {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.compiled)
}

// HasSharedBuffers implements [compute.Backend]. It is false: a buffer whose storage the host owns can't be donated.
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer implements [compute.Backend]; shared buffers are not offered.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, fmt.Errorf("xla: shared buffers: %w", compute.ErrNotImplemented)
}

// capabilities lists the operations and dtypes of the backend.
var capabilities = func() compute.Capabilities {
	c := compute.Capabilities{Operations: map[compute.OpType]bool{}, Functions: true, DTypes: map[dtypes.DType]bool{}}
	for _, op := range operations {
		c.Operations[op] = true
	}
	for _, d := range []dtypes.DType{
		dtypes.Bool, dtypes.Int8, dtypes.Int16, dtypes.Int32, dtypes.Int64, dtypes.Uint8, dtypes.Uint16, dtypes.Uint32,
		dtypes.Uint64,
		dtypes.Float16, dtypes.BFloat16, dtypes.Float32, dtypes.Float64, dtypes.Complex64, dtypes.Complex128,
	} {
		c.DTypes[d] = true
	}
	return c
}()
