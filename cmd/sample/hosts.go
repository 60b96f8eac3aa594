package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/lockstep"
)

// hostOptions are the flags of a run whose model is on the devices of several processes, one a host. Their names are
// jax.distributed's.
type hostOptions struct {
	processes, coordinator, bind string
	id                           int
	initialization, heartbeat    time.Duration

	count int             // of processes; found by check, 0 for this one alone
	group *lockstep.Group // nil before join, and alone
}

// processesAuto is the --num-processes that takes all from the environment.
const processesAuto = "auto"

// lostGrace is how long a process has to come to its end when another is lost.
var lostGrace = 30 * time.Second

// coordinatorPort is where process 0 is met where only its host is known: jax.distributed's on TPUs.
const coordinatorPort = "8476"

func (o *hostOptions) define(s *pflag.FlagSet) {
	s.StringVar(&o.processes, "num-processes", "",
		"`N` of processes, each with as many of --tp's devices; auto takes this and the next two from the variables "+
			"of GKE TPU, JAX, Slurm or torchrun")
	s.IntVar(&o.id, "process-id", -1, "`I` which of them this is, from 0 on; process 0 writes the output")
	s.StringVar(&o.coordinator, "coordinator-address", "",
		"`HOST:PORT` where process 0 listens, and the others find it. Whoever reaches it could take part: use a "+
			"network that is trusted")
	s.StringVar(&o.bind, "coordinator-bind-address", "",
		"`HOST:PORT` where process 0 listens instead, such as 0.0.0.0:8476")
	s.DurationVar(&o.initialization, "initialization-timeout", 5*time.Minute,
		"`TIME` that processes wait for one another at the beginning")
	s.DurationVar(&o.heartbeat, "heartbeat-timeout", 100*time.Second,
		"`TIME` after which a process that nothing comes from is lost, and the others stop")
}

func (o *hostOptions) several() bool { return o.count > 1 }

// lost says that the processes are no longer together.
func (o *hostOptions) lost() bool { return o.group != nil && o.group.Err() != nil }

// follows says that this is not process 0.
func (o *hostOptions) follows() bool { return o.group != nil && !o.group.Leads() }

