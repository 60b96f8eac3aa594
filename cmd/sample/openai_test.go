package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

// The golden answers of script/openai.txtar and script/embed.txtar, and those of docs/openai.md, are what OpenAI's
// Python package takes for answers. QUIRE_OPENAI_PYTHON names a Python that has the package; make nightly makes one.
func TestAnswersHaveOpenAIsTypes(t *testing.T) {
	python := os.Getenv("QUIRE_OPENAI_PYTHON")
	if python == "" {
		t.Skip("QUIRE_OPENAI_PYTHON names no Python with the package openai")
	}
	dir := t.TempDir()
	write := func(name string, text []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "openai.md"))
	if err != nil {
		t.Fatal(err)
	}
	lines := func(pattern string) []byte {
		found := regexp.MustCompile(`(?m)^    (`+pattern+`.*)$`).FindAllStringSubmatch(string(page), -1)
		var text strings.Builder
		for _, f := range found {
			text.WriteString(f[1] + "\n")
		}
		return []byte(text.String())
	}
	args := []string{filepath.Join("..", "..", "scripts", "openai", "check.py"),
		"--requests", write("docs-batch.jsonl", lines(`\{"custom_id"`)),
		"--responses", write("docs-answers.jsonl", lines(`\{"id":"batch_req_`))}
	for script, golden := range map[string]string{"openai.txtar": "want.jsonl", "embed.txtar": "answers.jsonl"} {
		archive, err := txtar.ParseFile(filepath.Join("testdata", "script", script))
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range archive.Files {
			if f.Name == golden {
				args = append(args, write(f.Name, f.Data))
			}
		}
	}
	out, err := exec.Command(python, args...).CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	}
}
