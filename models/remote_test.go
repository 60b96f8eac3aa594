package models

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// copyOf is a fetch that copies from a folder here and notes what it was asked for.
func copyOf(t *testing.T, from string, asked *[][]string) func(want func(string) bool) (string, error) {
	return func(want func(string) bool) (string, error) {
		dir := t.TempDir()
		entries, err := os.ReadDir(from)
		if err != nil {
			return "", err
		}
		var names []string
		for _, e := range entries {
			if !want(e.Name()) {
				continue
			}
			names = append(names, e.Name())
			data, err := os.ReadFile(filepath.Join(from, e.Name()))
			if err == nil {
				err = os.WriteFile(filepath.Join(dir, e.Name()), data, 0o600)
			}
			if err != nil {
				return "", err
			}
		}
		*asked = append(*asked, names)
		return dir, nil
	}
}

// Tokenizers of all kinds are fetched with a model.
func TestTokenizersAreFetched(t *testing.T) {
	for name, want := range map[string]bool{"tokenizer.json": true, "tokenizer.model": true, "tiktoken.model": true,
		"qwen.tiktoken": true, "original/o200k_base.tiktoken": false, "training.log": false} {
		if folderFile(name, false) != want || isText(name) != want {
			t.Errorf("%s is fetched: %t", name, !want)
		}
	}
}

func TestFetchFolder(t *testing.T) {
	found, err := filepath.Glob(filepath.Join("..", "testdata", "models", "*", "config.json"))
	if err != nil || len(found) == 0 {
		t.Fatal(found, err)
	}
	for _, config := range found {
		from := filepath.Dir(config)
		var asked [][]string
		dir, err := FetchFolder(copyOf(t, from, &asked))
		if err != nil {
			t.Errorf("%s: %v", from, err)
			continue
		}
		a, err := Open(from)
		if err != nil {
			t.Fatal(err)
		}
		b, err := Open(dir)
		if err != nil {
			t.Fatalf("%s: what was fetched cannot be opened: %v", from, err)
		}
		if a.FingerPrint() != b.FingerPrint() {
			t.Errorf("%s: what was fetched is another model", from)
		}
		if weights := func(s string) bool { return strings.HasSuffix(s, ".safetensors") }; slices.ContainsFunc(asked[0],
			weights) {
			t.Errorf("%s: weights were fetched before the config was looked at: %v", from, asked)
		}
		a.Close()
		b.Close()
	}
}

// An unsupported model is rejected before its weights are fetched; one without weights is not a model.
func TestFetchFolderRefuses(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("config.json", `{"architectures":["GPT2LMHeadModel"],"model_type":"gpt2"}`)
	write("model.safetensors", "x")
	var asked [][]string
	if _, err := FetchFolder(copyOf(t, dir, &asked)); err == nil || !strings.Contains(err.Error(), "GPT2") ||
		len(asked) != 1 {
		t.Error(err, asked)
	}
	config, err := os.ReadFile(filepath.Join("..", "testdata", "models", testModel(t), "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	write("config.json", string(config))
	os.Remove(filepath.Join(dir, "model.safetensors"))
	write("pytorch_model.bin", "x")
	if _, err := FetchFolder(copyOf(t, dir, &asked)); err == nil ||
		!strings.Contains(err.Error(), "model.safetensors") {
		t.Error(err)
	}
}

// TestFetchFolderWithStaleIndex takes one file if the shards of an index do not exist, and otherwise reports which
// one is missing, as for a local folder.
func TestFetchFolderWithStaleIndex(t *testing.T) {
	from := t.TempDir()
	write(t, filepath.Join(from, configFile), base(nil))
	write(t, filepath.Join(from, weightsIndex), indexOf(map[string]string{"a": "s2.safetensors"}))
	write(t, filepath.Join(from, weightsFile), safetensorsOf("a"))
	var asked [][]string
	dir, err := FetchFolder(copyOf(t, from, &asked))
	if err != nil {
		t.Fatal(err)
	}
	if openTest(t, dir).Shape("a") == nil {
		t.Errorf("the tensor of %s is not found; asked for %v", weightsFile, asked)
	}
	os.Remove(filepath.Join(from, weightsFile))
	if _, err = FetchFolder(copyOf(t, from, &asked)); err == nil ||
		!strings.Contains(err.Error(), "names s2.safetensors, which is not there") {
		t.Error(err)
	}
}

func testModel(t *testing.T) string {
	entries, err := os.ReadDir(filepath.Join("..", "testdata", "models"))
	if err != nil || len(entries) == 0 {
		t.Fatal(err)
	}
	return entries[0].Name()
}
