package estimate

import (
	"context"
	"fmt"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// auditOptions are the flags of "sample audit".
type auditOptions struct {
	run  jobflags.Options
	rows int64
	draw uint64
	json bool
}

func NewAudit() *cli.Command {
	var o auditOptions
	var f *cli.Flags
	return &cli.Command{
		Name:    "audit",
		Args:    "FOLDER",
		Summary: "generate random rows of an output again and compare them",
		About: `
Generates random rows of the published parts in FOLDER again, and compares their completions with the parts, byte for
byte as they are written. The job is what FOLDER/_job/job.json says. Flags or the --config of the "sample run" that
made the output come before that: give those that name what was moved, and files that job.json has only the digest of.
A job with other model files, inputs or parameters is refused, and so is a machine that computes in another way. It
changes nothing, calls no tools, and asks no --accept-command: what these answered is taken from the output.

It prints the share of the rows that it audited and, if all of them are equal, how sure it is that fewer than 1 % of
the rows differ. Rows with errors are not audited.

Exit codes: 0 all audited rows are equal, 5 some differ, and their ids are printed, 1 it could not be done.`,
		Short: []string{"model", "input", "config", "rows", "rows-seed", "json"},
		Example: `
sample audit out
sample audit out --config job.yaml
sample audit out -m smollm2 --prompt-as user -i prompts.jsonl --temperature 0.8 --rows 500`,
		Flags: func(fl *cli.Flags) {
			f = fl
			f.Group("Audit", func(s *pflag.FlagSet) {
				s.Int64Var(&o.rows, "rows", 100, "`N` rows that are generated again")
				s.Uint64Var(&o.draw, "rows-seed", 0, "`SEED` which rows are chosen")
				s.BoolVar(&o.json, "json", false, "print JSON")
			})
			o.run.Define(f)
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("audit: give one folder: the output of a run")
			}
			if o.rows < 1 {
				return cli.Usagef("audit: --rows is %d, but must be 1 or more", o.rows)
			}
			if err := f.Set.Set("output", args[0]); err != nil {
				return cli.Usagef("audit: %v", err)
			}
			if err := o.run.Read(f, nil); err != nil {
				return cli.Exit(cli.ExitUsage, err)
			}
			started, err := jobstate.ReadOutput(ctx, args[0])
			if err == nil && started != nil {
				err = jobflags.ReadStarted(f, started)
			}
			if err != nil {
				return fmt.Errorf("audit: %w", err)
			}
			if started == nil && !f.Set.Changed("model") && !f.Set.Changed("config") {
				return cli.Usagef("audit: %s has no _job/job.json: give the output of a run, or the run's flags",
					args[0])
			}
			if err := o.run.Settle(f); err != nil {
				return err
			}
			a, err := o.run.Task(env, nil).Audit(ctx, o.rows, o.draw)
			if err != nil {
				return err
			}
			if o.json {
				if err := cli.PrintJSON(env.Stdout, a); err != nil {
					return err
				}
			} else {
				fmt.Fprintf(env.Stdout, "rows         %s in published parts\n", humanize.Comma(a.Rows))
				fmt.Fprintf(env.Stdout, "audited      %s (%.3g %%), %d differ\n", humanize.Comma(a.Audited),
					100*float64(a.Audited)/float64(max(1, a.Rows)), len(a.Differ))
				if a.Without > 0 {
					fmt.Fprintf(env.Stdout, "not audited  %s with errors, or whose keys or parents are not there\n",
						plural.Count(a.Without, "row"))
				}
				for _, what := range a.MissingVersions() {
					fmt.Fprintf(env.Stdout, "missing      %s\n", what)
				}
				for _, id := range a.Differ {
					fmt.Fprintf(env.Stdout, "differs      id %s\n", visible.Line(id))
				}
				if len(a.Differ) == 0 {
					fmt.Fprintf(env.Stdout, "confidence   %.3g %% that fewer than 1 %% of the rows differ\n",
						100*a.Confidence)
				}
			}
			if n := len(a.Differ); n > 0 {
				return cli.Exit(cli.ExitDamaged, fmt.Errorf("%s of %s %s", plural.Count(n, "row"), a.Output,
					plural.Of(n, "differs", "differ")))
			}
			return nil
		},
	}
}
