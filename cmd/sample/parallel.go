package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/gomlx/compute"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/lockstep"
)

// parallel is how a job is spread over devices: dp replicas of the model, each on tp devices that run it together.
type parallel struct {
	tp, dp int
	mesh   string

	processes int // of several hosts, each of which has as many of the devices; 0 for this one alone
}

func (p *parallel) define(s *pflag.FlagSet) {
	s.IntVar(&p.tp, "tp", 1, "`DEVICES` that run the model together, each with a part of it: tensor parallelism")
	s.IntVar(&p.dp, "dp", 1,
		"`REPLICAS` of the model, each on --tp devices of its own, that draw from one queue: data parallelism")
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
			return fmt.Errorf("--mesh is %q, but must name axes and their devices, each once, such as tp=4,dp=2",
				p.mesh)
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
	case p.processes > 1 && p.dp > 1:
		return errors.New(
			"--dp and --num-processes may not come together: one replica of the model is on all hosts; --shard " +
				"shares rows out to others")
	case p.processes > 1 && (p.tp%p.processes != 0 || p.tp == 0):
		return fmt.Errorf(
			"--tp is %d, and there are %d processes: it counts the devices of all, and each has as many of them", p.tp,
			p.processes)
	case p.processes > 1 && backend == "xla:cuda":
		return errors.New(
			"--num-processes is for xla:tpu and xla:cpu: one model on GPUs of several hosts is not supported; use " +
				"--tp with one host's, and --shard for the others")
	case p.devices() > 1 && backend == "go":
		return errors.New("--tp and --dp need several devices, and --backend go has one: use a backend of xla")
	}
	return nil
}

func (p *parallel) devices() int { return max(1, p.tp) * max(1, p.dp) }

// here is how many of the devices are this process'.
func (p *parallel) here() int { return p.devices() / max(1, p.processes) }

// logLevel names the environment variable of XLA's log: 2 leaves errors.
const logLevel = "TF_CPP_MIN_LOG_LEVEL"

// clientOptions are what the plugin is to be started with: the CPU is cut into as many devices as are needed.
func (p *parallel) clientOptions(backend string) map[string]any {
	if backend == "xla:cpu" && p.devices() > 1 {
		if p.tp > 1 && os.Getenv(logLevel) == "" {
			// For each program of several devices XLA:CPU warns of a form that it has put the program into itself.
			_ = os.Setenv(logLevel, "2")
		}
		return map[string]any{"cpu_device_count": p.here()}
	}
	return nil
}

// groups returns a backend for each replica; over is not nil where the devices are those of several processes.
func (p *parallel) groups(backend compute.Backend, over *lockstep.Group) ([]compute.Backend, error) {
	if p.devices() == 1 {
		return []compute.Backend{backend}, nil
	}
	b, ok := backend.(*xla.Backend)
	if !ok {
		return nil, fmt.Errorf("--tp and --dp: backend %s has one device", backend.Name())
	}
	if there := b.NumDevices(); over != nil {
		if there < p.here() {
			return nil, fmt.Errorf("--tp %d on %d hosts needs %d devices of each, and %s has %d here", p.tp,
				p.processes, p.here(), b.Platform(), there)
		}
		devices := make([]int, p.here())
		for i := range devices {
			devices[i] = i
		}
		g, err := b.GroupOver(over, devices...)
		return []compute.Backend{g}, err
	} else if there < p.devices() {
		return nil, fmt.Errorf("--tp %d and --dp %d need %d devices, and %s has %d%s", p.tp, p.dp, p.devices(),
			b.Platform(), there, otherHosts())
	}
	var groups []compute.Backend
	for r := range p.dp {
		devices := make([]int, p.tp)
		for i := range devices {
			devices[i] = r*p.tp + i
		}
		g, err := b.Group(devices...)
		if errors.Is(err, xla.ErrOtherHost) {
			return nil,
				fmt.Errorf(
					"--tp %d and --dp %d: %w: \"sample run --num-processes\" puts a model on several hosts, and "+
						"\"sample run --shard\" shares rows out to them", p.tp, p.dp, err)
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
		return fmt.Sprintf(
			": those of this host. \"sample run --num-processes auto\" puts a model on all %d hosts, with a process "+
				"on each; \"sample run --shard auto\" shares the rows out to them", len(hosts))
	}
	return ""
}
