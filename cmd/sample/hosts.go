package main

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
)

// hostOptions are the flags of a run whose model is on the devices of several processes, one a host. Their names are
// jax.distributed's.
type hostOptions struct {
	batch.Hosts        // Processes is found by check, 0 for this one alone
	processes   string // the flag
}

// processesAuto is the --num-processes that takes all from the environment.
const processesAuto = "auto"

// coordinatorPort is where process 0 is met where only its host is known: jax.distributed's on TPUs.
const coordinatorPort = "8476"

func (o *hostOptions) define(s *pflag.FlagSet) {
	s.StringVar(&o.processes, "num-processes", "",
		"`N` of processes, each with as many of --tp's devices; auto takes this and the next two from the variables "+
			"of GKE TPU, JAX, Slurm or torchrun")
	s.IntVar(&o.ID, "process-id", -1, "`I` which of them this is, from 0 on; process 0 writes the output")
	s.StringVar(&o.CoordinatorAddress, "coordinator-address", "",
		"`HOST:PORT` where process 0 listens, and the others find it. Whoever reaches it could take part: use a "+
			"network that is trusted")
	s.StringVar(&o.BindAddress, "coordinator-bind-address", "",
		"`HOST:PORT` where process 0 listens instead, such as 0.0.0.0:8476")
	s.DurationVar(&o.InitializationTimeout, "initialization-timeout", 5*time.Minute,
		"`TIME` that processes wait for one another at the beginning")
	s.DurationVar(&o.HeartbeatTimeout, "heartbeat-timeout", 100*time.Second,
		"`TIME` after which a process that nothing comes from is lost, and the others stop")
}

func (h *hostOptions) several() bool { return h.Processes > 1 }

// check settles which process this is, and what may not come with several.
func (h *hostOptions) check(getenv func(string) string, shards bool) error {
	if h.processes == "" {
		if h.CoordinatorAddress != "" || h.BindAddress != "" || h.ID >= 0 {
			return errors.New(
				"--coordinator-address and --process-id are for several processes: give --num-processes, too")
		}
		return nil
	}
	if err := h.find(getenv); err != nil || !h.several() {
		return err
	}
	if n, _ := strconv.Atoi(getenv("MEGASCALE_NUM_SLICES")); n > 1 && !shards {
		return fmt.Errorf(
			"MEGASCALE_NUM_SLICES is %d: one model is on the hosts of one slice; --shard auto shares the rows out to "+
				"the slices", n)
	}
	return nil
}

// find settles number, count and address from the flags and, with --num-processes auto, from the environment.
func (h *hostOptions) find(getenv func(string) string) error {
	if h.processes != processesAuto {
		n, err := strconv.Atoi(h.processes)
		if err != nil || n < 1 {
			return fmt.Errorf("--num-processes is %q, but must be a number from 1 on, or auto", h.processes)
		}
		h.Processes = n
		switch {
		case n > 1 && (h.ID < 0 || h.ID >= n):
			return fmt.Errorf("--process-id is missing, or not one of 0 to %d: it tells the %d processes apart", n-1, n)
		case n > 1 && h.CoordinatorAddress == "":
			return errors.New("--coordinator-address is missing: HOST:PORT of process 0, the same for all")
		}
		return h.checkAddresses()
	}
	if h.ID >= 0 && h.Processes == 0 { // checked a second time, it is what was found
		return errors.New("--process-id and --num-processes auto may not come together: auto finds both")
	}
	e := &shardEnv{getenv: getenv, flags: "--num-processes N and --process-id I"}
	e.slurm()
	e.tpu()
	e.pair("JAX_PROCESS_ID", "JAX_NUM_PROCESSES")
	e.pair("RANK", "WORLD_SIZE")
	if e.err != nil {
		return fmt.Errorf("--num-processes auto: %w", e.err)
	}
	if several := slices.DeleteFunc(slices.Clone(e.claims),
		func(c shardClaim) bool { return c.count == 1 }); len(several) > 0 {
		e.claims = several
	}
	if len(e.claims) == 0 {
		return fmt.Errorf(
			"--num-processes auto: nothing says which process this is: neither TPU_WORKER_ID nor JAX_PROCESS_ID nor "+
				"SLURM_PROCID nor RANK is set; give %s", e.flags)
	}
	first := e.claims[0]
	for _, c := range e.claims {
		if c.index != first.index || c.count != first.count || c.index >= c.count {
			return fmt.Errorf("--num-processes auto: the environment contradicts itself: %s; %s; give %s", first, c,
				e.flags)
		}
	}
	if h.Processes, h.ID = first.count, first.index; !h.several() {
		return nil
	}
	h.CoordinatorAddress = cmp.Or(h.CoordinatorAddress, coordinatorOf(getenv))
	if h.CoordinatorAddress == "" {
		return errors.New(
			"--num-processes auto: nothing says where process 0 is: neither JAX_COORDINATOR_ADDRESS nor " +
				"TPU_WORKER_HOSTNAMES nor MASTER_ADDR is set; give --coordinator-address")
	}
	return h.checkAddresses()
}

// coordinatorOf is where the environment says that process 0 is; "" for nowhere.
func coordinatorOf(getenv func(string) string) string {
	if address := getenv("JAX_COORDINATOR_ADDRESS"); address != "" {
		return address
	}
	if host, _, _ := strings.Cut(getenv("TPU_WORKER_HOSTNAMES"), ","); strings.TrimSpace(host) != "" {
		return net.JoinHostPort(strings.TrimSpace(host), coordinatorPort)
	}
	if host := getenv("MASTER_ADDR"); host != "" {
		return net.JoinHostPort(host, cmp.Or(getenv("MASTER_PORT"), coordinatorPort))
	}
	return ""
}

func (h *hostOptions) checkAddresses() error {
	for flag, address := range map[string]string{"coordinator-address": h.CoordinatorAddress,
		"coordinator-bind-address": h.BindAddress} {
		if address == "" {
			continue
		}
		if host, port, err := net.SplitHostPort(address); err != nil || port == "" || host == "" &&
			flag == "coordinator-address" {
			return fmt.Errorf("--%s is %q, but must be HOST:PORT", flag, address)
		}
	}
	return nil
}

// shardEnvironment is the environment as --shard auto sees it: where the processes of a shard are several, what tells
// these apart does not tell shards apart. Slices of TPUs have numbers of their own.
func (h *hostOptions) shardEnvironment(getenv func(string) string) func(string) string {
	if !h.several() {
		return getenv
	}
	return func(name string) string {
		switch name {
		case "RANK":
			return getenv("MEGASCALE_SLICE_ID")
		case "WORLD_SIZE":
			return getenv("MEGASCALE_NUM_SLICES")
		}
		return ""
	}
}
