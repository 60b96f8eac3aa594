package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The commands of docs/recipes.md print what the page has. Those of a recipe follow each other in a shell, all in one
// folder. Blocks without a "$ " are not run.
func TestRecipes(t *testing.T) {
	if testing.Short() {
		t.Skip("part of make test-slow")
	}
	for _, tool := range []string{"bash", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	path := filepath.Join("..", "..", "docs", "recipes.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	shell := newRecipeShell(t)
	var got []string
	for _, recipe := range strings.SplitAfter(string(page), "\n\n## ") {
		got = append(got, shell.run(t, recipe))
	}
	if have := strings.Join(got, ""); *writeAnew {
		if err := os.WriteFile(path, []byte(have), 0o666); err != nil {
			t.Fatal(err)
		}
	} else if have != string(page) {
		t.Errorf("the commands print another text; -write puts it into the page:\n%s", have)
	}
}

// recipeShell runs commands of the page with this test as sample.
type recipeShell struct{ dir, env string }

func newRecipeShell(t *testing.T) *recipeShell {
	t.Helper()
	bin := t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(bin, "real-sample"))
	}
	// Texts in 32-bit floats are the same on every processor.
	script := `#!/bin/sh
case $1 in run|submit)
	subcommand=$1
	shift
	set -- $subcommand --dtype f32 --weights f32 --kv-memory 256MiB "$@" ;;
esac
exec "$(dirname "$0")/real-sample" "$@"
`
	if err == nil {
		err = os.WriteFile(filepath.Join(bin, "sample"), []byte(script), 0o777)
	}
	root, rootErr := filepath.Abs(filepath.Join("..", ".."))
	if err != nil || rootErr != nil {
		t.Fatal(err, rootErr)
	}
	return &recipeShell{dir: t.TempDir(), env: "export PATH=" + bin + ":$PATH QUIRE=" + root + "\n"}
}

// run runs a recipe, and returns it with what its commands print.
func (s *recipeShell) run(t *testing.T, recipe string) string {
	t.Helper()
	// One shell runs all commands. A line that no command prints stands between what two of them print.
	const mark = "=== end of a command ==="
	script := s.env
	var out []string // lines of the page; commands end with mark
	inCommand, until, commands := false, "", 0
	for line := range strings.Lines(recipe) {
		text, code := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "    ")
		command, begins := strings.CutPrefix(text, "$ ")
		switch {
		case code && !inCommand && begins:
			inCommand, text = true, command
		case code && !inCommand && commands > 0 && len(out) > 0 && (out[len(out)-1] == mark):
			continue // printed before
		case !inCommand:
			out = append(out, line)
			continue
		}
		out = append(out, line)
		script += text + "\n"
		if until == "" {
			if _, word, ok := strings.Cut(text, "<<"); ok {
				until = word
			}
		} else if text == until {
			until = ""
		}
		if until == "" && !strings.HasSuffix(text, `\`) {
			inCommand, commands = false, commands+1
			out = append(out, mark)
			script += "echo '" + mark + "'\n"
		}
	}
	if commands == 0 {
		return recipe
	}
	cmd := exec.CommandContext(t.Context(), "bash", "-c", script)
	cmd.Dir = s.dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	printed, err := cmd.Output()
	t.Logf("%s", stderr.Bytes())
	if err != nil {
		t.Errorf("%v", err)
	}
	all := strings.Split(string(printed), mark+"\n")
	var page strings.Builder
	for _, line := range out {
		if line != mark {
			page.WriteString(line)
			continue
		}
		for text := range strings.Lines(all[0]) {
			if !strings.HasPrefix(text, "time ") { // which differs from run to run
				page.WriteString("    " + text)
			}
		}
		if len(all) > 1 {
			all = all[1:]
		}
	}
	return page.String()
}
