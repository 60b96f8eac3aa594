package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
	"github.com/quire/quire/promptset"
	"github.com/quire/quire/storage"
)

func newShow() *subcommand {
	var rows int
	var full bool
	return &subcommand{
		name:    "show",
		args:    "FOLDER|FILE",
		summary: "print completions from an output folder readably",
		example: `
sample show out
sample show out --rows 20 --full
sample show out/part-00003.parquet
sample show prompts.jsonl             # an input: its prompts`,
		flags: func(f *flags) {
			f.group("Flags", func(s *pflag.FlagSet) {
				s.IntVarP(&rows, "rows", "r", 5,
					"`PROMPTS` print this many prompts, each with all its completions; 0 prints all")
				s.BoolVar(&full, "full", false, "do not cut long texts")
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("show needs one output folder or part file, but was given %s",
					plural.Count(len(args), "argument"))
			}
			if rows < 0 {
				return usagef("--rows is %d, but must be 0 (all) or more", rows)
			}
			path, err := anywhere.resolve(args[0])
			if err == nil {
				path, err = storage.Hide(path)
			}
			if err != nil {
				return &exitError{exitUsage, fmt.Errorf("show: %w", err)}
			}
			parts, err := promptset.OpenPath(ctx, env.fs, path)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(env.stdout)
			p := &printer{w: out, rows: rows, full: full, width: min(terminalWidth(env.stdout), 120)}
			if err := p.printOutput(ctx, parts); err != nil {
				return err
			}
			if p.prompts == 0 {
				fmt.Fprintf(out, "%s has no rows\n", path)
			}
			work, err := batch.WorkFolder(path, "")
			if err != nil {
				return err
			}
			if all, ok := batch.StandingOf(ctx, env.fs, path, work); ok && len(all.Missing) > 0 {
				fmt.Fprintln(env.stderr, all)
			}
			return out.Flush()
		},
	}
}

// printer prints completions, those of one prompt under one heading.
type printer struct {
	w             io.Writer
	rows, prompts int
	full          bool
	width         int
	last          string
}

// printOutput prints the completions of an output, or the prompts of a file that is an input.
func (p *printer) printOutput(ctx context.Context, out *promptset.Output) error {
	for _, part := range out.Parts {
		for c, err := range out.Rows(ctx, part) {
			if errors.Is(err, promptset.ErrNoCompletions) && p.prompts == 0 {
				if err := p.printPrompts(ctx, part.Name); err != nil {
					return err
				}
				break
			}
			if err != nil {
				return fmt.Errorf("%s: %w", part.Name, err)
			}
			if p.print(c); p.enough() {
				return nil
			}
		}
	}
	return nil
}

// enough says that a prompt came that is not to be printed.
func (p *printer) enough() bool { return p.rows > 0 && p.prompts > p.rows }

func (p *printer) print(c *promptset.Completion) {
	prompt := c.Prompt()
	if heading := c.ID + "\x00" + prompt; p.prompts == 0 || heading != p.last {
		p.last = heading
		p.head(c.ID, prompt)
	}
	switch {
	case p.enough():
	case c.Err != "":
		fmt.Fprintf(p.w, "  ▸ %d: error: %s\n", c.Generation, visible.Line(c.Err))
	default:
		body := strings.ReplaceAll(p.cut(strings.TrimSpace(c.Text), 400), "\n", "\n    ")
		fmt.Fprintf(p.w, "  ▸ %d (%s, %s)\n    %s\n", c.Generation, visible.Line(c.FinishReason),
			plural.Count(c.CompletionTokens, "token"), body)
	}
}

// head prints the heading of a prompt.
func (p *printer) head(id, prompt string) {
	if p.prompts++; p.enough() {
		return
	}
	fmt.Fprintf(p.w, "%s\n%s\n", rule(fmt.Sprintf("── %s ", visible.Line(id)), p.width), indent(p.cut(prompt, 600)))
}

// printPrompts prints a file that is no output but an input.
func (p *printer) printPrompts(ctx context.Context, file string) error {
	reader, err := promptset.OpenFrom(ctx, promptset.Anywhere(), []string{file})
	if err != nil {
		return fmt.Errorf("%s is neither an output of sample run nor an input for it: %w", file, err)
	}
	for row := range reader.Rows(ctx) {
		text := row.PromptText()
		if row.Err != nil {
			text = "error: " + row.Err.Error()
		}
		if p.head(row.ID, text); p.enough() {
			break
		}
	}
	if err := reader.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s has %s and no completions: it is an input, and sample run --input %s draws some\n",
		file, plural.Count(reader.NumRows(), "prompt"), file)
	return err
}

// cut shortens a text to about n characters unless --full was given.
func (p *printer) cut(text string, n int) string {
	if p.full || utf8.RuneCountInString(text) <= n {
		return text
	}
	return string([]rune(text)[:n]) + " …"
}

func rule(title string, width int) string {
	return title + strings.Repeat("─", max(width-utf8.RuneCountInString(title), 0))
}
