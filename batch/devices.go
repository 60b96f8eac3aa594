package batch

import (
	"errors"
	"fmt"
	"os"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
)

// validateDevices holds for each backend what can be told without it.
func (e *Engine) validateDevices() error {
	switch {
	case e.TP < 1:
		return wrong("tp", "is %d, but must be at least 1", e.TP)
	case e.DP < 1:
		return wrong("dp", "is %d, but must be at least 1", e.DP)
	case e.EP < 0 || e.EP > 1 && e.TP%e.EP != 0:
		return wrong("ep", "is %d, but must divide `tp`, which is %d", e.EP, e.TP)
	case e.devices() > 1 && e.Backend == "go":
		return errors.New("`tp` and `dp` need several devices, and `backend` go has one: use a backend of xla")
	}
	return nil
}

// validate holds what can be told of a model on the devices of several processes.
func (h *Hosts) validate(e *Engine) error {
	switch {
	case !h.several():
		return nil
	case h.InitializationTimeout <= 0 || h.HeartbeatTimeout <= 0:
		return errors.New("`initialization-timeout` and `heartbeat-timeout` must be longer than nothing")
	case e.DP > 1:
		return errors.New("`dp` and `num-processes` may not come together: one replica of the model is on all hosts; " +
			"`shard` shares rows out to others")
	case e.TP%h.Processes != 0 || e.TP == 0:
		return fmt.Errorf("`tp` is %d, and there are %d processes: it counts the devices of all, and each has as many "+
			"of them", e.TP, h.Processes)
	case e.Backend == "xla:cuda":
		return errors.New("`num-processes` is for xla:tpu and xla:cpu: one model on GPUs of several hosts is not " +
			"supported; use `tp` with one host's, and `shard` for the others")
	}
	return nil
}

func (e *Engine) devices() int { return max(1, e.TP) * max(1, e.DP) }

// here is how many of the devices are this process'.
func (e *Engine) here(hosts *Hosts) int { return e.devices() / hosts.count() }

// logLevel names the environment variable of XLA's log: 2 leaves errors.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// clientOptions are what the plugin is to be started with: the CPU is cut into as many devices as are needed.
func (e *Engine) clientOptions(hosts *Hosts) map[string]any {
	if e.Backend == "xla:cpu" && e.devices() > 1 {
		if e.TP > 1 && os.Getenv(logLevel) == "" {
			// For each program of several devices XLA:CPU warns of a form that it has put the program into itself.
			_ = os.Setenv(logLevel, "2")
		}
		return map[string]any{"cpu_device_count": e.here(hosts)}
	}
	return nil
}

// Groups returns a backend for each replica, on devices of this process alone.
func (e *Engine) Groups(backend compute.Backend) ([]compute.Backend, error) {
	return e.groups(backend, nil)
}

// groups is Groups where the devices may be those of several processes.
func (e *Engine) groups(backend compute.Backend, hosts *Hosts) ([]compute.Backend, error) {
	if e.devices() == 1 {
		return []compute.Backend{backend}, nil
	}
	b, ok := backend.(*xla.Backend)
	if !ok {
		return nil, fmt.Errorf("`tp` and `dp`: backend %s has one device", backend.Name())
	}
	if there := b.NumDevices(); hosts.joined() != nil {
		if there < e.here(hosts) {
			return nil, fmt.Errorf("`tp` %d on %d hosts needs %d devices of each, and %s has %d here", e.TP,
				hosts.count(), e.here(hosts), b.Platform(), there)
		}
		devices := make([]int, e.here(hosts))
		for i := range devices {
			devices[i] = i
		}
		g, err := b.GroupOver(hosts.joined(), devices...)
		return []compute.Backend{g}, err
	} else if there < e.devices() {
		return nil, fmt.Errorf("`tp` %d and `dp` %d need %d devices, and %s has %d%s", e.TP, e.DP, e.devices(),
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
				fmt.Errorf(
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

// otherHosts says what a slice of several hosts can do.
func otherHosts() string {
	if hosts := sliceHosts(); len(hosts) > 1 {
		return fmt.Sprintf(
			": those of this host. \"sample run `num-processes` auto\" puts a model on all %d hosts, with a process "+
				"on each; \"sample run `shard` auto\" shares the rows out to them", len(hosts))
	}
	return ""
}
