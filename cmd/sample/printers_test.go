package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// steers finds what a terminal could take for a command, or what turns text around.
var steers = regexp.MustCompile(`[\x00-\x08\x0b-\x1f\x7f\x{80}-\x{9f}\x{2028}-\x{202e}\x{2066}-\x{2069}]`)

// harmless fails if a printed text has something of that.
func harmless(t *testing.T, what, text string) {
	t.Helper()
	if !utf8.ValidString(text) || steers.MatchString(text) {
		t.Errorf("%s prints %q", what, text)
	}
}

// hostile are texts that were printed as they are: they set colors and the title, ring, go up, turn text around.
var hostile = []string{"\x1b[31m", "\x1b]0;owned\x07", "a\rb\bc", "\u009b2J\u0085", "\u202egpj.exe\u202c",
	"\u2066x\u2069\u2028", "\x7f\x00", "\xff\xc3(", "\xed\xa0\x80"}

// FuzzPrinters has all that prints meet a text, as an id, prompt, role, column, completion, error, file name, model and
// argument.
func FuzzPrinters(f *testing.F) {
	for _, text := range hostile {
		f.Add(text)
	}
	root := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		name := strings.NewReplacer("/", "_", "\x00", "_", "*", "_", "?", "_", "[", "_", `\`, "_").Replace(text)
		name = "x" + name[:min(len(name), 80)]
		dir, err := os.MkdirTemp(root, "")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		in, out, model := filepath.Join(dir, name+".jsonl"), filepath.Join(dir, "out"+name),
			filepath.Join(dir, name+".fake")
		var rows []byte
		for _, row := range []map[string]any{
			{"id": text, "prompt": text, text: 1},
			{"id": 7, "messages": []map[string]string{{"role": "user", "content": text}}},
			{"id": text + text, "prompt": "a", "n": text},
			{"prompt": "a", "stop": []any{text, 1}},
		} {
			line, err := json.Marshal(row)
			if err != nil {
				t.Fatal(err)
			}
			rows = append(append(rows, line...), '\n')
		}
		rows = append(rows, text+"\n"...) // a line that is no JSON
		for path, content := range map[string]string{in: string(rows), model: "", filepath.Join(dir, "job.yaml"): text +
			": " + text} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Skip(err) // no name for a file
			}
		}
		for _, args := range [][]string{
			{"run", "-m", model, "-i", in, "-o", out, "--log-level", "debug"},
			{"run", "-m", model, "-i", in, "-o", out + "j", "--format", "jsonl", "--log-level", "debug", "--log-format",
				"json", "--max-tokens", "20"},
			{"run", "-m", model, "-i", in, "-o", out, "--seed", "5"}, // another job
			{"show", out, "--rows", "0"}, {"show", out + "j", "--full"}, {"show", in}, {"show", model},
			{"show", out + name}, {"check", "-m", model, "-i", in, "--like", out + "j"},
			{"check", "-m", model, "-i", in, "--like", out + name},
			{"report", out}, {"report", out + name}, {"report", name + "://x"},
			{"run", "-m", name, "-i", in, "-o", out + "2"}, {"run", "-m", model, "-i", in + name, "-o", out + "2"},
			{"run", "-m", name + "://", "-i", in, "-o", out}, {"run", "--" + text}, {"run", "-t", text},
			{"run", "-c", filepath.Join(dir, "job.yaml")},
			{text}, {"help", text}, {"kernels", text}, {"setup", text}, {"plan", text}, {"plan", "--model", name},
		} {
			_, printed := sampleFake(args...)
			harmless(t, strings.Join(args[:1], " "), printed)
		}
		if page, err := os.ReadFile(filepath.Join(out, "_report.html")); err == nil {
			harmless(t, "the page", string(page))
		}
	})
}
