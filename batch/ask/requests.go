package ask

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/batch/lineage"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/openai"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/admit"
	"github.com/quire/quire/internal/plural"
)

// Requests returns the requests of a row, one for each of its prompts, or what is wrong with the row. It continues
// another one if that is given.
func (b *Builder) Requests(row *promptset.Row, from *lineage.Parent) (all []*engine.Request, err error) {
	if row.Err != nil {
		return nil, row.Err
	}
	for i, one := range row.Each() {
		r, err := b.request(one, from)
		if err != nil && i > 0 {
			err = fmt.Errorf("prompt[%d]: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		r.FirstGeneration += i * r.N
		all = append(all, r)
	}
	return all, nil
}

// request returns the request of a row with one prompt.
func (b *Builder) request(row *promptset.Row, from *lineage.Parent) (*engine.Request, error) {
	model := requests.Of(row).Model()
	if name := model; name != "" && len(b.Settings.ServedModels) > 0 &&
		!slices.Contains(b.Settings.ServedModels, name) && !b.isAdapter(name) {
		err := setting.Errorf("there is no model %q; `served-model-name` is %s", name,
			strings.Join(b.Settings.ServedModels, ", "))
		return nil, &paramError{err, "model", openai.CodeNoModel}
	}
	set := b.Parameters(row)
	if set.Adapter == "" && b.isAdapter(model) {
		set.Adapter = model
	}
	if err := checkMessages(row); err != nil {
		return nil, err
	}
	if b.Settings.Embedding != nil {
		return b.embed(row)
	}
	tokens, err := b.Prompt(row, from)
	if err != nil {
		return nil, err
	}
	b.Common.Add(tokens)
	return b.NewRequest(row, &set, tokens)
}

// embed returns the request of a row with one prompt for its vector or its scores.
func (b *Builder) embed(row *promptset.Row) (*engine.Request, error) {
	set := b.Parameters(row)
	if err := set.Check(row.ParameterName); err != nil {
		return nil, err
	}
	if n := requests.Of(row).VectorSize(); n > 0 && b.Settings.Embedding.Check != nil {
		if err := b.Settings.Embedding.Check(n); err != nil {
			return nil, &paramError{fmt.Errorf("dimensions %w", err), "dimensions", openai.CodeInvalidValue}
		}
	}
	most := set.TruncatePromptTokens
	if most < 0 {
		most = b.MaxModelLen()
	}
	switch {
	case b.Text.Spans != nil && row.Seconds != nil:
		return nil, errors.New("text_pair makes a pair of texts, and the model scores tokens: leave it out")
	case b.Text.Spans != nil && row.Kind != promptset.KindText:
		return nil, fmt.Errorf("%s has no characters to label: give the prompt as text", row.Kind)
	case row.Seconds != nil:
		return b.pairs(row, most)
	}
	tokens, err := b.EncodeRow(row)
	if err != nil {
		return nil, err
	}
	late, ends := b.Text.Late, b.Text.Ends
	if row.Kind != promptset.KindText { // the others have the tokens that they give
		late, ends = nil, 0
	}
	whole, longest := len(tokens), late.room(late.longest(most))
	if most == 0 && late != nil && whole > longest && longest > 0 {
		return nil, setting.Errorf("%w: %s, and the model's files bound a text to %d", engine.ErrPromptTooLong,
			plural.Count(whole, "token"), longest)
	}
	if longest > 0 && whole > longest {
		tokens = Beginning(tokens, longest, ends)
	}
	r := &engine.Request{ID: row.ID, Tokens: tokens, N: 1, Truncated: len(tokens) < whole}
	late.complete(r)
	return r, nil
}

// pairs returns the request of a row whose prompt makes pairs with other texts.
func (b *Builder) pairs(row *promptset.Row, most int) (*engine.Request, error) {
	if row.Kind != promptset.KindText {
		return nil, fmt.Errorf("%s makes no pairs of texts: give the prompt as text", row.Kind)
	}
	r := &engine.Request{ID: row.ID, N: 1}
	for i, second := range row.Seconds {
		if !utf8.ValidString(row.Prompt) || !utf8.ValidString(second) {
			return nil, errors.New("a text of a pair is not UTF-8")
		}
		tokens, kind, truncated, err := b.Text.EncodePair(row.Prompt, second, most)
		if err != nil && len(row.Seconds) > 1 {
			err = fmt.Errorf("documents[%d]: %w", i, err)
		}
		if err != nil {
			return nil, err
		}
		r.Truncated = r.Truncated || truncated
		r.Sequences = append(r.Sequences, admit.Sequence{Tokens: tokens, Second: kind})
	}
	if len(r.Sequences) == 1 {
		r.Tokens = r.Sequences[0].Tokens
	}
	return r, nil
}

// NewRequest returns the request of a row with the parameters in set, whose prompt is tokens.
func (b *Builder) NewRequest(row *promptset.Row, set *parameter.Set, tokens []int32) (*engine.Request, error) {
	if over := row.Overrides; over.Sampled != nil && set.Temperature == 0 {
		return nil, &paramError{fmt.Errorf(
			"%s is true and the job's temperature is 0, which contradict each other; give the row a temperature",
			*over.Sampled), *over.Sampled, openai.CodeInvalidValue}
	}
	if err := set.Check(row.ParameterName); err != nil {
		return nil, err
	}
	if problem := row.CheckBeside(set); problem != nil {
		return nil, &paramError{errors.New(problem.What), problem.Param, problem.Code}
	}
	badWords, err := b.badWords(set.BadWords)
	if err != nil {
		return nil, err
	}
	thinking, err := b.thinking(row, tokens, set)
	if err != nil {
		return nil, err
	}
	structure, err := b.structure(row, tokens, set)
	if err != nil {
		return nil, err
	}
	outputs, err := b.outputs(row, set, structure)
	if err != nil {
		return nil, err
	}
	most := set.MaxTokens
	if !outputs.Text {
		most = 0
	}
	choices, err := b.choices(row, outputs.Choice)
	if err != nil {
		return nil, err
	}
	return &engine.Request{
		ID: row.ID, Tokens: tokens, FirstGeneration: set.Generation, N: set.N, MaxTokens: most,
		Sampling: set.Sampling, Stop: set.Stop, IgnoreEOS: set.IgnoreEOS, IncludeStop: set.IncludeStopStrInOutput,
		StopTokens: tokensOf(set.StopTokenIDs), LogitBias: set.LogitBias,
		KeepSpecialTokens: !set.SkipSpecialTokens, Thinking: thinking,
		Structure: structure, AllowedTokens: tokensOf(set.AllowedTokenIDs), BadWords: badWords,
		DRYSequenceBreakers: set.DRYSequenceBreakers, Adapter: set.Adapter,
		TopLogprobs: set.TopLogprobs, ScorePrompt: set.PromptLogprobs != parameter.NoPromptLogprobs,
		PromptTopLogprobs: max(0, set.PromptLogprobs), Choices: choices,
		State: outputs.Embedding, Leaf: b.Leaves,
	}, nil
}

// Prompt returns the whole prompt of a row as token ids.
func (b *Builder) Prompt(row *promptset.Row, from *lineage.Parent) (tokens []int32, err error) {
	if from == nil {
		tokens, err = b.EncodeRow(row)
	} else if tokens, err = from.End(row.Parent); err == nil {
		last := int32(-1)
		if len(tokens) > 0 {
			last = tokens[len(tokens)-1]
		}
		var own []int32
		own, err = b.following(row, last)
		tokens = append(tokens, own...)
	}
	if err != nil {
		return nil, err
	}
	return b.Truncated(row, tokens)
}

// Truncated returns the end of a prompt that truncate_prompt_tokens keeps.
func (b *Builder) Truncated(row *promptset.Row, tokens []int32) ([]int32, error) {
	set := b.Parameters(row)
	most := set.TruncatePromptTokens
	switch {
	case most == 0 || most < -1: // the check of parameters reports it
		return tokens, nil
	case most == -1:
		length := b.MaxModelLen()
		if most = length - set.MaxTokens; most < 1 {
			return nil, &parameter.FormError{Field: row.ParameterName("truncate_prompt_tokens"),
				Err: fmt.Errorf("is -1, and max_tokens, which is %d, leaves no room for a prompt within the model's "+
					"%d tokens: give fewer max_tokens", set.MaxTokens, length)}
		}
	}
	return tokens[max(0, len(tokens)-most):], nil
}

// EncodeRow returns the prompt of a row of its own as token ids.
func (b *Builder) EncodeRow(row *promptset.Row) ([]int32, error) {
	switch row.Kind {
	case promptset.KindTokens:
		for i, id := range row.TokenIDs {
			if id < 0 || int(id) >= b.Text.Vocab {
				return nil, fmt.Errorf("prompt_token_ids[%d] is %d, but the model's vocabulary is 0 to %d", i, id,
					b.Text.Vocab-1)
			}
		}
		return row.TokenIDs, nil
	case promptset.KindMessages:
		text, err := b.render(row, row.Messages)
		if err != nil {
			return nil, err
		}
		return b.Text.Encode(text, false) // the template writes the special tokens itself
	case promptset.KindText:
		return b.text(row.Prompt, true)
	}
	return nil, errors.New("the row has no prompt, messages or prompt_token_ids")
}

// text returns the tokens of text, after the tokens that begin a text if special is true.
func (b *Builder) text(text string, special bool) ([]int32, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("prompt is not UTF-8")
	}
	if b.Settings.Embedding != nil && special {
		text = b.Settings.Embedding.text(text)
	}
	return b.Text.Encode(text, special)
}

// render writes messages as one text, by the parameters of a row.
func (b *Builder) render(row *promptset.Row, messages []promptset.Message) (string, error) {
	if b.Text.Render == nil {
		return "", b.Text.NoTemplate
	}
	for i, m := range messages {
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Role) || !utf8.ValidString(m.Object) {
			return "", fmt.Errorf("messages[%d] is not UTF-8", i)
		}
	}
	set := b.Parameters(row)
	if over := &row.Overrides; set.ContinueFinalMessage && set.AddGenerationPrompt &&
		over.Has(parameter.Sink("add_generation_prompt")) {
		return "", errors.New("add_generation_prompt and continue_final_message are both true, which contradict each " +
			"other; keep one")
	}
	text, err := b.Text.Render(messages, &set)
	if err != nil {
		return "", fmt.Errorf("messages: %w", err)
	}
	return text, nil
}

