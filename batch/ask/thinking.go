package ask

import (
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/chat/reply"
)

// thinking is the bound of a row's reasoning, nil if it has none.
func (b *Builder) thinking(row *promptset.Row, prompt []int32, set *parameter.Set) (*engine.Thought, error) {
	if set.MaxThinkingTokens < 0 {
		return nil, nil
	}
	refuse := func(format string, args ...any) error {
		return &parameter.FormError{Field: row.ParameterName("max_thinking_tokens"),
			Err: setting.Errorf("is %d, and "+format, append([]any{set.MaxThinkingTokens}, args...)...)}
	}
	s := b.Text
	forms, err := reply.New(b.Settings.ReasoningParser, reply.None, s.Template)
	switch {
	case err != nil:
		return nil, err
	case !forms.HasReasoning() && b.Settings.ReasoningParser == reply.None:
		return nil, refuse("`reasoning-parser` is none: name the form of the model's reasoning there")
	case !forms.HasReasoning():
		return nil, refuse("the chat template has no form of reasoning that Quire knows: leave it out, or name the " +
			"form by `reasoning-parser`")
	}
	start, end, ok := forms.ReasoningMarks()
	if !ok {
		return nil, refuse("the model's form of reasoning has no mark that ends it wherever it stands: leave it out")
	}
	t := engine.Thought{Most: set.MaxThinkingTokens, Open: s.Thinks(&forms, row, prompt, set)}
	for _, mark := range []struct {
		text  string
		token *int32
	}{{start, &t.Start}, {end, &t.End}} {
		id, ok := int32(0), false
		if s.Token != nil {
			id, ok = s.Token(mark.text)
		}
		if !ok {
			return nil, refuse("the tokenizer has no token %s, which it needs: leave it out", mark.text)
		}
		*mark.token = id
	}
	return &t, nil
}
