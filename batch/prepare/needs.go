package prepare

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/quire/quire/batch/coprocess"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/visible"
)

// checkTokenizer refuses rows of text for a model without a tokenizer, before it is loaded: each row would be an error.
func checkTokenizer(ctx context.Context, j *spec.Job, model process.Identity, r *promptset.Reader) error {
	if model.Tokenizer {
		return nil
	}
	row, err := r.FirstText(ctx, j.Parts(r.NumRows()).Rows)
	if err != nil || row == nil {
		return err
	}
	const remedy = "take a folder with a tokenizer.json, or rows with prompt_token_ids"
	return row.Error(fmt.Sprintf("the column %s has text, and the model %s has no tokenizer: %s", row.Kind, j.Model,
		remedy))
}

// CheckNeeds looks for what a job needs on this machine, before its output folder is made and the model is fetched: the
// backend's device and plugin, commands, and outputs that completions are copied from. A job that was started may be
// finished and need none of them: then a fault is reported when the model is opened.
func CheckNeeds(ctx context.Context, p *process.Process, j *spec.Job) error {
	if existing, err := jobstate.ReadOutput(ctx, j.Output); err != nil || existing != nil && !p.New {
		return nil // a fault of the output is reported when it is opened
	}
	if err := p.Models.Lacks(j.Engine.Backend); err != nil || p.Hosts.Follows() { // process 0 does the rest
		return err
	}
	return spec.FirstError(
		func() error { return CheckCommands(j) },
		func() error { return reuse.CheckPlaces(ctx, p.Reuse) })
}

// CheckCommands looks for the commands that judge completions or answer their calls.
func CheckCommands(j *spec.Job) error {
	if err := coprocess.Check(j.Accept.Command); err != nil {
		return outcome.Errorf(outcome.Misused, "`accept-command` %w", err)
	}
	if err := coprocess.Check(j.Tools.Command); err != nil {
		return outcome.Errorf(outcome.Misused, "`tool-command` %w", err)
	}
	registry, err := tools.ParseRegistry(j.Tools.Registry)
	if err != nil {
		return outcome.Errorf(outcome.Misused, "`tools-from` %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(registry)) {
		if err := coprocess.Check(registry[name].Command); err != nil {
			return outcome.Errorf(outcome.Misused, "`tools-from` has the tool %s: its command %w", visible.Quoted(name),
				err)
		}
	}
	return nil
}

// cutAsExisting is the job cut into parts as the one in the output folder, if there is one and no size is given. A
// fault of that job is reported when it is opened.
func cutAsExisting(ctx context.Context, p *process.Process, j *spec.Job) *spec.Job {
	if j.PartRows > 0 || j.CutRows > 0 || p.New {
		return j
	}
	existing, err := jobstate.ReadOutput(ctx, j.Output)
	if work, _ := p.WorkFolder(j); !storage.IsRemote(j.Output) && work != "" {
		existing, err = jobstate.Read(p.FS, work)
	}
	if existing == nil || err != nil {
		return j
	}
	if parts, _, ok := spec.PartsOf(existing); ok {
		next := *j
		next.CutRows = parts.PartRows
		return &next
	}
	return j
}

// checkTemplate refuses prompts as messages for a model without a chat template: each row would be an error.
func checkTemplate(s *spec.Spec, model process.Identity) error {
	if s.PromptAs != spec.PromptUser || s.HasTemplate(model.Template) {
		return nil
	}
	return outcome.Errorf(outcome.Misused,
		"`prompt-as` is user, which takes a chat template, and the model %s has none: give "+
			"`chat-template` FILE, or `prompt-as` raw", s.Model)
}
