package ask

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/quire/quire/data/promptset"
)

// following returns the tokens of a prompt that follows others, the last of which is last.
func (b *Builder) following(row *promptset.Row, last int32) ([]int32, error) {
	switch row.Kind {
	case promptset.KindNone:
		return nil, nil
	case promptset.KindText:
		return b.text(row.Prompt, false)
	case promptset.KindMessages:
		return b.turns(row, last)
	}
	return b.EncodeRow(row)
}

// turns returns the tokens of further turns of a conversation: what the template writes between an answer and the
// opening of the next one. A token that ends the answer is not written again if the answer has it.
func (b *Builder) turns(row *promptset.Row, last int32) ([]int32, error) {
	answer, messages := "(the answer)", row.Messages
	if callsTools(messages) {
		if text, ok := b.afterCalls(row); ok {
			return b.encodeAfter(text, last)
		}
		messages = messages[1:]
	}
	for slices.ContainsFunc(messages, func(m promptset.Message) bool {
		return strings.Contains(m.Content, answer) || strings.Contains(m.Object, answer)
	}) {
		answer += ")"
	}
	conversation := append([]promptset.Message{{Role: "user", Content: "?"}, {Role: "assistant", Content: answer}},
		messages...)
	text, err := b.render(row, conversation)
	if err != nil {
		return nil, err
	}
	_, text, found := strings.Cut(text, answer)
	if !found {
		return nil, errors.New("messages can not follow a parent: the chat template does not write an answer as it " +
			"is; give prompt or prompt_token_ids")
	}
	return b.encodeAfter(text, last)
}

// encodeAfter returns the tokens of a text that follows an answer, without a token that ends the answer if the answer
// has it.
func (b *Builder) encodeAfter(text string, last int32) ([]int32, error) {
	tokens, err := b.Text.Encode(text, false)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 && tokens[0] == last && slices.Contains(b.Text.EOS, last) {
		tokens = tokens[1:]
	}
	return tokens, nil
}

// callsTools reports whether the first of several messages is an answer that calls tools. It is the answer that the
// others follow, and is not written again.
func callsTools(messages []promptset.Message) bool {
	if len(messages) < 2 || messages[0].Role != "assistant" || messages[0].Object == "" {
		return false
	}
	var answer struct {
		Calls []json.RawMessage `json:"tool_calls"`
	}
	return json.Unmarshal([]byte(messages[0].Object), &answer) == nil && len(answer.Calls) > 0
}

// afterCalls returns what the template writes after an answer that calls tools, from the token that ends it. Templates
// may want the calls before the results. ok is false for a template that does not write calls, or that writes the
// answer in another way if messages follow it: an answer of text stands for it there.
func (b *Builder) afterCalls(row *promptset.Row) (text string, ok bool) {
	conversation := append([]promptset.Message{{Role: "user", Content: "?"}}, row.Messages...)
	whole, err := b.render(row, conversation)
	if err != nil {
		return "", false
	}
	closed := *b
	closed.Settings.Sampling = b.Parameters(row)
	closed.Settings.Sampling.AddGenerationPrompt, closed.Settings.Sampling.ContinueFinalMessage = false, false
	bare := *row
	bare.Overrides = promptset.Overrides{}
	before, err := closed.render(&bare, conversation[:2])
	if err != nil || !strings.HasPrefix(whole, before) {
		return "", false
	}
	end := len(before)
	if b.Text.Decode != nil {
		for _, id := range b.Text.EOS {
			mark := b.Text.Decode([]int32{id})
			i := strings.LastIndex(before, mark)
			if mark != "" && i >= 0 && strings.TrimSpace(before[i+len(mark):]) == "" {
				end = min(end, i)
			}
		}
	}
	return whole[end:], true
}
