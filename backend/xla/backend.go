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

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla/internal/native"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/backend/xla/internal/topologies"
	"github.com/quire/quire/internal/plural"
)

// forms are the native forms of composites. The alias lets [Backend] embed them without an exported field.
type forms = native.Forms

// Backend is a PJRT client with the devices it reaches. It implements [compute.Backend] and may be used by many
// goroutines at once.
type Backend struct {
	*forms
	devices
	cache  *programcache.Cache // nil: none is kept
	loaded *loadedPrograms

	compiles, cacheLoads atomic.Int64
}

var _ compute.Backend = (*Backend)(nil)

// logLevel names the environment variable of XLA's own log: 0 prints all, 1 warnings and errors, 2 errors only.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// New is [NewContext] without a context.
func New(o Options) (*Backend, error) { return NewContext(context.Background(), o) }

// NewContext loads the plugin and makes a client on its devices. If ctx ends first, or [Options.ClientTimeout] passes
// ([ErrClientTimeout]), the plugin's call is abandoned, because nothing can end it.
func NewContext(ctx context.Context, o Options) (*Backend, error) {
	if o.Plugin == "" {
		return nil, errors.New("xla: no PJRT plugin given: set Options.Plugin to the path of one")
	}
	if os.Getenv(logLevel) == "" {
		_ = os.Setenv(logLevel, "1") // otherwise the plugin reports every client it makes
	}
	if o.Platform == "cpu" {
		setCPUFlags()
	}
	plugin, client, err := o.openClient(ctx)
	if err != nil {
		return nil, err
	}
	b := &Backend{devices: devices{plugin: plugin, pluginPath: o.Plugin, client: client,
		platform: strings.ToLower(client.Platform())}, loaded: &loadedPrograms{keep: o.KeepLoaded}}
	if o.Platform != "" && !strings.EqualFold(b.platform, o.Platform) {
		_ = client.Destroy()
		return nil, fmt.Errorf("xla: %s is a plugin for %q, not for %q: give the path of the right plugin", o.Plugin,
			b.platform, o.Platform)
	}
	if b.platform == backend.TPU {
		kind, err := b.DeviceKind()
		if err != nil {
			_ = client.Destroy()
			return nil, err
		}
		b.options = topologies.Options(b.platform, kind, os.Getenv(libtpuFlags))
	}
	if b.standIn = o.StandIn != nil; b.standIn {
		b.platform = "tpu"
	}
	if b.forms, err = native.New(native.Options{Platform: b.platform, Plugin: plugin, Mode: o.Kernels,
		Folder: o.KernelDir, Device: b.describeDevice, StandIn: o.StandIn}); err != nil {
		_ = client.Destroy()
		return nil, err
	}
	if o.CacheDir != "" {
		if b.cache, err = openCache(o.CacheDir, &b.devices); err != nil {
			_ = client.Destroy()
			return nil, err
		}
	}
	return b, nil
}

// Name implements [compute.Backend]: "xla".
func (b *Backend) Name() string { return "xla" }

// String implements [compute.Backend].
func (b *Backend) String() string { return b.Name() }

// Traits returns what programs and sizes depend on. The kernels in C compute each row in the same way for any number of
// rows, and read caches by head in less time: see package attention.
func (b *Backend) Traits() backend.Traits {
	traits, kernels := backend.For(b.Platform()), b.Kernels() != KernelsOff
	traits.SameForms, traits.CachesByHead = kernels, kernels
	return traits
}

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

// Runtime is the description of a backend with devices without the level of the kernels in C.
func (b *Backend) Runtime() string {
	if b.valid() != nil || b.topology != nil {
		return b.Description()
	}
	major, minor := b.plugin.Version()
	return fmt.Sprintf("xla:%s, %s, PJRT API %d.%d, %s", b.platform, b.devicesText(), major, minor, b.pluginPath)
}

