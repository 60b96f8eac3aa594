package xla

import (
	"context"
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
	"github.com/quire/quire/backend/xla/internal/topologies"
)

// Options are the options of [New].
type Options struct {
	// Plugin is the absolute path of the PJRT plugin, a shared library.
	Plugin string
	// Platform is the platform asked for ("cpu", "cuda", "tpu"), or "" for the plugin's platform. New refuses a plugin
	// of a different platform.
	Platform string
	// ClientOptions are the plugin's own options, for instance cpu_device_count for XLA:CPU. Values are string, bool,
	// int, int64, []int64 or float32.
	ClientOptions map[string]any
	// CacheDir is the folder for compiled programs. New makes it if it is missing. "" keeps none.
	CacheDir string
	// KeepLoaded is how many programs of the cache stay loaded after their last [Executable] was finalized. If it is
	// not 0, Executables of the same program share what is loaded. Tests set it, which open the same engines often.
	KeepLoaded int
	// Kernels is [KernelsAuto], also if empty, or [KernelsOff]. With KernelsAuto, composites become kernels if the
	// platform has any: in C on XLA:CPU, of package mosaic on TPU, of package triton on GPUs.
	Kernels string
	// KernelDir is a folder of kernels for TPU in addition to the built-in ones. "" adds none.
	KernelDir string
	// ClientTimeout is how long the plugin may take to open its devices. 0 is [DefaultClientTimeout].
	ClientTimeout time.Duration
	// Waiting receives what the plugin does and may wait for, if that takes several seconds. It may be nil.
	Waiting func(waited time.Duration, what string)
	// StandIn, if not nil, makes the backend build what a TPU would run, with its layouts and forms, and run it on the
	// plugin's devices. Its platform is then "tpu", and what StandIn returns replaces each kernel.
	StandIn StandIn
}

// StandIn returns a module that computes elsewhere what a TPU kernel's call does.
type StandIn = native.StandIn

// KernelUse reports what became of a composite with kernels for certain shapes, in a program for TPU or GPU.
type KernelUse = native.KernelUse

// Values of [Options.Kernels].
const (
	KernelsAuto = native.KernelsAuto
	KernelsOff  = native.KernelsOff
)

// DefaultClientTimeout is how long [New] and [OpenTopology] wait for a plugin by default.
const DefaultClientTimeout = opening.DefaultTimeout

// ErrClientTimeout is wrapped by the errors of [New] and [OpenTopology] if the plugin takes longer than
// [Options.ClientTimeout].
var ErrClientTimeout = opening.ErrTimeout

// loadPlugin loads a plugin whose API is new enough.
func loadPlugin(path string) (*pjrt.Plugin, error) {
	if err := pjrtc.CheckVersion(path); err != nil {
		return nil, fmt.Errorf("xla: %w", err)
	}
	plugin, err := pjrt.GetPlugin(path)
	if err != nil {
		return nil, fmt.Errorf("xla: loading the PJRT plugin %s: %w", path, err)
	}
	return plugin, nil
}

// openClient loads the plugin and makes a client.
func (o Options) openClient(ctx context.Context) (plugin *pjrt.Plugin, client *pjrt.Client, err error) {
	type made struct {
		plugin *pjrt.Plugin
		client *pjrt.Client
	}
	p := opening.Patience{Plugin: o.Plugin, Limit: o.ClientTimeout, Waiting: o.Waiting, Likely: o.likely()}
	m, err := opening.Open(ctx, p, fmt.Sprintln("client", o.Plugin, o.Platform, o.ClientOptions),
		func(enter func(stage string)) (m made, err error) {
			if m.plugin, err = loadPlugin(o.Plugin); err != nil {
				return m, err
			}
			enter("opening its devices")
			if m.client, err = newClient(m.plugin, o); err != nil {
				err = fmt.Errorf("xla: starting a client of %s with options %v: %w", o.Plugin, o.ClientOptions, err)
			}
			return m, err
		})
	return m.plugin, m.client, err
}

// likely describes what a plugin of the platform may wait for.
func (o *Options) likely() string {
	switch {
	case o.Platform == "tpu" || o.Platform == "" && strings.Contains(o.Plugin, "tpu"):
		return opening.LikelyTPUWaits(os.Getenv)
	case o.Platform == "cuda":
		return "it may wait for the driver, or for a GPU that another process resets"
	}
	return "it may wait for its devices or for a server"
}

// newClient makes a client with the given options. On GPUs it adds our own, unless the plugin does not know them, as a
// plugin that the user brings may not.
func newClient(plugin *pjrt.Plugin, o Options) (*pjrt.Client, error) {
	named, err := clientOptions(o.ClientOptions)
	if err != nil {
		return nil, err
	}
	if o.Platform == "cuda" {
		more, err := clientOptions(topologies.GPUClient)
		if err != nil {
			return nil, err
		}
		maps.Copy(more, named)
		client, err := plugin.NewClient(more)
		if err == nil || !strings.Contains(err.Error(), "Unexpected option") {
			return client, err
		}
	}
	return plugin.NewClient(named)
}

// clientOptions returns a plugin's own options as it takes them.
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
