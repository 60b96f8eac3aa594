package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/jobstate"
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
stop, ignore_eos, generation (the number of the first one). Names that OpenAI, vLLM, llama.cpp and transformers have for
these are known too; what Quire does not do makes the row an error that names the column (docs/parameters.md).

Output rows, n for each input row and in its order, have the input's columns, and id, generation, text, token_ids,
logprobs, finish_reason (stop, length or error), prompt_tokens, completion_tokens and error. A row that can't be run
becomes one row with an error, the job goes on, and the exit code is 3.

A completion depends on the model, the row's id, the generation and the seed, not on what else runs.

The same command goes on where an earlier run ended, whatever ended it, and gives the files that one run would have given.
Finished completions are kept in the journal, OUTPUT/_job, until the part of the output that they belong to is whole; parts
appear whole or not at all. The death of the process costs no finished completion, a loss of power those of the last second.
A folder that holds another job (other model files, parameters, inputs) is refused; --new removes what is there. SIGINT or
SIGTERM ends the run when the device's call under way is through; the exit code is then 4. A device that fails is started
again, with what was in flight.`,
		example: `
sample run --model smollm2 --input prompts.parquet --output out
sample run -m ./Llama-3.2-1B -i 'data/*.parquet' -o out -n 8 --temperature 0.8 --top-p 0.95 --seed 1
sample run -m model.gguf -i chats.jsonl -o out --format jsonl --stop 'User:' --max-tokens 64
sample run --config configs/smollm2-demo.yaml --limit 10 --output out/try`,
		flags: func(fl *flags) {
			f = fl
			o.define(f)
			f.group("One model on several hosts, a process on each, with the same command (docs/parallel.md)",
				o.hosts.define)
		},
		run: func(ctx context.Context, env *environment, args []string) error {
			if err := o.prepare(f, args); err != nil {
				return err
			}
			if err := errors.Join(writable("report", o.report),
				writable("save-prefix", o.pages.savePrefix)); err != nil {
				return err
			}
			stop, err := o.diagnostics.profile()
			if err != nil {
				return err
			}
			if o.units.workers > 0 {
				return errors.Join(runWorkers(ctx, env, &o, f), stop())
			}
			return errors.Join(runJob(ctx, env, &o), stop())
		},
	}
}

// runJob does the whole job: read, draw, write, report. Where the output folder has a part of it done, it does the
// rest.
func runJob(ctx context.Context, env *environment, o *runOptions) (err error) {
	started := time.Now()
	watch, err := o.observe(env)
	if err != nil {
		return err
	}
	defer func() { watch.close(resultOf(err)) }()
	ctx, leave, err := o.hosts.join(ctx, env, o.logger(env))
	if err != nil {
		return err
	}
	defer func() { err = leave(err) }()
	if err := o.needDevice(ctx, env); err != nil {
		return err
	}
	// What is wrong with the files comes out before the model takes its time.
	reader, err := o.openInputs(ctx)
	if err != nil {
		return err
	}
	model, err := env.identify(ctx, env, o)
	if err != nil {
		return err
	}
	if err := o.needTokenizer(ctx, model, reader); err != nil {
		return err
	}
	parts := o.parts(reader.NumRows())
	description, err := o.describe(reader, parts, model.fingerprint)
	if err != nil {
		return err
	}
	if err := o.agree(description); err != nil {
		return err
	}
	if o.hosts.follows() {
		return o.follow(ctx, env)
	}
	var saved *savedJob
	err = patiently(ctx, jobstate.ErrBusy, func() (err error) {
		saved, err = openSaved(ctx, env.fs, o, parts, description)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := saved.close(); err == nil {
			err = cerr
		}
	}()
	saved.tellDamaged(env.stderr)
	if len(saved.missing) == 0 {
		return finished(env, o, saved, model.fingerprint, started)
	}
	if err := o.lead(saved); err != nil {
		return err
	}
	warnOfColumns(env.stderr, reader)
	if o.progress != "none" {
		fmt.Fprintf(env.stderr,
			"opening %s on %s; a first run compiles its programs, later ones find them in the cache\n", o.model,
			o.backend)
	}
	j := &job{options: o, reader: reader, saved: saved, stderr: env.stderr, observer: watch}
	var s *session
	closeSession := func() {
		if s != nil {
			s.close()
		}
		s = nil
	}
	defer closeSession()
	open := func() (*session, error) {
		closeSession()
		opened, err := env.open(ctx, env, o)
		s = opened
		return opened, err
	}
	first, err := open()
	if err != nil {
		return err
	}
	plan := first.Plan()
	description.Settled, description.Device, description.Meta = settled(plan), plan.Backend, o.footer(first)
	if description.Arithmetic, err = o.arithmetic(first.device); err != nil {
		return err
	}
	others, err := saved.claim(env.fs, o, description)
	if err != nil {
		return err
	}
	if others && !sameSettled(settled(plan), saved.state.Job().Settled) {
		if o.hosts.several() {
			return errors.New(
				"another shard was faster and settled on other sizes: start all processes of this shard again, which " +
					"then take those")
		}
		if first, err = open(); err != nil { // with what the faster process settled on
			return err
		}
		plan = first.Plan()
	}
	if err := saved.computes(o, description.Arithmetic); err != nil {
		return err
	}
	if err := saved.open(env.fs, env.stderr); err != nil {
		return err
	}
	if o.progress != "none" {
		fmt.Fprintf(env.stderr, "%s\n", plan)
	}
	saved.announce(env.stderr, o, plan)
	watch.keep(env, saved.state.Dir(), o.anew)
	watch.started(plan, saved.rows, saved.before.Rows)
	saved.observer = watch
	writer, err := saved.writer(o, reader.Schema())
	if err != nil {
		return err
	}
	j.builder, j.out = requestBuilder{o, first, &commonPrefix{}, newEqualRows(env.stderr)},
		newCollector(writer, saved.journal, rowsInFlight)
	j.out.before, j.out.observer = saved.before, watch
	last, runErr := j.run(ctx, first, open, newMeter(env.stderr, o.progress, saved.rows))
	interrupted := ctx.Err() != nil && !o.hosts.lost()
	// The writer's error has been that of the run.
	if err := writer.Close(); runErr == nil {
		runErr = err
	}
	if err := saved.journal.Close(); err != nil && (runErr == nil || interrupted) {
		runErr, interrupted = err, false
	}
	if runErr == nil && !interrupted {
		runErr = o.pages.save(ctx, last, j.builder.common.tokens)
	}
	if runErr == nil && !interrupted && len(writer.Unpublished()) == 0 {
		runErr = saved.clearJournals(env.fs) // of shards too, whose parts a run of the whole job has done
	}
	report := j.report(last, started, interrupted)
	report.print(env.stdout)
	saved.tellStanding(env.stdout)
	if o.report != "" {
		if err := writeReport(o.report, report); err != nil {
			return err
		}
	}
	kept := fmt.Sprintf("%d of %d rows are finished and kept in %s%s; run the same command again to go on", report.Rows,
		saved.rows, o.output, report.partly())
	switch {
	case interrupted:
		return &exitError{exitInterrupted, fmt.Errorf("interrupted: %s", kept)}
	case runErr != nil:
		return fmt.Errorf("%w (%s)", runErr, kept)
	case len(writer.Unpublished()) > 0:
		return fmt.Errorf("%s not finished, and nothing says why: this is a fault, please report it (%s)",
			plural.Count(len(writer.Unpublished()), "part")+plural.Of(len(writer.Unpublished()), " was", " were"), kept)
	case report.RowsWithErrors > 0:
		return &exitError{exitPartial, fmt.Errorf("%d of %d rows carry errors: see the column error in %s",
			report.RowsWithErrors, report.Rows, o.output)}
	}
	return nil
}

// finished says that there is nothing to do.
func finished(env *environment, o *runOptions, saved *savedJob, fingerprint string, started time.Time) error {
	// The last process may have died between the last part and this.
	if err := saved.clearJournals(env.fs); err != nil {
		return err
	}
	t := saved.before
	what, hint := o.output, "; --new draws them again"
	if !o.shard.Whole() {
		what, hint = fmt.Sprintf("shard %s of %s", o.shard, o.output), ""
	}
	fmt.Fprintf(env.stdout, "%s is finished: %s in %s, %s, %s%s\n", what, plural.Count(saved.rows, "row"),
		plural.Count(saved.mine, "part"), plural.Count(t.Completions, "completion"),
		plural.Count(t.RowsWithErrors, "row with errors"), hint)
	saved.tellStanding(env.stdout)
	if saved.mine == 0 {
		fmt.Fprintf(env.stdout,
			"shard %s has no part: the job has %d, and a smaller --part-rows makes more of a new job\n", o.shard,
			saved.parts.Count())
	}
	if o.report != "" {
		if err := writeReport(o.report, &runReport{
			Version: quireVersion(), Model: o.model, Fingerprint: fingerprint, Inputs: o.inputs, Output: o.output,
			Shard:      shardText(o.shard),
			Parameters: o.parameters(), Counts: t, RowsBefore: t.Rows, TotalSeconds: time.Since(started).Seconds(),
		}); err != nil {
			return err
		}
	}
	if _, err := os.Stat(o.pages.savePrefix); o.pages.savePrefix != "" && err != nil {
		return fmt.Errorf(
			"--save-prefix %s was not written: the job is finished and nothing was run; --new draws it again",
			o.pages.savePrefix)
	}
	if t.RowsWithErrors > 0 { // as for the run that finished it, whose exit code may have been lost with it
		return &exitError{exitPartial, fmt.Errorf("%d of %d rows carry errors: see the column error in %s",
			t.RowsWithErrors, t.Rows, o.output)}
	}
	return nil
}

// kernelLevel is in the description of a backend; what of it decides bytes is in the job's arithmetic.
var kernelLevel = regexp.MustCompile(`kernels \w+, `)

// announce says what an earlier process did of the job.
func (s *savedJob) announce(w io.Writer, o *runOptions, plan engine.Plan) {
	if !s.resumed {
		return
	}
	rows, completions := s.journaled()
	what := "the job in " + o.output
	if !s.shard.Whole() {
		what = fmt.Sprintf("shard %s of %s", s.shard, what)
	}
	// Other shards may have begun the job, and this one nothing yet.
	if published := s.mine - len(s.missing); o.progress != "none" && (s.shard.Whole() || published+completions > 0) {
		fmt.Fprintf(w, "going on with %s: %d of %d parts are published, and the journal has %s of %d more %s\n",
			what, published, s.mine, plural.Count(completions, "completion"), rows, plural.Noun(rows, "row"))
	}
	if was := s.state.Job().Device; kernelLevel.ReplaceAllString(was, "") != kernelLevel.ReplaceAllString(plan.Backend,
		"") {
		fmt.Fprintf(w,
			"warning: the job was begun on %q and goes on with %q: completions may differ in their last digits from "+
				"those of a single run\n", was, plan.Backend)
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
