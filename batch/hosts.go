package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/quire/quire/batch/generate"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/engine/lockstep"
)

// agreeWithHosts compares the job on all processes.
func agreeWithHosts(p *process.Process, opened *prepare.Opened) error {
	d := opened.Description
	group := p.Hosts.Joined()
	if group == nil {
		return nil
	}
	facts := []lockstep.Fact{
		{Name: "output version", Value: fmt.Sprint(d.OutputVersion)}, {Name: "the model's fingerprint", Value: d.Model},
		{Name: "shard", Value: process.ShardText(p.Shard)},
	}
	arithmetic, err := opened.Arithmetic()
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

// lead sends the other processes what the job settled on, if it was started before.
func lead(saved *resume.Saved) error {
	group := saved.Process.Hosts.Joined()
	if group == nil {
		return nil
	}
	var was jobstate.Settled
	if job := saved.State.Job(); job != nil {
		was = job.Settled
	}
	was.MaxModelLen = max(was.MaxModelLen, saved.Job.Engine.MaxModelLen)
	text, err := json.Marshal(was)
	if err == nil {
		_, err = group.Share(text)
	}
	return err
}

// follow does with the model what process 0 does, and writes nothing.
func follow(ctx context.Context, p *process.Process, j *spec.Job) (*generate.Report, error) {
	err := followOn(ctx, p, j)
	switch {
	case err != nil && err != io.EOF: // process 0 may have found that nothing is to be done
		return nil, err
	case p.Hosts.Joined().Status() == int(outcome.Interrupted):
		return nil, outcome.Errorf(outcome.Interrupted, "interrupted, with process 0")
	}
	return &generate.Report{Followed: true}, nil
}

func followOn(ctx context.Context, p *process.Process, j *spec.Job) error {
	text, err := p.Hosts.Joined().Share(nil)
	if err != nil {
		return err
	}
	var was jobstate.Settled
	if err := json.Unmarshal(text, &was); err != nil {
		return fmt.Errorf("what process 0 says of the job: %w", err)
	}
	if j, err = resume.SettledAs(j, p, was, nil); err != nil {
		return err
	}
	s, err := p.Models.OpenSession(ctx, j, p)
	if err != nil {
		return err
	}
	defer s.Release()
	// Process 0 has the figures. This one is healthy for as long as it hears from the others.
	p.Observer.Started(s.Plan(), 0, 0)
	p.Observer.Run.Waiting()
	engines := s.Engines()
	if len(engines) != 1 {
		return errors.New("this engine follows no other")
	}
	return engines[0].Follow(ctx)
}
