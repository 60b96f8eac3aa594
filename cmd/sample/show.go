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
			files, err := shownFiles(ctx, path)
			if err != nil {
				return err
			}
			out := bufio.NewWriter(env.stdout)
			p := &printer{w: out, rows: rows, full: full, width: min(terminalWidth(env.stdout), 120)}
			for _, file := range files {
				err := eachRecord(ctx, file, p.print)
				if errors.Is(err, errNoCompletions) {
					if err = p.printPrompts(ctx, file); err != nil {
						return err
					}
				} else if errors.Is(err, errEnough) {
					break
				} else if err != nil {
					return fmt.Errorf("%s: %w", file, err)
				}
			}
			if p.prompts == 0 {
				fmt.Fprintf(out, "%s has no rows\n", path)
			}
			work, err := (&runOptions{output: path}).workFolder()
			if err != nil {
				return err
			}
			if all, ok := standingOf(ctx, env.fs, path, work); ok && len(all.missing) > 0 {
				fmt.Fprintln(env.stderr, all)
			}
			return out.Flush()
		},
	}
}

// shownFiles lists the files that show reads: those of partFiles, wherever they are.
func shownFiles(ctx context.Context, path string) (files []string, err error) {
	if !storage.IsRemote(path) {
		return partFiles(path)
	}
	if info, err := storage.Stat(ctx, path); err != nil || !info.Folder {
		return []string{path}, err
	}
	names, err := promptset.OpenOutputFolder(ctx, nil, path).Names()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		if _, _, ok := promptset.ParsePartName(name); ok {
			files = append(files, storage.Join(path, name))
		}
	}
	if len(files) == 0 {
		return nil, noParts(path)
	}
	inOrder(files)
	return files, nil
}

// inOrder sorts parts by number: part 100000 comes after part 99999.
func inOrder(files []string) {
	slices.SortStableFunc(files, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(a), len(b)),
			cmp.Compare(a, b))
	})
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
	inOrder(files)
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
	f, err := storage.Open(ctx, path)
	if err != nil {
		return err
	}
	defer f.Close()
	if ext := filepath.Ext(storage.Path(path)); ext == ".gz" || ext == ".zst" { // no part is
		return errNoCompletions
	} else if ext != ".parquet" {
		text := f.Reader()
		defer text.Close()
		d := json.NewDecoder(bufio.NewReader(text))
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
	file, err := parquet.OpenFile(f, f.Size())
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
	if _, ok := record["finish_reason"]; !ok && p.prompts == 0 {
		return errNoCompletions
	}
	heading := fmt.Sprintf("%v\x00%s", record["id"], promptText(record))
	if p.prompts == 0 || heading != p.last {
		if p.rows > 0 && p.prompts == p.rows {
			return errEnough
		}
		p.last = heading
		p.head(fmt.Sprint(record["id"]), promptText(record))
	}
	if failure, _ := record["error"].(string); failure != "" {
		fmt.Fprintf(p.w, "  ▸ %v: error: %s\n", record["generation"], visible.Line(failure))
		return nil
	}
	text, _ := record["text"].(string)
	text = strings.TrimSpace(text)
	body := strings.ReplaceAll(p.cut(text, 400), "\n", "\n    ")
	_, err := fmt.Fprintf(p.w, "  ▸ %v (%v, %s)\n    %s\n", record["generation"], record["finish_reason"],
		tokensOf(record["completion_tokens"]), body)
	return err
}

// tokensOf is a number of tokens, as a file has it.
func tokensOf(n any) string {
	switch n := n.(type) {
	case int32:
		return plural.Count(n, "token")
	case float64:
		return plural.Count(int64(n), "token")
	}
	return visible.Line(fmt.Sprint(n)) + " tokens"
}

// head prints the heading of a prompt.
func (p *printer) head(id, prompt string) {
	p.prompts++
	fmt.Fprintf(p.w, "%s\n%s\n", rule(fmt.Sprintf("── %s ", visible.Line(id)), p.width), indent(p.cut(prompt, 600)))
}

// errNoCompletions says that a file is not one that sample run wrote.
var errNoCompletions = errors.New("it has no completions")

// printPrompts prints a file that is no output but an input.
func (p *printer) printPrompts(ctx context.Context, file string) error {
	reader, err := promptset.OpenFrom(ctx, promptset.Anywhere(), []string{file})
	if err != nil {
		return fmt.Errorf("%s is neither an output of sample run nor an input for it: %w", file, err)
	}
	for row := range reader.Rows(ctx) {
		if p.rows > 0 && p.prompts == p.rows {
			break
		}
		text := row.Prompt
		switch row.Kind {
		case promptset.KindMessages:
			text = strings.Join(messageLines(row.Messages), "\n")
		case promptset.KindTokens:
			text = fmt.Sprintf("%s: %v", plural.Count(len(row.TokenIDs), "token"), row.TokenIDs)
		}
		if row.Err != nil {
			text = "error: " + row.Err.Error()
		}
		p.head(row.ID, text)
	}
	if err := reader.Err(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(p.w, "%s has %s and no completions: it is an input, and sample run --input %s draws some\n",
		file, plural.Count(reader.NumRows(), "prompt"), file)
	return err
}

func messageLines(messages []promptset.Message) (lines []string) {
	for _, m := range messages {
		lines = append(lines, m.Role+": "+m.Content)
	}
	return lines
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
		return fmt.Sprintf("%s: %v", plural.Count(len(ids), "token"), ids)
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
