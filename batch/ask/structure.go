package ask

import (
	"fmt"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/text/chat/reply"
)

// structure returns the structure that the text of a row's completions must have: the row's own, or a tool call if
// tool_choice requires one.
func (b *Builder) structure(row *promptset.Row, prompt []int32, set *parameter.Set) (parameter.Structure,
	error) {
	tool, wanted := set.WantsCall()
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
	form, err := forms.Required(reply.Tools(set.Tools), tool)
	if err != nil {
		return refuse("%w", err)
	}
	return parameter.Structure{Kind: parameter.CallStructure, Text: form,
		AdditionalProperties: set.AdditionalProperties}, nil
}
