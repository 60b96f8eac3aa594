package xla

import (
	"context"
	"fmt"
	"maps"
	"os"
	"strings"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/opening"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/topologies"
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
