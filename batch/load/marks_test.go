package load

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quire/quire/text/tokenizer"
)

// A mark that ended the completion, and that the text therefore lacks, is there for the forms.
func TestMarkThatEnded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(file, []byte(`{"model": {"type": "BPE", "merges": [], "vocab":
		{"a": 0, "b": 1, "<end>": 2, "<think>": 3}}, "decoder": {"type": "Fuse"}, "added_tokens": [
		{"id": 2, "content": "<end>", "special": false, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false},
		{"id": 3, "content": "<think>", "special": true, "single_word": false, "lstrip": false, "rstrip": false,
			"normalized": false}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		tokens     []int32
		text, want string
	}{
		{[]int32{0, 1, 2}, "ab", "ab<end>"},
		{[]int32{0, 1, 2}, "ab<end>", "ab<end>"}, // max_tokens did
		{[]int32{0, 1, 2}, "a", "a"},             // a stop string did
		{[]int32{0, 3, 1, 2}, "ab", "a<think>b<end>"},
		{nil, "", ""},
	} {
		if got := withMarks(tok, c.tokens, c.text, []string{"<think>", "<end>", "</think>"}); got != c.want {
			t.Errorf("%v with the text %q: %q, want %q", c.tokens, c.text, got, c.want)
		}
	}
}
