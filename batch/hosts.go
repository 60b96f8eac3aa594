package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/quire/quire/jobstate"
	"github.com/quire/quire/lockstep"
)

// Hosts are processes on several hosts that run one model together, each with as many of its devices. Process 0 draws
// completions and writes the output, the others follow it.
type Hosts struct {
	Processes, ID                           int
	CoordinatorAddress, BindAddress         string
	InitializationTimeout, HeartbeatTimeout time.Duration

	group *lockstep.Group // nil before join
}

func (h *Hosts) count() int {
	if h == nil {
		return 1
	}
	return max(1, h.Processes)
}

func (h *Hosts) several() bool { return h.count() > 1 }

// joined is the group of the processes; nil before they met, and for this process alone.
func (h *Hosts) joined() *lockstep.Group {
	if h == nil {
		return nil
	}
	return h.group
}

// lost says that the processes are no longer together.
func (h *Hosts) lost() bool { return h.joined() != nil && h.group.Err() != nil }

// follows says that this is not process 0.
func (h *Hosts) follows() bool { return h.joined() != nil && !h.group.Leads() }

// join meets the other processes, if there are some. The context that it returns ends with them, or when one is to
// leave; leave ends this process' part, with what its work came to.
func join(ctx context.Context, p *Process) (_ context.Context, leave func(error) error, err error) {
	h := p.Hosts
	if !h.several() {
		return ctx, func(err error) error { return err }, nil
	}
	host, _ := os.Hostname()
	p.tell("process %d of %d: meeting the others at %s", h.ID, h.Processes, h.CoordinatorAddress)
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

// watch ends the work of this process with that of the others, until it has left.
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

// leave tells the other processes how this one ended.
func (h *Hosts) leave(err error) error {
	defer h.group.Close()
	if lost := h.group.Err(); lost != nil {
		if err == nil || !errors.Is(err, lost) {
			err = errors.Join(lost, ignoreCanceled(err))
		}
		return err
	}
	end := OutcomeOf(err)
	if end == Interrupted && !errors.As(err, new(*Error)) {
		err = endWith(Interrupted, "interrupted: this process or another was told to end")
	}
	switch {
	case !h.group.Leads():
		if err != nil && end != Interrupted {
			h.group.Fail(err)
		}
	case end == Failed || end == Misused:
		h.group.Fail(err)
	default:
		h.group.End(int(end))
	}
	return err
}

// ignoreCanceled drops an error that only says that the work was ended.
func ignoreCanceled(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// agreeWithHosts compares the job on all processes.
func agreeWithHosts(p *Process, opened *Opened) error {
	d := opened.description
	group := p.Hosts.joined()
	if group == nil {
		return nil
	}
	facts := []lockstep.Fact{
		{Name: "output version", Value: fmt.Sprint(d.OutputVersion)}, {Name: "the model's fingerprint", Value: d.Model},
		{Name: "shard", Value: shardText(p.Shard)},
	}
	arithmetic, err := opened.arithmetic()
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
	return group.Agree("the job", facts)
}

// lead tells the other processes what the job settled on, where it was begun before.
func lead(saved *savedJob) error {
	group := saved.process.Hosts.joined()
	if group == nil {
		return nil
	}
	var was jobstate.Settled
	if job := saved.state.Job(); job != nil {
		was = job.Settled
	}
	text, err := json.Marshal(was)
	if err == nil {
		_, err = group.Share(text)
	}
	return err
}

// follow does with the model what process 0 does, and writes nothing.
func follow(ctx context.Context, p *Process, j *Job) (*Report, error) {
	err := followOn(ctx, p, j)
	switch {
	case err != nil && err != io.EOF: // process 0 may have found that nothing is to be done
		return nil, err
	case p.Hosts.joined().Status() == int(Interrupted):
		return nil, endWith(Interrupted, "interrupted, with process 0")
	}
	return &Report{Followed: true}, nil
}

func followOn(ctx context.Context, p *Process, j *Job) error {
	text, err := p.Hosts.joined().Share(nil)
	if err != nil {
		return err
	}
	var was jobstate.Settled
	if err := json.Unmarshal(text, &was); err != nil {
		return fmt.Errorf("what process 0 says of the job: %w", err)
	}
	if j, err = j.settledAs(p, was, nil); err != nil {
		return err
	}
	s, err := p.Models.Open(ctx, j, p)
	if err != nil {
		return err
	}
	defer s.Release()
	// Process 0 has the figures. This one is healthy for as long as it hears from the others.
	p.Observer.started(s.Plan(), 0, 0)
	p.Observer.Run.Waiting()
	engines := s.engines()
	if len(engines) != 1 {
		return errors.New("this engine follows no other")
	}
	return engines[0].Follow(ctx)
}
