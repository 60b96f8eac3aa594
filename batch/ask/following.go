package ask

import (
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
	tokens, err := b.Text.Encode(text, false)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 && tokens[0] == last && slices.Contains(b.Text.EOS, last) {
		tokens = tokens[1:]
	}
	return tokens, nil
}
