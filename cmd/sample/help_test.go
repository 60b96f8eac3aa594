package main

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

// Each subcommand has -h and --help, which print what "sample help" does, or the main flags of it, and --version,
// whatever else is on the command line.
func TestHelpAndVersionEverywhere(t *testing.T) {
	_, version := sampleFake("version")
	for _, sub := range subcommands() {
		_, whole := sampleFake("help", sub.name)
		_, short := sampleFake(sub.name, "-h")
		if len(sub.short) == 0 && short != whole {
			t.Errorf("%s -h is %s", sub.name, short)
		}
		for _, args := range [][]string{{sub.name, "-h"}, {sub.name, "--help"}, {"-h", sub.name}, {"--help", sub.name},
			{sub.name, "nothing", "-h"}} {
			code, got := sampleFake(args...)
			if code != exitOK || got != short || !strings.Contains(got, "\nUsage:\n") {
				t.Errorf("%q: %d, %s", args, code, got)
			}
		}
		for _, args := range [][]string{{sub.name, "--version"}, {sub.name, "nothing", "--version"}} {
			if code, got := sampleFake(args...); code != exitOK || got != version {
				t.Errorf("%q: %d, %s", args, code, got)
			}
		}
	}
}

// The short help has few flags in few lines, and says where the others are.
func TestShortHelp(t *testing.T) {
	t.Setenv("COLUMNS", "100")
	for _, sub := range subcommands() {
		if len(sub.short) == 0 {
			continue
		}
		_, text := sampleFake(sub.name, "-h")
		for _, name := range sub.short {
			if !strings.Contains(text, "--"+name) {
				t.Errorf("%s -h has no --%s", sub.name, name)
			}
		}
		if lines := strings.Count(text, "\n"); lines > 70 || !strings.Contains(text, "sample help "+sub.name+"\n") {
			t.Errorf("%s -h has %d lines: %s", sub.name, lines, text)
		}
	}
}

// Help is broken into lines of the terminal's width, but for what has to be typed as it is.
func TestHelpFits(t *testing.T) {
	for _, columns := range []int{50, 80, 120} {
		t.Setenv("COLUMNS", fmt.Sprint(columns))
		for _, sub := range append([]*subcommand{nil}, subcommands()...) {
			args := []string{"help"}
			if sub != nil {
				args = append(args, sub.name)
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

// Breaking lines anew keeps all words, tables and command lines.
func TestReflow(t *testing.T) {
	const text = "A line that goes\non here.\n\nWords:\n  a      first of all\n         and more of it\n" +
		"  b, c   second\n  sample run --with many --flags --and more\n\nEnd.\n"
	const want = "A line that goes on here.\n\nWords:\n  a      first of all and more of\n         it\n" +
		"  b, c   second\n  sample run --with many --flags --and more\n\nEnd.\n"
	if got := reflow(text, 33); got != want {
		t.Errorf("%s", got)
	}
	if got, want := reflow("  name   one two three four\n", 24), "  name\n      one two three four\n"; got != want {
		t.Errorf("%q", got)
	}
}
