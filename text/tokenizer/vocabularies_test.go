package tokenizer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/text/unicode/norm"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/internal/testenv"
)

// TestVocabulariesOfLlamaCpp encodes the texts that llama.cpp tests its vocabularies with, to the ids that the models
// own tokenizers gave for them. bench/peers/setup.sh brings the files.
func TestVocabulariesOfLlamaCpp(t *testing.T) {
	testenv.Slow(t)
	cache, err := setup.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	inputs, err := filepath.Glob(filepath.Join(globEscape(cache),
		"peers/llama_cpp_python-*/vendor/llama.cpp/models/ggml-vocab-*.gguf.inp"))
	if err != nil {
		t.Fatal(err)
	}
	if len(inputs) == 0 {
		t.Skip("bench/peers/setup.sh has not been run")
	}
	for _, input := range inputs {
		path := strings.TrimSuffix(input, ".inp")
		t.Run(filepath.Base(path), func(t *testing.T) {
			tok, err := Open(path)
			if err != nil {
				if strings.Contains(err.Error(), `"bert" is not supported`) {
					t.Skip(err)
				}
				t.Fatal(err)
			}
			data, err := os.ReadFile(input)
			if err != nil {
				t.Fatal(err)
			}
			want, err := os.ReadFile(path + ".out")
			if err != nil {
				t.Fatal(err)
			}
			lines := strings.Split(strings.TrimSuffix(string(want), "\n"), "\n")
			for i, text := range strings.Split(string(data), "\n__ggml_vocab_test__\n")[:len(lines)] {
				// transformers composes characters for Qwen3.5 (Qwen3_5Tokenizer), the ids of these texts do not.
				if strings.Contains(path, "-qwen35.") && !norm.NFC.IsNormalString(text) {
					continue
				}
				ids, err := tok.Encode(text, false)
				if got := strings.Trim(fmt.Sprint(ids), "[]"); err != nil || got != strings.TrimSpace(lines[i]) {
					t.Errorf("%q: got %s, %v; want %s", text, got, err, lines[i])
				}
			}
		})
	}
}
