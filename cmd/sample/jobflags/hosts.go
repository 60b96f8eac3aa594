package jobflags

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/environ"
	"github.com/quire/quire/batch/process"
)

// Hosts are the flags of a run whose model is on the devices of several processes, one a host. Their names are
// jax.distributed's.
type Hosts struct {
	process.Hosts        // Processes is found by check, 0 for this one alone
	CountText     string // the value of --num-processes
}

// processesAuto is the --num-processes that takes all from the environment.
const processesAuto = "auto"

func (o *Hosts) Define(s *pflag.FlagSet) {
	s.StringVar(&o.CountText, "num-processes", "",
		"`N` processes that run the model together, each with an equal share of --tp's devices; auto reads this and "+
			"the next two from the environment of GKE TPU, JAX, Slurm or torchrun")
	s.IntVar(&o.ID, "process-id", -1, "`I` number of this process, from 0; process 0 writes the output")
	s.StringVar(&o.CoordinatorAddress, "coordinator-address", "",
		"`HOST:PORT` address of process 0, the same in all processes. Anyone who reaches it can join: use a trusted "+
			"network")
	s.StringVar(&o.BindAddress, "coordinator-bind-address", "",
		"`HOST:PORT` process 0 listens here instead, such as 0.0.0.0:8476")
	s.DurationVar(&o.InitializationTimeout, "initialization-timeout", 5*time.Minute,
		"`TIME` processes wait for each other at the start")
	s.DurationVar(&o.HeartbeatTimeout, "heartbeat-timeout", 100*time.Second,
		"`TIME` consider a process lost after this long without a heartbeat, and stop the others")
}

func (h *Hosts) several() bool { return h.Processes > 1 }

// check settles which process this is, and what may not come with several.
func (h *Hosts) check(getenv func(string) string, shards bool) error {
	if h.CountText == "" {
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
func (h *Hosts) find(getenv func(string) string) error {
	if h.CountText != processesAuto {
		n, err := strconv.Atoi(h.CountText)
		if err != nil || n < 1 {
			return fmt.Errorf("--num-processes is %q, but must be a number from 1 on, or auto", h.CountText)
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
	found, err := environ.Hosts(getenv)
	if err != nil {
		return fmt.Errorf("--num-processes auto: %w", err)
	}
	if h.Processes, h.ID = found.Processes, found.ID; !h.several() {
		return nil
	}
	h.CoordinatorAddress = cmp.Or(h.CoordinatorAddress, found.CoordinatorAddress)
	if h.CoordinatorAddress == "" {
		return errors.New(
			"--num-processes auto: nothing says where process 0 is: neither JAX_COORDINATOR_ADDRESS nor " +
				"TPU_WORKER_HOSTNAMES nor MASTER_ADDR is set; give --coordinator-address")
	}
	return h.checkAddresses()
}

func (h *Hosts) checkAddresses() error {
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

// shardEnvironment is the environment as --shard auto sees it: if a shard has several processes, the variables that
// distinguish these processes do not distinguish shards. Slices of TPUs have numbers of their own.
func (h *Hosts) shardEnvironment(getenv func(string) string) func(string) string {
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
