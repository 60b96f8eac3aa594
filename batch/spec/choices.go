package spec

import (
	"slices"

	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

// ScoresChoices reports whether the output has the probabilities of the choices of rows.
func (s *Spec) ScoresChoices() bool { return slices.Contains(s.Columns, completion.ChoicesColumn) }

// checkChoices checks what may come with the probabilities of choices, and what generates nothing but them.
func (s *Spec) checkChoices() error {
	set := &s.Sampling
	structure := set.StructuredOutputs.Kind
	switch {
	case !s.ScoresChoices() && set.MaxTokens == 0 && set.PromptLogprobs == parameter.NoPromptLogprobs &&
		structure == parameter.ChoiceStructure:
		return Invalid("max-tokens", "is 0, but must be at least 1, or 0 with prompt_logprobs, or with `columns` %s",
			completion.ChoicesColumn)
	case !s.ScoresChoices():
		return nil
	case structure != "" && structure != parameter.ChoiceStructure:
		return Invalid("columns", "is %s, and the job's structure is %s: give `choice`, or leave it out",
			completion.ChoicesColumn, structure)
	case s.Watch != "":
		return Invalid("watch", "may not come with `columns` %s: the probabilities of a row are of one version of the "+
			"weights", completion.ChoicesColumn)
	case s.Tools.Used():
		return Invalid("tools-from", "and `tool-command` may not come with `columns` %s: completions that call tools "+
			"have no choice", completion.ChoicesColumn)
	}
	return nil
}

// CheckChoices refuses inputs whose rows can have no choices, if the output has their probabilities.
func (s *Spec) CheckChoices(input *promptset.Reader) error {
	gives := func(column string) bool {
		own := parameter.Sink(column)
		return own != nil && own.Type() == parameter.Structured
	}
	if !s.ScoresChoices() || s.Sampling.StructuredOutputs.Kind != "" ||
		slices.ContainsFunc(input.Schema().Parameters(), gives) {
		return nil
	}
	return outcome.Errorf(outcome.Misused, "`columns` is %s, and neither the job nor a column of its inputs gives a "+
		"choice: give `choice`, a column structured_outputs, or leave it out", completion.ChoicesColumn)
}
