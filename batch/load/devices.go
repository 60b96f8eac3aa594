package load

import (
	"errors"
	"os"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
)

// here is how many of the devices are this process'.
func here(e *spec.Engine, hosts *process.Hosts) int { return e.Devices() / hosts.Count() }

// logLevel names the environment variable of XLA's log: 2 leaves errors.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// clientOptions are what the plugin is to be started with: the CPU is cut into as many devices as are needed, and of
// GPUs the client takes no more than are needed.
func clientOptions(e *spec.Engine, hosts *process.Hosts) map[string]any {
	traits := backend.Named(e.Backend)
	if traits.OpensAll {
		visible := make([]int64, here(e, hosts))
		for i := range visible {
			visible[i] = int64(i)
		}
		return map[string]any{"visible_devices": visible}
	}
	if traits.IsHost && e.Devices() > 1 {
		if e.TP > 1 && os.Getenv(logLevel) == "" {
			// For each program of several devices XLA:CPU warns of a form that it has put the program into itself.
			_ = os.Setenv(logLevel, "2")
		}
		return map[string]any{"cpu_device_count": here(e, hosts)}
	}
	return nil
}

// Groups returns a backend for each replica, on devices of this process alone.
func Groups(e *spec.Engine, backend compute.Backend) ([]compute.Backend, error) {
	return groups(e, backend, nil)
}

// groups is Groups for devices that may belong to several processes.
func groups(e *spec.Engine, backend compute.Backend, hosts *process.Hosts) ([]compute.Backend, error) {
	if e.Devices() == 1 {
		return []compute.Backend{backend}, nil
	}
	b, ok := backend.(*xla.Backend)
	if !ok {
		return nil, setting.Errorf("`tp` and `dp`: backend %s has one device", backend.Name())
	}
	if there := b.NumDevices(); hosts.Joined() != nil {
		if there < here(e, hosts) {
			return nil, setting.Errorf("`tp` %d on %d hosts needs %d devices of each, and %s has %d here", e.TP,
				hosts.Count(), here(e, hosts), b.Platform(), there)
		}
		devices := make([]int, here(e, hosts))
		for i := range devices {
			devices[i] = i
		}
		g, err := b.GroupOver(hosts.Joined(), devices...)
		return []compute.Backend{g}, err
	} else if there < e.Devices() {
		return nil, setting.Errorf("`tp` %d and `dp` %d need %d devices, and %s has %d%s", e.TP, e.DP, e.Devices(),
			b.Platform(), there, otherHosts())
	}
	var groups []compute.Backend
	for r := range e.DP {
		devices := make([]int, e.TP)
		for i := range devices {
			devices[i] = r*e.TP + i
		}
		g, err := b.Group(devices...)
		if errors.Is(err, xla.ErrOtherHost) {
			return nil,
				setting.Errorf(
					"`tp` %d and `dp` %d: %w: \"sample run `num-processes`\" puts a model on several hosts, and "+
						"\"sample run `shard`\" shares rows out to them", e.TP, e.DP, err)
		}
		if err != nil {
			return nil, err
		}
		groups = append(groups, g)
	}
	return groups, nil
}

// otherHosts reports what a slice of several hosts can do.
func otherHosts() setting.Text {
	if hosts := sliceHosts(); len(hosts) > 1 {
		return setting.Textf(
			": those of this host. \"sample run `num-processes` auto\" puts a model on all %d hosts, with a process "+
				"on each; \"sample run `shard` auto\" shares the rows out to them", len(hosts))
	}
	return setting.Text{}
}
