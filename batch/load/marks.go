package load

import "github.com/quire/quire/text/tokenizer"

// withMarks returns the text of a completion with the marks that the text lacks: special tokens, and the token
// that ended the completion.
func withMarks(tok *tokenizer.Tokenizer, tokens []int32, text string, marks []string) string {
	keep, ending := map[int32]bool{}, ""
	for _, mark := range marks {
		id, ok := tok.ID(mark)
		if ok && tok.IsSpecial(id) {
			keep[id] = true
		} else if n := len(tokens); ok && n > 0 && id == tokens[n-1] && tok.Decode(tokens[:n-1], true) == text {
			ending = mark
		}
	}
	if len(keep) > 0 {
		text = tok.Mark(tokens, text, keep)
	}
	return text + ending
}
