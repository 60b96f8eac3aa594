package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/promptset"
)

func newRun() *subcommand {
	var o runOptions
	var f *flags
	return &subcommand{
		name:    "run",
		args:    "[FILE...]",
		summary: "draw completions of every prompt in Parquet or JSONL files",
		about: `
Input rows have a column "prompt" (text), "messages" (a list of role and content) or "prompt_token_ids". Optional columns:
"id", and parameters of the row's own that come before the flags: n, max_tokens, temperature, top_k, top_p, min_p, seed,
stop, ignore_eos, generation (the number of the first one).

Output rows, n for each input row and in its order, have the input's columns, and id, generation, text, token_ids,
logprobs, finish_reason (stop, length or error), prompt_tokens, completion_tokens and error. A row that can't be run
becomes one row with an error, the job goes on, and the exit code is 3.

A completion depends on the model, the row's id, the generation and the seed, not on what else runs. SIGINT or SIGTERM ends
the run after writing the rows that are finished; the exit code is then 4.`,
		example: `
sample run --model smollm2 --input prompts.parquet --output out
sample run -m ./Llama-3.2-1B -i 'data/*.parquet' -o out -n 8 --temperature 0.8 --top-p 0.95 --seed 1
sample run -m model.gguf -i chats.jsonl -o out --format jsonl --stop 'User:' --max-tokens 64
sample run --config configs/smollm2-demo.yaml --limit 10 --output out/try`,
		flags: func(fl *flags) { f = fl; o.define(f) },
		run: func(ctx context.Context, env *environment, args []string) error {
			if o.config != "" {
				if err := applyConfig(o.config, f, "config"); err != nil {
					return &exitError{exitUsage, err}
				}
			}
			o.inputs = append(o.inputs, args...)
			if err := o.check(); err != nil {
				return &exitError{exitUsage, fmt.Errorf("run: %w", err)}
			}
			stop, err := o.diagnostics.profile()
			if err != nil {
				return err
			}
			return errors.Join(runJob(ctx, env, &o), stop())
		},
	}
}

// runJob does the whole job: read, draw, write, report.
func runJob(ctx context.Context, env *environment, o *runOptions) error {
	started := time.Now()
	// What is wrong with the files comes out before the model takes its time.
	reader, err := promptset.Open(ctx, o.inputs)
	if err != nil {
		return err
	}
	if err := checkOutput(o); err != nil {
		return err
	}
	if o.progress != "none" {
		fmt.Fprintf(env.stderr, "opening %s on %s; a first run compiles its programs, later ones find them in the cache\n", o.model, o.backend)
	}
	s, err := env.open(ctx, env, o)
	if err != nil {
		return err
	}
	defer s.close()
	if o.progress != "none" {
		fmt.Fprintf(env.stderr, "%s\n", s.Plan())
	}
	writer, err := promptset.Create(o.output, promptset.WriterOptions{
		Format: o.format, Schema: reader.Schema(), Meta: o.footer(s), Overwrite: o.overwrite,
	})
	if err != nil {
		return err
	}
	j := &job{options: o, reader: reader, out: newCollector(writer, rowsInFlight), builder: requestBuilder{o, s}}
	runErr := j.run(ctx, s, newMeter(env.stderr, o.progress, j.total()))
	interrupted := ctx.Err() != nil
	counts, unfinished := j.out.counts()
	if (interrupted || runErr != nil) && counts.Rows == 0 {
		writer.Abort()
	} else if err := writer.Close(); err != nil && !errors.As(err, new(*promptset.MissingRowsError)) {
		return err
	}
	report := j.report(s, started, interrupted)
	report.print(env.stdout)
	if o.report != "" {
		if err := writeReport(o.report, report); err != nil {
			return err
		}
	}
	switch {
	case interrupted:
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %d rows are in %s, %d were begun and are not", counts.Rows, o.output, unfinished)}
	case runErr != nil:
		return fmt.Errorf("%w (%d finished rows are in %s)", runErr, counts.Rows, o.output)
	case counts.RowsWithErrors > 0:
		return &exitError{exitPartial, fmt.Errorf("%d of %d rows carry errors: see the column error in %s", counts.RowsWithErrors, counts.Rows, o.output)}
	}
	return nil
}

// checkOutput refuses an output folder with part files early; promptset.Create does so for good.
func checkOutput(o *runOptions) error {
	if o.overwrite {
		return nil
	}
	if parts, err := filepath.Glob(filepath.Join(escapeGlob(o.output), "part-*")); err == nil && len(parts) > 0 {
		return fmt.Errorf("%s: %w: choose another --output, or give --overwrite", o.output, promptset.ErrOutputExists)
	}
	return nil
}

// job is one run over a prompt set.
type job struct {
	options *runOptions
	reader  *promptset.Reader
	builder requestBuilder
	out     *collector
}

// total is the number of rows to come.
func (j *job) total() int64 {
	if limit := j.options.limit; limit > 0 {
		return min(limit, j.reader.NumRows())
	}
	return j.reader.NumRows()
}

// run draws the completions of all rows. Its error is what ended it early.
func (j *job) run(ctx context.Context, s sampler, m *meter) error {
	ctx, cancel := context.WithCancel(ctx) // lets go of the reading goroutine when the loop is left early
	defer cancel()
	var runErr error
	for c, err := range s.Run(ctx, j.requests(ctx)) {
		if err == nil {
			err = j.out.add(c)
		}
		if err != nil {
			runErr = err
			cancel()
			break
		}
		done, _ := j.out.counts()
		m.update(done)
	}
	done, _ := j.out.counts()
	m.finish(done)
	if runErr == nil {
		runErr = j.out.err // of a row that never reached the engine
	}
	return runErr
}

// requests yields a request for each good row; bad rows go straight to the output.
func (j *job) requests(ctx context.Context) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		left := j.total()
		for row := range j.reader.Rows(ctx) {
			if left--; left < 0 {
				return
			}
			r, err := j.builder.request(row)
			if err != nil {
				if j.out.fail(ctx, row, err) != nil {
					return
				}
				continue
			}
			p, err := j.out.begin(ctx, row, r.N)
			if err != nil {
				return
			}
			r.Tag = p
			if !yield(r) {
				return
			}
		}
	}
}

// rowError names a row and what is wrong with it; the row's own errors do both.
func rowError(row *promptset.Row, failure string) string {
	if row.Err != nil && row.Err.Error() == failure {
		return failure
	}
	return row.Error(fmt.Sprintf("(id %s) %s", row.ID, failure)).Error()
}

// footer is what the output files say of how they were made.
func (o *runOptions) footer(s *session) map[string]string {
	parameters, _ := json.Marshal(o.parameters())
	return map[string]string{
		"quire.version": quireVersion(), "quire.model": s.model, "quire.model_fingerprint": s.fingerprint,
		"quire.parameters": string(parameters),
	}
}

// parameters are the settings that the completions depend on.
func (o *runOptions) parameters() map[string]any {
	return map[string]any{
		"n": o.n, "max_tokens": o.maxTokens, "temperature": o.sampling.Temperature, "top_k": o.sampling.TopK, "top_p": o.sampling.TopP,
		"min_p": o.sampling.MinP, "seed": o.sampling.Seed, "stop": o.stop, "ignore_eos": o.ignoreEOS, "chat_template": o.chatTemplate,
		"dtype": o.dtype, "kv_dtype": o.kvDType,
	}
}

func writeReport(path string, report any) error {
	text, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	if dir := filepath.Dir(path); dir != "." {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	if err := os.WriteFile(path, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("--report: %w", err)
	}
	return nil
}
