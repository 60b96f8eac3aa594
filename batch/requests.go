package batch

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/parameter"
	"github.com/quire/quire/promptset"
)

// noModel begins the error of a line that names another model than those that are served.
const noModel = "there is no model"

// requestBuilder turns rows into requests: the command line's parameters, overridden by the row's own.
type requestBuilder struct {
	task    *Task
	session *Session
	common  *commonPrefix
	equal   *equalRows
}

// parameters returns what a row asks for; it is not checked.
func (b *requestBuilder) parameters(row *promptset.Row) parameter.Set {
	return row.Overrides.Over(b.task.Sampling)
}

// request returns the request of a row, which goes on from another one if that is given, or what is wrong with the row.
func (b *requestBuilder) request(row *promptset.Row, from *kin) (*engine.Request, error) {
	if row.Err != nil {
		return nil, row.Err
	}
	if name := row.RequestModel(); name != "" && len(b.task.ServedModels) > 0 &&
		!slices.Contains(b.task.ServedModels, name) {
		return nil, fmt.Errorf(noModel+" %q; --served-model-name is %s", name,
			strings.Join(b.task.ServedModels, ", "))
	}
	tokens, err := b.prompt(row, from)
	if err != nil {
		return nil, err
	}
	b.common.add(tokens)
	set := b.parameters(row)
	if over := row.Overrides; over.Sampled != nil && set.Temperature == 0 {
		return nil, fmt.Errorf(
			"%s is true and the job's temperature is 0, which contradict each other; give the row a temperature",
			*over.Sampled)
	}
	if err := set.Check(row.ParameterName); err != nil {
		return nil, err
	}
	if b.task.Format == promptset.FormatOpenAI && set.PromptLogprobs != parameter.NoPromptLogprobs {
		return nil, fmt.Errorf("%s is for the columns of a row, which answers to batch files do not have; leave it out, "+
			"or give --format parquet or jsonl", row.ParameterName("prompt_logprobs"))
	}
	badWords, err := b.badWords(set.BadWords)
	if err != nil {
		return nil, err
	}
	return &engine.Request{
		ID: row.ID, Tokens: tokens, FirstGeneration: set.Generation, N: set.N, MaxTokens: set.MaxTokens,
		Sampling: set.Sampling, Stop: set.Stop, IgnoreEOS: set.IgnoreEOS,
		Structure: set.StructuredOutputs, AllowedTokens: tokensOf(set.AllowedTokenIDs), BadWords: badWords,
		TopLogprobs: set.TopLogprobs, ScorePrompt: set.PromptLogprobs != parameter.NoPromptLogprobs,
		PromptTopLogprobs: max(0, set.PromptLogprobs),
	}, nil
}

// prompt returns the whole prompt of a row as token ids.
func (b *requestBuilder) prompt(row *promptset.Row, from *kin) ([]int32, error) {
	if from == nil {
		return b.tokens(row)
	}
	before, err := from.end(row.Parent)
	if err != nil {
		return nil, err
	}
	last := int32(-1)
	if len(before) > 0 {
		last = before[len(before)-1]
	}
	own, err := b.following(row, last)
	return append(before, own...), err
}

// tokens returns the prompt of a row of its own as token ids.
func (b *requestBuilder) tokens(row *promptset.Row) ([]int32, error) {
	switch row.Kind {
	case promptset.KindTokens:
		for i, id := range row.TokenIDs {
			if id < 0 || int(id) >= b.session.Vocab {
				return nil, fmt.Errorf("prompt_token_ids[%d] is %d, but the model's vocabulary is 0 to %d", i, id,
					b.session.Vocab-1)
			}
		}
		return row.TokenIDs, nil
	case promptset.KindMessages:
		text, err := b.render(row.Messages)
		if err != nil {
			return nil, err
		}
		return b.session.Encode(text, false) // the template writes the special tokens itself
	case promptset.KindText:
		return b.text(row.Prompt, true)
	}
	return nil, errors.New("the row has no prompt, messages or prompt_token_ids")
}

// text returns the tokens of text, with those that begin a text if special is true.
func (b *requestBuilder) text(text string, special bool) ([]int32, error) {
	if !utf8.ValidString(text) {
		return nil, errors.New("prompt is not UTF-8")
	}
	return b.session.Encode(text, special)
}

// render writes messages as one text.
func (b *requestBuilder) render(messages []promptset.Message) (string, error) {
	if b.session.Render == nil {
		return "", b.session.NoTemplate
	}
	for i, m := range messages {
		if !utf8.ValidString(m.Content) || !utf8.ValidString(m.Role) {
			return "", fmt.Errorf("messages[%d] is not UTF-8", i)
		}
	}
	text, err := b.session.Render(messages)
	if err != nil {
		return "", fmt.Errorf("messages: %w", err)
	}
	return text, nil
}
