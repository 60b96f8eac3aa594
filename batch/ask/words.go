package ask

import (
	"fmt"
	"strings"
)

// badWords returns the sequences of tokens that spell texts, as vLLM has them: each text without the spaces that it
// begins with, and the text behind a space where that has as many tokens of which the first is another one.
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
