package xla

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/gobackend"

	"github.com/quire/quire/backend/nested"
)

// OpenOptions are the options of [Open].
type OpenOptions struct {
	// FindPlugin returns the path of the plugin of a platform: "cpu", "cuda" or "tpu".
	FindPlugin func(platform string) (string, error)
	// The other fields are the fields of [Options]; the pure-Go backend has no use for them.
	ClientOptions map[string]any
	CacheDir      string
	Kernels       string
	KernelDir     string
	ClientTimeout time.Duration
	Waiting       func(waited time.Duration, what string)
}

// Open is [OpenContext] without a context.
func Open(spec string, o OpenOptions) (compute.Backend, error) {
	return OpenContext(context.Background(), spec, o)
}

// OpenContext returns the backend that spec names, and ends early with ctx, as [NewContext] does:
//
//	xla:cpu, xla:cuda, xla:tpu   this package's, on the plugin that FindPlugin has for the platform
//	xla:/path/plugin.so          this package's, on the plugin in that file
//	go                           GoMLX's pure-Go backend: slow, without any plugin
func OpenContext(ctx context.Context, spec string, o OpenOptions) (compute.Backend, error) {
	if spec == "go" {
		// Its pool of workers is fixed, and loops that wait for loops would use it up: operations run one after the
		// other.
		b, err := gobackend.New("ops_sequential")
		if err != nil {
			return nil, err
		}
		return nested.Wrap(b), nil
	}
	where, ok := strings.CutPrefix(spec, "xla:")
	options := Options{ClientOptions: o.ClientOptions, CacheDir: o.CacheDir, Kernels: o.Kernels, KernelDir: o.KernelDir,
		ClientTimeout: o.ClientTimeout, Waiting: o.Waiting}
	switch {
	case ok && filepath.IsAbs(where):
		options.Plugin = where
	case ok && (where == "cpu" || where == "cuda" || where == "tpu"):
		if o.FindPlugin == nil {
			return nil,
				fmt.Errorf("xla: nothing searches for the plugin of %s: give its path, as xla:/path/plugin.so", where)
		}
		var err error
		if options.Plugin, err = o.FindPlugin(where); err != nil {
			return nil, err
		}
		options.Platform = where
	default:
		return nil,
			fmt.Errorf(
				"xla: there is no backend %q: use xla:cpu, xla:cuda, xla:tpu, xla:/absolute/path/plugin.so or go", spec)
	}
	return NewContext(ctx, options)
}
