package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/quire/quire/cmd/sample/cli"
)

// Each subcommand has -h and --help, which print what "sample help" does, or the main flags of it, and --version,
// whatever else is on the command line.
func TestHelpAndVersionEverywhere(t *testing.T) {
	_, version := sampleFake("version")
	for _, sub := range cli.Commands() {
		_, whole := sampleFake("help", sub.Name)
		_, short := sampleFake(sub.Name, "-h")
		if len(sub.Short) == 0 && short != whole {
			t.Errorf("%s -h is %s", sub.Name, short)
		}
		for _, args := range [][]string{{sub.Name, "-h"}, {sub.Name, "--help"}, {"-h", sub.Name}, {"--help", sub.Name},
			{sub.Name, "nothing", "-h"}} {
			code, got := sampleFake(args...)
			if code != cli.ExitOK || got != short || !strings.Contains(got, "\nUsage:\n") {
				t.Errorf("%q: %d, %s", args, code, got)
			}
		}
		for _, args := range [][]string{{sub.Name, "--version"}, {sub.Name, "nothing", "--version"}} {
			if code, got := sampleFake(args...); code != cli.ExitOK || got != version {
				t.Errorf("%q: %d, %s", args, code, got)
			}
		}
	}
}

// The short help has few flags in few lines, and reports where the others are.
func TestShortHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, sub := range cli.Commands() {
		if len(sub.Short) == 0 {
			continue
		}
		_, text := sampleFake(sub.Name, "-h")
		for _, name := range sub.Short {
			if !strings.Contains(text, "--"+name) {
				t.Errorf("%s -h has no --%s", sub.Name, name)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 70 || !strings.Contains(text, "sample help "+sub.Name+"\n") {
			t.Errorf("%s -h has %d lines: %s", sub.Name, lines, text)
		}
	}
}

// Help is broken into lines of the terminal's width, but for what has to be typed as it is.
func TestHelpFits(t *testing.T) {
	for _, columns := range []int{50, 80, 120} {
		t.Setenv("COLUMNS", fmt.Sprint(columns))
		for _, sub := range append([]*cli.Command{nil}, cli.Commands()...) {
			args := []string{"help"}
			if sub != nil {
				args = append(args, sub.Name)
			}
			_, text := sampleFake(args...)
			before, after, _ := strings.Cut(text, "\nExamples:\n")
			_, after, _ = strings.Cut(after, "\n\n")
			text = before + after
			for line := range strings.Lines(text) {
				line = strings.TrimSuffix(line, "\n")
				typed := strings.HasPrefix(line, "  sample ") || strings.HasPrefix(strings.TrimSpace(line), "--") ||
					strings.HasPrefix(strings.TrimSpace(line), "-")
				if utf8.RuneCountInString(line) > columns && strings.Contains(strings.TrimSpace(line), " ") && !typed {
					t.Errorf("%q in %d columns: %s", args, columns, line)
				}
			}
		}
	}
}