// checkHosts settles which process this is, and what may not come with several.
func (o *runOptions) checkHosts(getenv func(string) string) error {
	h := &o.hosts
	if h.processes == "" {
		if h.coordinator != "" || h.bind != "" || h.id >= 0 {
			return errors.New(
				"--coordinator-address and --process-id are for several processes: give --num-processes, too")
		}
		return nil
	}
	if err := h.find(getenv); err != nil {
		return err
	}
	o.parallel.processes = h.count
	switch {
	case h.count < 2:
		return nil
	case h.initialization <= 0 || h.heartbeat <= 0:
		return errors.New("--initialization-timeout and --heartbeat-timeout must be longer than nothing")
	case o.units.workers > 0:
		return errors.New("--workers and --num-processes may not come together: each worker has a model of its own")
	case o.pages.savePrefix != "" || o.pages.loadPrefix != "":
		return errors.New(
			"--save-prefix and --load-prefix may not come with --num-processes: each process has a part of the " +
				"prefix, and the file has all")
	}
	if n, _ := strconv.Atoi(getenv("MEGASCALE_NUM_SLICES")); n > 1 && o.shardText == "" {
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
		h.count = n
		switch {
		case n > 1 && (h.id < 0 || h.id >= n):
			return fmt.Errorf("--process-id is missing, or not one of 0 to %d: it tells the %d processes apart", n-1, n)
		case n > 1 && h.coordinator == "":
			return errors.New("--coordinator-address is missing: HOST:PORT of process 0, the same for all")
		}
		return h.checkAddresses()
	}
	if h.id >= 0 && h.count == 0 { // checked a second time, it is what was found
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
	h.count, h.id = first.count, first.index
	if h.count == 1 {
		return nil
	}
	if h.coordinator == "" {
		h.coordinator = coordinatorOf(getenv)
	}
	if h.coordinator == "" {
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
	for flag, address := range map[string]string{"coordinator-address": h.coordinator,
		"coordinator-bind-address": h.bind} {
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

// join meets the other processes, if there are some. The context that it returns ends with them, or when one is to
// leave; leave ends this process' part, with what its work came to.
func (h *hostOptions) join(ctx context.Context, env *environment, log *slog.Logger) (_ context.Context,
	leave func(error) error, err error) {
	if !h.several() {
		return ctx, func(err error) error { return err }, nil
	}
	host, _ := os.Hostname()
	fmt.Fprintf(env.stderr, "process %d of %d: meeting the others at %s\n", h.id, h.count, h.coordinator)
	h.group, err = lockstep.Join(ctx, lockstep.Options{
		CoordinatorAddress: h.coordinator, BindAddress: h.bind, NumProcesses: h.count, ProcessID: h.id,
		InitializationTimeout: h.initialization, HeartbeatTimeout: h.heartbeat, Version: quireVersion(), Host: host,
		Log: log,
	})
	if err != nil {
		return ctx, nil, err
	}
	group := h.group
	inner, cancel := context.WithCancel(ctx)
	left := make(chan struct{})
	go func() {
		select {
		case <-group.Leaving():
			cancel()
		case <-group.Done():
		case <-left:
			return
		}
		select {
		case <-group.Done():
		case <-left:
			return
		}
		lost := group.Err()
		if lost == nil {
			return
		}
		cancel()
		// What is under way may not end: a call of a device that waits for another's, or hours of compiling for
		// nothing.
		select {
		case <-left:
		case <-time.After(lostGrace):
			fmt.Fprintf(env.stderr, "sample: %v (and this process did not come to its end within %s)\n", lost,
				lostGrace)
			os.Exit(exitFailure)
		}
	}()
	return inner, func(err error) error {
		defer close(left)
		defer cancel()
		if lost := group.Err(); lost != nil {
			group.Close()
			if err == nil || !errors.Is(err, lost) {
				err = errors.Join(lost, ignoreCanceled(err))
			}
			return err
		}
		code := exitOK
		var exit *exitError
		switch {
		case errors.As(err, &exit):
			code = exit.code
		case errors.Is(err, context.Canceled):
			code, err = exitInterrupted,
				&exitError{exitInterrupted, errors.New("interrupted: this process or another was told to end")}
		case err != nil:
			code = exitFailure
		}
		switch {
		case !group.Leads():
			if err != nil && code != exitInterrupted {
				group.Fail(err)
			}
		case code == exitFailure || code == exitUsage:
			group.Fail(err)
		default:
			group.End(code)
		}
		group.Close()
		return err
	}, nil
}

// ignoreCanceled drops an error that only says that the work was ended.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// agree compares the job on all processes.
func (o *runOptions) agree(d *jobstate.Description) error {
	if o.hosts.group == nil {
		return nil
	}
	facts := []lockstep.Fact{
		{Name: "output version", Value: fmt.Sprint(d.OutputVersion)}, {Name: "the model's fingerprint", Value: d.Model},
		{Name: "shard", Value: shardText(o.shard)},
	}
	arithmetic, err := o.arithmetic("")
	if err != nil {
		return err
	}
	facts = append(facts, lockstep.Fact{Name: "what computes", Value: arithmetic})
	for _, name := range slices.Sorted(maps.Keys(d.Settings)) {
		text, err := json.Marshal(d.Settings[name])
		if err != nil {
			return err
		}
		facts = append(facts, lockstep.Fact{Name: name, Value: string(text)})
	}
	for i, in := range d.Inputs {
		facts = append(facts, lockstep.Fact{Name: fmt.Sprintf("input %d", i+1),
			Value: fmt.Sprintf("%s of %d rows and %d bytes with digest %s", in.Name, in.Rows, in.Bytes, in.Digest)})
	}
	return o.hosts.group.Agree("the job", facts)
}

// lead tells the other processes what the job settled on, where it was begun before.
func (o *runOptions) lead(saved *savedJob) error {
	if o.hosts.group == nil {
		return nil
	}
	was := map[string]any{}
	if job := saved.state.Job(); job != nil {
		was = job.Settled
	}
	text, err := json.Marshal(was)
	if err == nil {
		_, err = o.hosts.group.Share(text)
	}
	return err
}

// follow does with the model what process 0 does, and writes nothing.
func (o *runOptions) follow(ctx context.Context, env *environment) error {
	group := o.hosts.group
	err := o.followOn(ctx, env)
	switch {
	case err != nil && err != io.EOF: // process 0 may have found that nothing is to be done
		return err
	case group.Status() == exitInterrupted:
		return &exitError{exitInterrupted, errors.New("interrupted, with process 0")}
	}
	fmt.Fprintf(env.stdout, "process %d of %d is through, with process 0, which has the output\n", o.hosts.id,
		o.hosts.count)
	return nil
}

func (o *runOptions) followOn(ctx context.Context, env *environment) error {
	text, err := o.hosts.group.Share(nil)
	if err != nil {
		return err
	}
	was := map[string]any{}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber()
	if err := numbers.Decode(&was); err != nil {
		return fmt.Errorf("what process 0 says of the job: %w", err)
	}
	differences, err := o.settle(was)
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return o.different(differences)
	}
	s, err := env.open(ctx, env, o)
	if err != nil {
		return err
	}
	defer s.close()
	engines := s.engines()
	if len(engines) != 1 {
		return errors.New("this engine follows no other")
	}
	return engines[0].Follow(ctx)
}
