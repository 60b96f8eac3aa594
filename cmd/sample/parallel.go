package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/spf13/pflag"

	"github.com/quire/quire/xla"
)

// parallel is how a job is spread over devices: dp replicas of the model, each on tp devices that run it together.
type parallel struct {
	tp, dp int
	mesh   string
}

func (p *parallel) define(s *pflag.FlagSet) {
	s.IntVar(&p.tp, "tp", 1, "`DEVICES` that run the model together, each with a part of it: tensor parallelism")
	s.IntVar(&p.dp, "dp", 1, "`REPLICAS` of the model, each on --tp devices of its own, that draw from one queue: data parallelism")
	s.StringVar(&p.mesh, "mesh", "", "`AXES` both at once, such as tp=4,dp=2")
}

// check reads --mesh, and holds for each backend what can be told without it.
func (p *parallel) check(backend string) error {
	given := map[string]bool{}
	for axis := range strings.SplitSeq(p.mesh, ",") {
		if p.mesh == "" {
			break
		}
		name, size, _ := strings.Cut(axis, "=")
		n, err := strconv.Atoi(size)
		field := map[string]*int{"tp": &p.tp, "dp": &p.dp}[name]
		if err != nil || n < 1 || field == nil || given[name] {
			return fmt.Errorf("--mesh is %q, but must name axes and their devices, each once, such as tp=4,dp=2", p.mesh)
		}
		if *field != 1 && *field != n {
			return fmt.Errorf("--mesh is %q, but --%s is %d: give one of the two", p.mesh, name, *field)
		}
		given[name], *field = true, n
	}
	switch {
	case p.tp < 1:
		return fmt.Errorf("--tp is %d, but must be at least 1", p.tp)
	case p.dp < 1:
		return fmt.Errorf("--dp is %d, but must be at least 1", p.dp)
	case p.devices() > 1 && backend == "go":
		return errors.New("--tp and --dp need several devices, and --backend go has one: use a backend of xla")
	}
	return nil
}

func (p *parallel) devices() int { return max(1, p.tp) * max(1, p.dp) }

// logLevel names the environment variable of XLA's log: 2 leaves errors.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// clientOptions are what the plugin is to be started with: the CPU is cut into as many devices as are needed.
func (p *parallel) clientOptions(backend string) map[string]any {
	if backend == "xla:cpu" && p.devices() > 1 {
		if p.tp > 1 && os.Getenv(logLevel) == "" {
			// For each program of several devices XLA:CPU warns of a form that it has put the program into itself.
			_ = os.Setenv(logLevel, "2")
		}
		return map[string]any{"cpu_device_count": p.devices()}
	}
	return nil
}

// groups returns a backend for each replica.
func (p *parallel) groups(backend compute.Backend) ([]compute.Backend, error) {
	if p.devices() == 1 {
		return []compute.Backend{backend}, nil
	}
	b, ok := backend.(*xla.Backend)
	if !ok {
		return nil, fmt.Errorf("--tp and --dp: backend %s has one device", backend.Name())
	}
	if there := b.NumDevices(); there < p.devices() {
		return nil, fmt.Errorf("--tp %d and --dp %d need %d devices, and %s has %d%s", p.tp, p.dp, p.devices(), b.Platform(), there, otherHosts())
	}
	var groups []compute.Backend
	for r := range p.dp {
		devices := make([]int, p.tp)
		for i := range devices {
			devices[i] = r*p.tp + i
		}
		g, err := b.Group(devices...)
		if errors.Is(err, xla.ErrOtherHost) {
			return nil, fmt.Errorf("--tp %d and --dp %d: %w; --shard shares the rows out", p.tp, p.dp, err)
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
	if hosts := strings.Split(os.Getenv("TPU_WORKER_HOSTNAMES"), ","); len(hosts) > 1 {
		return fmt.Sprintf(": those of this host. A model over several of the %d hosts is not supported; run a process on each, which --shard shares the rows out to", len(hosts))
	}
	return ""
}
