package prepare

import (
	"cmp"
	"context"
	"errors"
	"strings"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
)

// checkParameters refuses parameters of the job that no row could be generated with, before the engine is opened. The
// error is of outcome [Misused].
func checkParameters(ctx context.Context, p *process.Process, j *spec.Job) error {
	if !dependOnModel(&j.Sampling) {
		return nil
	}
	s, err := p.Models.OpenSession(ctx, j, p.ForText())
	if err != nil {
		return err
	}
	defer s.Release()
	set := j.Sampling
	if err := renders(s, &set); err != nil {
		return outcome.Errorf(outcome.Misused, "%w", ofField(&set, err))
	}
	if set.Tools == "" || s.Render == nil { // then rows choose the call that they want
		set.ToolChoice = "auto"
	}
	if s.Sampler == nil {
		s.Sampler = process.NoEngine(engine.Plan{MaxModelLen: cmp.Or(j.Engine.MaxModelLen, s.Config.MaxPositions)})
	}
	row := &promptset.Row{Kind: promptset.KindMessages}
	builder := process.NewBuilder(j, s)
	prompt, err := builder.Truncated(row, []int32{0})
	if err != nil {
		return outcome.Errorf(outcome.Misused, "%w", ofField(&set, err))
	}
	r, err := builder.NewRequest(row, &set, prompt)
	if err == nil && s.Check != nil {
		r.MaxTokens = min(r.MaxTokens, 1) // the room that rows leave is reported with the rows
		err = s.Check(r)
	}
	if err != nil {
		return outcome.Errorf(outcome.Misused, "%w", ofField(&set, err))
	}
	return nil
}

// dependOnModel reports whether it depends on the model, its tokens or its chat template if a row can be generated with
// these parameters.
func dependOnModel(set *parameter.Set) bool {
	return len(set.StopTokenIDs) > 0 || len(set.LogitBias) > 0 || set.AllowedTokenIDs != nil || len(set.BadWords) > 0 ||
		set.StructuredOutputs != (parameter.Structure{}) || set.MaxThinkingTokens >= 0 || set.DRYMultiplier > 0 ||
		set.TruncatePromptTokens == -1 || set.NoRepeatNgramSize > 0 || givesVariables(set)
}

// givesVariables reports whether parameters give the chat template variables.
func givesVariables(set *parameter.Set) bool {
	return set.Tools != "" || set.Documents != "" || set.ChatTemplateKwargs != ""
}

// renders returns why the chat template takes no variables such as the ones in set, for any messages.
func renders(s *process.Session, set *parameter.Set) error {
	if s.Render == nil || !givesVariables(set) {
		return nil
	}
	message := []promptset.Message{{Role: "user", Content: "?"}}
	_, err := s.Render(message, set)
	without := *set
	without.Tools, without.Documents, without.ChatTemplateKwargs = "", "", ""
	if _, other := s.Render(message, &without); err == nil || other != nil { // the message is at fault
		return nil
	}
	return err
}

// ofField words an error about a row's parameter as one about the field of the job.
func ofField(set *parameter.Set, err error) error {
	var problem interface { // an error that begins with the name of the parameter, or an element of it
		error
		Of() string
		Problem() string
	}
	var about interface {
		error
		Parameter() string
	}
	name := ""
	if errors.As(err, &problem) {
		name, _, _ = strings.Cut(problem.Of(), "[")
		err = problem
	}
	if errors.As(err, &about) {
		name, err = about.Parameter(), about
	}
	if inner := errors.Unwrap(err); errors.Is(err, engine.ErrInvalidRequest) && inner != nil {
		err = inner
	}
	own := parameter.Sink(name)
	switch {
	case own == nil || own.Flag == "":
		return err
	case own.Type() == parameter.Structured:
		return spec.Invalid(spec.StructureField(set.StructuredOutputs.Kind), "can't be followed: %w", err)
	case problem != nil && problem.Of() == name && errors.Unwrap(problem) != nil:
		return spec.Invalid(own.Flag, "%w", errors.Unwrap(problem))
	case problem != nil && problem.Of() == name:
		return spec.Invalid(own.Flag, "%s", problem.Problem())
	}
	return setting.Errorf("%s: %w", setting.Name(own.Flag), err)
}