// forMessages are the parameters that only rows with messages may give.
var forMessages = []string{"tools", "chat_template_kwargs", "reasoning_effort", "continue_final_message"}

// checkMessages refuses parameters of a row that only its messages could follow.
func checkMessages(row *promptset.Row) error {
	if row.Kind == promptset.KindMessages {
		return nil
	}
	for _, name := range forMessages {
		if row.Overrides.Has(parameter.Sink(name)) {
			return fmt.Errorf("%s is for the chat template, and the row has no messages; leave it out or give messages",
				row.ParameterName(name))
		}
	}
	return nil
}

// badWords returns the sequences of tokens that spell texts, as in vLLM: each text without its leading spaces, and the
// text after a space if that has the same number of tokens and a different first token.
func (b *Builder) badWords(texts []string) (words [][]int32, err error) {
	for _, text := range texts {
		text = strings.TrimLeft(text, " \t\n\r")
		plain, err := b.Text.Encode(text, false)
		if err != nil {
			return nil, fmt.Errorf("bad_words: %w", err)
		}
		if len(plain) == 0 {
			return nil, fmt.Errorf("bad_words has a text without tokens: give texts with more than spaces")
		}
		spaced, err := b.Text.Encode(" "+text, false)
		if err != nil {
			return nil, fmt.Errorf("bad_words: %w", err)
		}
		words = append(words, plain)
		if len(spaced) == len(plain) && spaced[0] != plain[0] {
			words = append(words, spaced)
		}
	}
	return words, nil
}

// tokensOf are token ids as the engine takes them, nil for none.
func tokensOf(ids []int) (tokens []int32) {
	for _, id := range ids {
		tokens = append(tokens, int32(id))
	}
	return tokens
}