// devicesText prints the number of devices. A CPU has one, or several virtual ones that share its cores.
func (b *Backend) devicesText() string {
	if n := b.NumDevices(); b.platform == "cpu" && n > 1 {
		return fmt.Sprintf("%d virtual devices", n)
	}
	return plural.Count(b.NumDevices(), "device")
}

// Capabilities implements [compute.Backend].
func (b *Backend) Capabilities() compute.Capabilities { return capabilities.Clone() }

// Builder implements [compute.Backend]: it starts a new program.
func (b *Backend) Builder(name string) compute.Builder {
	return program.New(b.target(b.compile), name, nil)
}

// target describes the backend to the builder of its programs.
func (b *Backend) target(compile func(p *program.Builder, text []byte) (*Executable, error)) program.Target {
	t := program.Target{Platform: b.platform, Composites: native.Composites(b.forms), Here: b.here(),
		Partitions:  b.Partitions(),
		CheckDevice: func(d compute.DeviceNum) error { _, err := b.device(d); return err },
		Compile: func(p *program.Builder, text []byte) (compute.Executable, error) {
			e, err := compile(p, text)
			if err != nil {
				return nil, err // not a nil *Executable in the interface
			}
			return e, nil
		}}
	if b.hosts != nil {
		t.Processes, t.Exchange = b.hosts.count, b.hosts.exchange
	}
	return t
}

// Compiles returns how many programs the backend has compiled; programs loaded from the cache are not counted.
func (b *Backend) Compiles() int { return int(b.compiles.Load()) }

// CacheLoads returns how many programs the backend has loaded from its cache on disk.
func (b *Backend) CacheLoads() int { return int(b.cacheLoads.Load()) }

// Finalize implements [compute.Backend]: it frees the client. Buffers and executables become unusable.
func (b *Backend) Finalize() {
	b.once.Do(func() {
		b.over.Store(true)
		b.hosts.disconnect()
		switch {
		case b.owner != nil: // which frees the client
		case b.topology != nil:
			b.topology.described.Close()
		default:
			b.loaded.close()
			_ = b.client.Destroy()
		}
	})
}

// IsFinalized implements [compute.Backend].
func (b *Backend) IsFinalized() bool { return b == nil || b.over.Load() }

// View is a backend whose programs update some of their inputs in place. See [Backend.Donating].
type View struct {
	*Backend
	alias map[string]int

	mu       sync.Mutex
	compiled []*Executable
}

var _ compute.Backend = (*View)(nil)

// Donating returns a view of the backend for programs that update state in place. In programs built from it, output
// alias[n] may use the storage of the main function's parameter n, which must have the output's shape and dtype. The
// caller then executes with donate set for these inputs. An input that is not donated is copied first. Compile returns
// an error for a name that the program does not have. The view shares the client and the buffers of b.
func (b *Backend) Donating(alias map[string]int) compute.Backend {
	return &View{Backend: b, alias: maps.Clone(alias)}
}

// Builder implements [compute.Backend].
func (v *View) Builder(name string) compute.Builder {
	return program.New(v.target(func(p *program.Builder, text []byte) (*Executable, error) {
		e, err := v.compile(p, text)
		if err != nil {
			return nil, err
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.compiled = append(v.compiled, e)
		return e, nil
	}), name, v.alias)
}

// Executables returns the programs compiled from this view so far, oldest first. Callers whose programs GoMLX compiles
// get from it an executable's memory statistics and HLO.
func (v *View) Executables() []*Executable {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.compiled)
}

// HasSharedBuffers implements [compute.Backend]. It returns false, because a buffer whose storage the host owns can't
// be donated.
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer implements [compute.Backend]; shared buffers are not offered.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, fmt.Errorf("xla: shared buffers: %w", compute.ErrNotImplemented)
}

// capabilities lists the operations and dtypes of the backend.
var capabilities = func() compute.Capabilities {
	c := compute.Capabilities{Operations: map[compute.OpType]bool{}, Functions: true, DTypes: map[dtypes.DType]bool{}}
	for _, op := range program.Operations {
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
