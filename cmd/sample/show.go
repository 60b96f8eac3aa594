package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/spf13/pflag"
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
sample show out/part-00003.parquet`,
		flags: func(f *flags) {
			f.group("Flags", func(s *pflag.FlagSet) {
				s.IntVarP(&rows, "rows", "r", 5, "`PROMPTS` print this many prompts, each with all its completions; 0 prints all")
				s.BoolVar(&full, "full", false, "do not cut long texts")
			})
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if len(args) != 1 {
				return usagef("show needs one output folder or part file, but was given %d arguments", len(args))
			}
			if rows < 0 {
				return usagef("--rows is %d, but must be 0 (all) or more", rows)
			}
			files, err := partFiles(args[0])
			if err != nil {
				return err
			}
			out := bufio.NewWriter(env.stdout)
			p := &printer{w: out, rows: rows, full: full, width: min(terminalWidth(env.stdout), 120)}
			for _, file := range files {
				if err := eachRecord(ctx, file, p.print); errors.Is(err, errEnough) {
					break
				} else if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			if p.prompts == 0 {
				fmt.Fprintf(out, "%s has no rows\n", args[0])
			}
			if all, ok := standingOf(ctx, env.fs, args[0], args[0]); ok && len(all.missing) > 0 {
				fmt.Fprintln(env.stderr, all)
			}
			return out.Flush()
		},
	}
}

// partFiles lists the part files of an output folder in order, or the file itself.
func partFiles(path string) ([]string, error) {
	st, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !st.IsDir() {
		return []string{path}, nil
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(path), "part-*"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, noParts(path)
	}
	// Part 100000 comes after part 99999.
	slices.SortStableFunc(files, func(a, b string) int { return cmp.Or(cmp.Compare(len(a), len(b)), cmp.Compare(a, b)) })
	return files, nil
}

// errNoParts says that a folder has no part of a job.
var errNoParts = errors.New("holds no part files: is it the output folder of a run?")

func noParts(path string) error { return fmt.Errorf("%s %w", path, errNoParts) }

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

// errEnough ends the reading of records.
var errEnough = errors.New("enough")

// eachRecord calls do for each row of a part file, as a map of its columns.
func eachRecord(ctx context.Context, path string, do func(map[string]any) error) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if filepath.Ext(path) != ".parquet" {
		d := json.NewDecoder(bufio.NewReader(f))
		for ctx.Err() == nil {
			var record map[string]any
			if err := d.Decode(&record); err == io.EOF {
				return nil
			} else if err != nil {
				return err
			}
			if err := do(record); err != nil {
				return err
			}
		}
		return ctx.Err()
	}
	st, err := f.Stat()
	if err != nil {
		return err
	}
	file, err := parquet.OpenFile(f, st.Size())
	if err != nil {
		return err
	}
	reader := parquet.NewGenericReader[any](file, file.Schema())
	defer reader.Close()
	buf := make([]any, 16)
	for ctx.Err() == nil {
		n, err := reader.Read(buf)
		for _, record := range buf[:n] {
			if err := do(record.(map[string]any)); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// printer prints records, those of one prompt under one heading.
type printer struct {
	w             io.Writer
	rows, prompts int
	full          bool
	width         int
	last          string
}

func (p *printer) print(record map[string]any) error {
	heading := fmt.Sprintf("%v\x00%s", record["id"], promptText(record))
	if p.prompts == 0 || heading != p.last {
		if p.rows > 0 && p.prompts == p.rows {
			return errEnough
		}
		p.prompts++
		p.last = heading
		fmt.Fprintf(p.w, "%s\n%s\n", rule(fmt.Sprintf("── %v ", record["id"]), p.width), indent(p.cut(promptText(record), 600)))
	}
	if failure, _ := record["error"].(string); failure != "" {
		fmt.Fprintf(p.w, "  ▸ %v: error: %s\n", record["generation"], failure)
		return nil
	}
	text, _ := record["text"].(string)
	text = strings.TrimSpace(text)
	body := strings.ReplaceAll(p.cut(text, 400), "\n", "\n    ")
	_, err := fmt.Fprintf(p.w, "  ▸ %v (%v, %v tokens)\n    %s\n", record["generation"], record["finish_reason"], record["completion_tokens"], body)
	return err
}

// promptText is the prompt of a record as text, whatever column holds it.
func promptText(record map[string]any) string {
	if prompt, ok := record["prompt"].(string); ok {
		return prompt
	}
	if messages, ok := record["messages"].([]any); ok {
		var lines []string
		for _, m := range messages {
			if m, ok := m.(map[string]any); ok {
				lines = append(lines, fmt.Sprintf("%v: %v", m["role"], m["content"]))
			}
		}
		return strings.Join(lines, "\n")
	}
	if ids, ok := record["prompt_token_ids"].([]any); ok {
		return fmt.Sprintf("%d tokens: %v", len(ids), ids)
	}
	return "(no prompt)"
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
