package prepare

import (
	"context"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/models/scoring"
)

// Reward returns the job of the model whose scores judge the completions of a job, the process that does it, and what
// its files say.
func Reward(ctx context.Context, p *process.Process, j *spec.Job) (*spec.Job, *process.Process, process.Identity,
	error) {
	s := spec.Default()
	s.Model, s.Task, s.Scoring.Function = j.Accept.Score, completion.Classify, string(scoring.None)
	s.Inputs, s.Output, s.Format = []string{spec.Standard}, spec.Standard, promptset.FormatJSONL
	s.Engine.Backend, s.Engine.Kernels = j.Engine.Backend, j.Engine.Kernels
	s.Given = []string{"truncate_prompt_tokens"} // what is too long is an error, not scored in part
	own := *p
	own.ProfileDevice, own.DumpTables, own.Opened, own.LoadPrefixes = nil, nil, nil, nil
	own.Hosts = nil // of several, process 0 has the model to itself
	job, err := process.Describe(s, process.Options{})
	if err != nil {
		return nil, nil, process.Identity{}, err
	}
	model, err := p.Models.Identify(ctx, job, &own)
	if err != nil {
		return nil, nil, model, err
	}
	if c := model.Classifier; c == nil || len(c.Labels) != 1 || c.Answers > 0 {
		return nil, nil, model, outcome.Errorf(outcome.Misused, "`accept-score` is %s, and the model has no head with "+
			"one label, whose number is a score: give a reward model", storage.Redact(s.Model))
	}
	job, err = WithModel(ctx, job, &own, model)
	return job, &own, model, err
}
