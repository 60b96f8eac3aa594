package distribute

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/prepare"
	"github.com/quire/quire/batch/queue"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/data/tally"
	"github.com/quire/quire/models"
)

// queuedJob is what the queue hands to the workers of a job. It contains nothing that belongs to one process.
type queuedJob struct {
	// Dir is the folder that relative names start in.
	Dir string `json:"dir"`
	// Spec is the job without its inputs, which the description names. URLs have no parameters.
	Spec        spec.Spec             `json:"spec"`
	Description *jobstate.Description `json:"description"`
	// Pinned are the names by which workers open the inputs: the names in the description, except that datasets of the
	// hub have the commits that were submitted. Nil has no such names.
	Pinned []string `json:"pinned,omitempty"`
}

// errOtherVersion reports that a job was put into the queue by a version whose settings this one does not know.
var errOtherVersion = errors.New("another version of the program submitted it: submit it again with this one, " +
	"or take workers of that one")

// parseQueued reads what submit has written.
func parseQueued(config []byte) (*queuedJob, error) {
	var c queuedJob
	d := json.NewDecoder(bytes.NewReader(config))
	d.DisallowUnknownFields()
	d.UseNumber() // seeds need all 64 bits
	if err := d.Decode(&c); err != nil {
		return nil, fmt.Errorf("%w (%w)", errOtherVersion, err)
	}
	if c.Description == nil {
		return nil, errors.New("the job has no description")
	}
	return &c, nil
}

// fullSpec returns the spec with its inputs.
func (c *queuedJob) fullSpec() spec.Spec {
	s := c.Spec
	if s.Inputs = c.Pinned; len(c.Pinned) > 0 {
		return s
	}
	for _, in := range c.Description.Inputs {
		s.Inputs = append(s.Inputs, in.Name)
	}
	return s
}

// pin takes the commits that the inputs are read of.
func (c *queuedJob) pin(ctx context.Context) error {
	found := false
	names := make([]string, len(c.Description.Inputs))
	for i, in := range c.Description.Inputs {
		var err error
		if names[i], err = storage.Pinned(ctx, in.Name); err != nil {
			return err
		}
		found = found || names[i] != in.Name
	}
	if found {
		c.Pinned = names
	}
	return nil
}

// call has an opened job name its inputs as the one that was submitted: these are the same.
func (c *queuedJob) call(opened *prepare.Opened) {
	if len(c.Pinned) > 0 {
		opened.NameInputs(c.Description)
		opened.Description.Inputs = c.Description.Inputs
	}
}

// local reports whether names of the job are relative to its folder.
func (c *queuedJob) local() bool {
	s := c.fullSpec()
	names := append([]string{s.Output}, s.Inputs...)
	for _, model := range append(s.Adapters.Places(), s.Model, s.Engine.DraftModel, s.Accept.Score) {
		if model != "" && !models.OnHub(model) {
			names = append(names, model)
		}
	}
	if s.ChatTemplate != spec.TemplateOfModel && s.ChatTemplate != spec.TemplateNone {
		names = append(names, s.ChatTemplate)
	}
	if s.PrefixFile != "" {
		names = append(names, s.PrefixFile)
	}
	return slices.ContainsFunc(names, func(name string) bool {
		return !storage.IsRemote(name) && !filepath.IsAbs(name)
	})
}

// outputPlace is one name for an output, however it was written.
func outputPlace(output string) (string, error) {
	if storage.IsRemote(output) {
		return strings.TrimRight(storage.Redact(output), "/"), nil
	}
	return filepath.Abs(output)
}

// jobName names the job: the same one for the same description and output.
func jobName(output string, d *jobstate.Description) (string, error) {
	name := storage.Redact(output)
	if !storage.IsRemote(output) {
		var err error
		if name, err = outputPlace(output); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(d)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(append(text, name...))
	return hex.EncodeToString(sum[:6]), nil
}

// missingUnits returns the parts that are missing.
func missingUnits(o *prepare.Opened, missing []int) []queue.Unit {
	sources := o.Reader.Sources()
	units := make([]queue.Unit, len(missing))
	index, before := 0, int64(0)
	for i, part := range missing {
		from, to := o.Parts.Range(part)
		for index+1 < len(sources) && from >= before+sources[index].Rows {
			before += sources[index].Rows
			index++
		}
		units[i] = queue.Unit{Number: part, From: from, To: to, File: sources[index].Name}
	}
	return units
}

// UnitOptions set how a queue treats the units of a job.
type UnitOptions struct {
	// AckWait is how long a worker may be silent about a unit until another one gets it; 0 takes the queue's default.
	AckWait time.Duration
	// MaxTries parks a unit after so many failed attempts without progress.
	MaxTries int
}

// queueJob makes the queue's job. The description must be without what an engine settled.
func queueJob(ctx context.Context, o *prepare.Opened, units UnitOptions, before tally.Counts) (queue.Job, error) {
	j := o.Job
	id, err := jobName(j.Output, o.Description)
	if err != nil {
		return queue.Job{}, err
	}
	place, err := outputPlace(j.Output)
	if err != nil {
		return queue.Job{}, err
	}
	c := queuedJob{Spec: j.Spec, Description: o.Description}
	if c.Dir, err = os.Getwd(); err != nil {
		return queue.Job{}, err
	}
	if err := c.pin(ctx); err != nil {
		return queue.Job{}, err
	}
	config, err := json.Marshal(c)
	return queue.Job{
		ID: id, Name: storage.Redact(j.Output), Output: place, Config: config, Rows: o.Parts.Rows, Before: before,
		AckWait: units.AckWait, MaxTries: units.MaxTries,
	}, err
}
