package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/promptset"
)

// kin is what rows need of the one that they go on from: the tokens of its prompt, and its completions.
type kin struct {
	prompt  []int32
	results []promptset.Result // in order of generation; a row that could not be run has one, with an error
}

// failed says that the row could not be run.
func (k *kin) failed() bool { return len(k.results) == 1 && k.results[0].Err != "" }

// end returns the tokens that a row goes on from: the prompt, and what is wanted of a completion.
func (k *kin) end(p promptset.Parent) ([]int32, error) {
	if k.failed() {
		return nil, fmt.Errorf("parent %s has an error, and there is nothing to go on from", visible.Quoted(p.ID))
	}
	first, last := k.results[0].Generation, k.results[len(k.results)-1].Generation
	wanted := first
	if p.Generation != nil {
		wanted = *p.Generation
	}
	if wanted < first || wanted > last {
		has := fmt.Sprintf("generation %d alone", first)
		if last > first {
			has = fmt.Sprintf("generations %d to %d", first, last)
		}
		return nil, fmt.Errorf("parent_generation is %d, and parent %s has %s", wanted, visible.Quoted(p.ID), has)
	}
	r := &k.results[wanted-first]
	if r.Err != "" {
		return nil, fmt.Errorf("generation %d of parent %s has an error, and there is nothing to go on from", wanted,
			visible.Quoted(p.ID))
	}
	completion := r.TokenIDs
	if p.Length != nil {
		completion = completion[:min(len(completion), *p.Length)]
	}
	return slices.Concat(k.prompt, completion), nil
}

// stripped is the kin without what later rows do not need.
func (k *kin) stripped() *kin {
	s := &kin{prompt: k.prompt, results: slices.Clone(k.results)}
	for i := range s.results {
		s.results[i].Text, s.results[i].Logprobs = "", nil
	}
	return s
}

// errKinBytes says that bytes are no kin.
var errKinBytes = errors.New("these bytes hold no row that others go on from")

// maxKin bounds what is made room for on the word of a file.
const maxKin = 1 << 30

// appendKin appends the binary form: the tokens of the prompt, then the results, each behind its length.
func appendKin(b []byte, k *kin) []byte {
	b = binary.AppendUvarint(b, uint64(len(k.prompt)))
	for _, id := range k.prompt {
		b = binary.AppendUvarint(b, uint64(id))
	}
	b = binary.AppendUvarint(b, uint64(len(k.results)))
	var one []byte
	for i := range k.results {
		one, _ = k.results[i].AppendBinary(one[:0])
		b = append(binary.AppendUvarint(b, uint64(len(one))), one...)
	}
	return b
}

// parseKin reads what appendKin wrote.
func parseKin(b []byte) (*kin, error) {
	k, ok := &kin{}, true
	number := func(most uint64) uint64 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > most {
			ok, b = false, nil
			return 0
		}
		b = b[size:]
		return n
	}
	k.prompt = make([]int32, number(uint64(len(b))))
	for i := range k.prompt {
		k.prompt[i] = int32(number(1<<31 - 1))
	}
	for range number(uint64(len(b))) {
		n := number(maxKin)
		if n > uint64(len(b)) {
			return nil, errKinBytes
		}
		var r promptset.Result
		if r.UnmarshalBinary(b[:n]) != nil {
			return nil, errKinBytes
		}
		k.results, b = append(k.results, r), b[n:]
	}
	if !ok || len(b) > 0 || len(k.results) == 0 {
		return nil, errKinBytes
	}
	return k, nil
}

// following returns the tokens of a prompt that follows others, the last of which is last.
func (b *requestBuilder) following(row *promptset.Row, last int32) ([]int32, error) {
	switch row.Kind {
	case promptset.KindNone:
		return nil, nil
	case promptset.KindText:
		return b.text(row.Prompt, false)
	case promptset.KindMessages:
		return b.turns(row, last)
	}
	return b.tokens(row)
}

// turns returns the tokens of further turns of a conversation: what the template writes between an answer and the
// opening of the next one. A token that ends the answer is not written again where the answer has it.
func (b *requestBuilder) turns(row *promptset.Row, last int32) ([]int32, error) {
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
	tokens, err := b.session.Encode(text, false)
	if err != nil {
		return nil, err
	}
	if len(tokens) > 0 && tokens[0] == last && slices.Contains(b.session.Config.EOS, last) {
		tokens = tokens[1:]
	}
	return tokens, nil
}
