package tokenizer

import "testing"

// Tokens as vocabularies of BERT without large letters have them, and one of a vocabulary with them.
func TestLargeLettersOfTokens(t *testing.T) {
	for token, want := range map[string]bool{"hello": false, "[CLS]": false, "ℝ": false, "[": false, "Hello": true,
		"éÉ": true} {
		if got := hasLarge(token); got != want {
			t.Errorf("%q: got %t, want %t", token, got, want)
		}
	}
}
