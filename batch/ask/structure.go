package ask

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
)

// structure returns the structure that the text of a row's completions must have: the row's own, or tool calls if
// tool_choice requires them.
func (b *Builder) structure(row *promptset.Row, prompt []int32, set *parameter.Set) (parameter.Structure,
	error) {
	tool, wanted := set.WantsCall()
	mayCall := set.ToolChoice == "auto" && set.Tools != "" && row.Kind == promptset.KindMessages
	free := b.Settings.CallsTools && set.StructuredOutputs == (parameter.Structure{})
	if mayCall && (free || !set.ParallelToolCalls) {
		return b.strict(row, set)
	}
	if !wanted || row.Kind != promptset.KindMessages {
		structure := set.StructuredOutputs
		if structure.Kind == parameter.SchemaStructure && set.AdditionalProperties {
			structure.AdditionalProperties = true
		}
		return structure, nil
	}
	refuse := func(format string, args ...any) (parameter.Structure, error) {
		return parameter.Structure{}, &parameter.FormError{Field: row.ParameterName("tool_choice"),
			Err: fmt.Errorf("is %s, and "+format, append([]any{set.ToolChoice}, args...)...)}
	}
	s := b.Text
	forms, err := reply.New(b.Settings.ReasoningParser, b.Settings.ToolCallParser, s.Template)
	switch {
	case err != nil:
		return parameter.Structure{}, err
	case set.Tools == "":
		return refuse("there are no tools: give tools")
	case set.StructuredOutputs != (parameter.Structure{}):
		return refuse("there is a structure, too: keep one")
	case s.Thinks(&forms, row, prompt, set):
		return refuse("the prompt ends within reasoning, where no call may stand: turn reasoning off by " +
			"chat_template_kwargs")
	}
	form, err := forms.Required(reply.Tools(set.Tools), tool, set.ParallelToolCalls)
	if err != nil {
		return refuse("%w", err)
	}
	return parameter.Structure{Kind: parameter.CallStructure, Text: form,
		AdditionalProperties: set.AdditionalProperties}, nil
}

// outputs is what a row has: what it asks for, of the columns of the job, or all of them. The choice is then the one
// that its text follows.
func (b *Builder) outputs(row *promptset.Row, set *parameter.Set, structure parameter.Structure) (parameter.Outputs,
	error) {
	if set.Outputs == "" {
		return parameter.Outputs{Text: true, Embedding: b.Settings.Embeds, Choice: structure}, nil
	}
	refuse := func(format string, args ...any) (parameter.Outputs, error) {
		return parameter.Outputs{}, &parameter.FormError{Field: row.ParameterName("outputs"),
			Err: setting.Errorf(format, args...)}
	}
	o, err := parameter.ParseOutputs(set.Outputs)
	switch {
	case err != nil:
		return refuse("%w", err)
	case o.Embedding && !b.Settings.Embeds:
		return refuse("has an embedding, and the job has no column %s: ask for it by `columns`",
			completion.VectorColumn)
	case o.Choice.Kind != "" && !b.Settings.ScoresChoices:
		return refuse("has a choice, and the job has no column %s: ask for it by `columns`", completion.ChoicesColumn)
	}
	return o, nil
}

// choices returns the texts of a choice as the sequences of tokens that give their probabilities, for a job that wants
// these; nil if the row has no choice. A text is scored by the tokens that the tokenizer makes of it. If another text
// begins with it, what follows is open after it: then it is scored with each token that may end it.
func (b *Builder) choices(row *promptset.Row, s parameter.Structure) (choices []engine.Choice, err error) {
	if !b.Settings.ScoresChoices || s.Kind != parameter.ChoiceStructure {
		return nil, nil
	}
	name := "structured_outputs"
	if row.Overrides.Has(parameter.Sink("outputs")) {
		name = "outputs"
	}
	refuse := func(format string, args ...any) ([]engine.Choice, error) {
		return nil, &parameter.FormError{Field: row.ParameterName(name),
			Err: fmt.Errorf(format, args...)}
	}
	texts := s.Choices()
	for i, text := range texts {
		if slices.Contains(texts[:i], text) {
			return refuse("has the choice %q twice, and its probability would count twice: keep one", text)
		}
		tokens, err := b.Text.Encode(text, false)
		if err != nil {
			return refuse("has the choice %q: %w", text, err)
		}
		if b.Text.Spell != nil && b.Text.Spell(tokens) != text {
			return refuse("has the choice %q, and the tokenizer reads it as %q, so that its probability is not known: "+
				"write it so", text, b.Text.Spell(tokens))
		}
		choice := engine.Choice{tokens}
		if slices.ContainsFunc(texts, func(t string) bool { return t != text && strings.HasPrefix(t, text) }) {
			choice = nil
			for _, end := range b.Text.EOS {
				choice = append(choice, append(slices.Clip(tokens), end))
			}
		}
		choices = append(choices, choice)
	}
	return choices, nil
}

// strict returns the structure of a completion that may call tools, if some of them are strict or if it may make only
// one call.
func (b *Builder) strict(row *promptset.Row, set *parameter.Set) (none parameter.Structure, err error) {
	forms, err := reply.New(b.Settings.ReasoningParser, b.Settings.ToolCallParser, b.Text.Template)
	if err != nil {
		return none, err
	}
	form, wanted, err := forms.Strict(reply.Tools(set.Tools), set.ParallelToolCalls)
	switch {
	case err != nil:
	case wanted && b.isSpecial(forms.CallMarks()):
		err = errors.New("calls begin with a special token, which no text has")
	case set.ParallelToolCalls:
	case !wanted:
		err = errors.New("the chat template has no form of tool calls that Quire knows")
	case set.StructuredOutputs != none:
		err = errors.New("there is a structure, too")
	}
	switch {
	case err != nil && set.ParallelToolCalls:
		return none, &parameter.FormError{Field: row.ParameterName("tools"),
			Err: fmt.Errorf("has strict tools, and %w: leave strict out", err)}
	case err != nil && row.Overrides.Has(parameter.Sink(oneCall)):
		return none, &paramError{fmt.Errorf("parameter %s is not supported as false (%w); leave it out, give true, "+
			"which has no effect, or rename the column if it is not meant for the sampler", oneCall, err), oneCall,
			openai.CodeNotThisValue}
	case err != nil: // a later turn, whose first one is a single required call
		several := *set
		several.ParallelToolCalls = true
		return b.structure(row, nil, &several)
	case !wanted:
		return none, nil
	}
	return parameter.Structure{Kind: parameter.CallStructure, Text: form,
		AdditionalProperties: set.AdditionalProperties}, nil
}

// oneCall is the parameter that, if it is false, allows at most one call.
const oneCall = "parallel_tool_calls"

// isSpecial reports whether one of these marks is a special token.
func (b *Builder) isSpecial(marks []string) bool {
	return slices.ContainsFunc(marks, func(mark string) bool {
		if b.Text.Token == nil || b.Text.Mark == nil {
			return false
		}
		id, ok := b.Text.Token(mark)
		// Twice, since a last token that ended a completion is written back even if it is not special.
		return ok && b.Text.Mark([]int32{id, id}, "", []string{mark}) == mark+mark
	})
}
