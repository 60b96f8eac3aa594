package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine/lockstep"
)

// validate checks what can be checked of a model on the devices of several processes.
func (h *Hosts) validate(e *spec.Engine) error {
	switch {
	case !h.Several():
		return nil
	case h.InitializationTimeout <= 0 || h.HeartbeatTimeout <= 0:
		return setting.Errorf("`initialization-timeout` and `heartbeat-timeout` must be longer than nothing")
	case e.DP > 1:
		return setting.Errorf("`dp` and `num-processes` may not come together: one replica of the model is on all " +
			"hosts; `shard` shares rows out to others")
	case e.TP%h.Processes != 0 || e.TP == 0:
		return setting.Errorf("`tp` is %d, and there are %d processes: it counts the devices of all, and each has "+
			"as many of them", e.TP, h.Processes)
	case backend.Named(e.Backend).IsOneHost:
		return setting.Errorf("`num-processes` is for xla:tpu and xla:cpu: one model on GPUs of several hosts is not " +
			"supported; use `tp` with one host's, and `shard` for the others")
	}
	return nil
}

// Hosts are processes on several hosts that run one model together, each with as many of its devices. Process 0
// generates completions and writes the output, the others follow it.
type Hosts struct {
	Processes, ID                           int
	CoordinatorAddress, BindAddress         string
	InitializationTimeout, HeartbeatTimeout time.Duration

	group *lockstep.Group // nil before join
}

func (h *Hosts) Count() int {
	if h == nil {
		return 1
	}
	return max(1, h.Processes)
}

func (h *Hosts) Several() bool { return h.Count() > 1 }

// Joined is the group of the processes; nil before they met, and for this process alone.
func (h *Hosts) Joined() *lockstep.Group {
	if h == nil {
		return nil
	}
	return h.group
}

// Lost reports whether the processes are no longer together.
func (h *Hosts) Lost() bool { return h.Joined() != nil && h.group.Err() != nil }

// Follows reports whether this is not process 0.
func (h *Hosts) Follows() bool { return h.Joined() != nil && !h.group.Leads() }

// Join meets the other processes, if there are some. The context that it returns ends with them, or when one is to
// leave; leave ends this process' part, with what its work came to.
func Join(ctx context.Context, p *Process) (_ context.Context, leave func(error) error, err error) {
	h := p.Hosts
	if !h.Several() {
		return ctx, func(err error) error { return err }, nil
	}
	host, _ := os.Hostname()
	p.Printf("process %d of %d: meeting the others at %s", h.ID, h.Processes, h.CoordinatorAddress)
	h.group, err = lockstep.Join(ctx, lockstep.Options{
		CoordinatorAddress: h.CoordinatorAddress, BindAddress: h.BindAddress, NumProcesses: h.Processes,
		ProcessID: h.ID, InitializationTimeout: h.InitializationTimeout, HeartbeatTimeout: h.HeartbeatTimeout,
		Version: p.Version, Host: host, Log: p.Log,
	})
	if err != nil {
		return ctx, nil, err
	}
	inner, cancel := context.WithCancel(ctx)
	left := make(chan struct{})
	go h.watch(cancel, left, p.Timing.LostGrace, p.Stuck)
	return inner, func(err error) error {
		defer close(left)
		defer cancel()
		return h.leave(err)
	}, nil
}

// watch ends the work of this process when the others end, until it has left.
func (h *Hosts) watch(cancel func(), left chan struct{}, grace time.Duration, stuck func(error)) {
	select {
	case <-h.group.Leaving():
		cancel()
	case <-h.group.Done():
	case <-left:
		return
	}
	select {
	case <-h.group.Done():
	case <-left:
		return
	}
	lost := h.group.Err()
	if lost == nil {
		return
	}
	cancel()
	// What is under way may not end: a call of a device that waits for another's, or hours of compiling for nothing.
	select {
	case <-left:
	case <-time.After(grace):
		stuck(fmt.Errorf("%w (and this process did not come to its end within %s)", lost, grace))
	}
}

// leave reports to the other processes how this one ended.
func (h *Hosts) leave(err error) error {
	defer h.group.Close()
	if lost := h.group.Err(); lost != nil {
		if err == nil || !errors.Is(err, lost) {
			err = errors.Join(lost, ignoreCanceled(err))
		}
		return err
	}
	end := outcome.Of(err)
	if end == outcome.Interrupted && !errors.As(err, new(*outcome.Error)) {
		err = outcome.Errorf(outcome.Interrupted, "interrupted: this process or another was told to end")
	}
	switch {
	case !h.group.Leads():
		if err != nil && end != outcome.Interrupted {
			h.group.Fail(err)
		}
	case end == outcome.Failed || end == outcome.Misused:
		h.group.Fail(err)
	default:
		h.group.End(int(end))
	}
	return err
}

// ignoreCanceled drops an error that only reports that the work was ended.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
