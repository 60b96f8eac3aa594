// Package look has the subcommands that read an output: show, stats, verify and report.
package look

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

// showOptions are the flags of "sample show".
type showOptions struct {
	rows, longest      int
	full, json, errors bool
	ids                []string
	grep, diff         string
	accepted           string // all, some or none: of a row's completions
	workDir, snapshot  string
	pattern            *regexp.Regexp
}

func NewShow() *cli.Command {
	var o showOptions
	return &cli.Command{
		Name:    "show",
		Args:    "FOLDER|FILE",
		Summary: "print completions from an output folder readably",
		About: `
Prints the first rows of an output with their completions; or those that --id, --errors, --grep and --accepted all
select; or the longest. Of a job that is not finished it also prints the completions that are in no part yet,
	from the job's journal; it
takes no lock and does not disturb a run. --diff prints how completions differ from another output: [-what only the first has-], {+what only
the other has+}. It ends with 1 if any differ. It compares text, finish reason and error, and tokens where both have
them, whatever the order of the rows.`,
		Example: `
sample show out
sample show out --rows 20 --full
sample show out --errors
sample show out --grep '(?i)as an ai' --rows 0 --json | wc -l
sample show out --longest 3
sample show out --accepted some --rows 0 --json > mixed.jsonl
sample show out --snapshot so-far     # of a running job: part files of what is in no part yet
sample show out --diff yesterday
sample show out --diff yesterday --id q17 --full
sample show out/part-00003.parquet
sample show prompts.jsonl             # an input: its prompts`,
		Flags: func(f *cli.Flags) {
			f.Group("Rows", func(s *pflag.FlagSet) {
				s.IntVarP(&o.rows, "rows", "r", 5,
					"`PROMPTS` print this many prompts, each with all its completions; 0 prints all")
				s.StringArrayVar(&o.ids, "id", nil, "`ID` print rows with this id; may be repeated")
				s.BoolVar(&o.errors, "errors", false, "print rows that carry an error")
				s.StringVar(&o.grep, "grep", "",
					"`REGEXP` print rows whose prompt or a completion matches, in Go's syntax (RE2)")
				s.StringVar(&o.accepted, "accepted", "",
					"`HOW` print rows of which all, some (not all), or none of the completions are accepted; rows of "+
						"which some are carry a signal for policies that compare the completions of a prompt")
				s.IntVar(&o.longest, "longest", 0, "`N` print the N rows with the longest completions, longest first")
				cli.PlaceVar(s, &o.diff, cli.Anywhere, "diff", "",
					"`FOLDER` print the rows that differ from another output, by id and generation")
			})
			f.Group("Form", func(s *pflag.FlagSet) {
				s.BoolVar(&o.full, "full", false, "do not cut long texts")
				s.BoolVar(&o.json, "json", false, "print a JSON object a row, texts whole")
				cli.PlaceVar(s, &o.snapshot, cli.OnThisMachine, "snapshot", "",
					"`FOLDER` print nothing; write the parts that the journal adds completions to, so far, to FOLDER, "+
						"as part files with the names and columns that the job's own will have")
				cli.PlaceVar(s, &o.workDir, cli.OnThisMachine, "work-dir", "",
					"`FOLDER` the --work-dir of the job, if it had one")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			cli.PaintLines(env.Stdout, cli.OfHeadings)
			if len(args) != 1 {
				return cli.Usagef("show needs one output folder or part file, but was given %s",
					plural.Count(len(args), "argument"))
			}
			if err := o.check(); err != nil {
				return err
			}
			return runShow(ctx, env, &o, args[0])
		},
	}
}

func (o *showOptions) check() (err error) {
	switch {
	case o.rows < 0:
		return cli.Usagef("--rows is %d, but must be 0 (all) or more", o.rows)
	case o.longest < 0:
		return cli.Usagef("--longest is %d, but must be 1 or more", o.longest)
	case o.diff != "" && (o.longest > 0 || o.errors || o.grep != "" || o.accepted != ""):
		return cli.Usagef("--diff cannot be combined with --errors, --grep, --accepted or --longest; --id chooses " +
			"rows of both outputs")
	case !slices.Contains([]string{"", "all", "some", "none"}, o.accepted):
		return cli.Usagef("--accepted is %q, but must be all, some or none", o.accepted)
	case o.snapshot != "" && (o.diff != "" || o.selects() || o.json):
		return cli.Usagef("--snapshot writes all rows: it cannot be combined with --diff, --json or flags that " +
			"choose rows")
	}
	if o.grep != "" {
		if o.pattern, err = regexp.Compile(o.grep); err != nil {
			return cli.Usagef("--grep: %v", err)
		}
	}
	return nil
}

// selects reports whether some rows only are wanted.
func (o *showOptions) selects() bool {
	return o.errors || o.pattern != nil || o.accepted != "" || len(o.ids) > 0 || o.longest > 0
}

// wants reports whether a row is one of them.
func (o *showOptions) wants(row *review.Row) bool {
	switch {
	case len(o.ids) > 0 && !slices.Contains(o.ids, row.ID), o.errors && !row.Failed(),
		o.accepted != "" && o.accepted != row.Accepted():
		return false
	case o.pattern == nil || o.pattern.MatchString(row.Prompt):
		return true
	}
	return slices.ContainsFunc(row.Completions, func(c promptset.Result) bool {
		return o.pattern.MatchString(c.Text) || o.pattern.MatchString(c.Err) ||
			o.pattern.MatchString(c.Reasoning) || o.pattern.MatchString(c.ToolCalls)
	})
}

func runShow(ctx context.Context, env *cli.Environment, o *showOptions, name string) error {
	path, err := cli.Anywhere.Resolve(name)
	if err == nil {
		path, err = storage.Hide(path)
	}
	if err == nil && o.diff != "" {
		o.diff, err = storage.Hide(o.diff)
	}
	if err != nil {
		return cli.Exit(cli.ExitUsage, fmt.Errorf("show: %w", err))
	}
	parts, err := review.Open(ctx, env.FS, path, o.workDir)
	if err != nil {
		return err
	}
	defer parts.Close()
	if o.snapshot != "" {
		return writeSnapshot(ctx, env, parts, o.snapshot)
	}
	if err := parts.NoneYet(); err != nil {
		return err
	}
	parts.FindPrompts(ctx)
	out := bufio.NewWriter(env.Stdout)
	p := &printer{w: out, rows: o.rows, full: o.full, json: o.json, width: min(cli.TerminalWidth(env.Stdout), 120)}
	if o.diff != "" {
		d := &differ{printer: p, names: [2]string{path, o.diff}, err: env.Stderr}
		err := d.print(ctx, env, parts, o.ids)
		return errors.Join(err, out.Flush())
	}
	if err := p.printOutput(ctx, parts, o); err != nil {
		return err
	}
	if p.prompts == 0 && !o.json {
		what := "rows"
		if o.selects() {
			what = "such rows"
		}
		fmt.Fprintf(out, "%s has no %s\n", path, what)
	}
	if progress := parts.Progress(); progress != nil {
		fmt.Fprintln(env.Stderr, visible.Line(progress.String()))
	}
	work, err := process.WorkFolder(path, o.workDir)
	if err != nil {
		return err
	}
	if all, ok := resume.CompletenessOf(ctx, env.FS, path, work); ok && len(all.Missing) > 0 {
		fmt.Fprintln(env.Stderr, all)
	}
	return out.Flush()
}

// writeSnapshot writes what the journal has of parts that are not there.
func writeSnapshot(ctx context.Context, env *cli.Environment, out *review.Output, folder string) error {
	written, err := out.Snapshot(ctx, env.FS, folder)
	if err != nil {
		return err
	}
	if progress := out.Progress(); progress != nil {
		fmt.Fprintln(env.Stderr, visible.Line(progress.String()))
	}
	_, err = fmt.Fprintf(env.Stdout, "%s in %s\n", plural.Count(written, "part"), folder)
	return err
}

// printOutput prints the rows of an output that are wanted, or the prompts of a file that is an input.
func (p *printer) printOutput(ctx context.Context, out *review.Output, o *showOptions) error {
	rows := func(yield func(*review.Row, error) bool) {
		for row, err := range review.Rows(ctx, out) {
			if (err != nil || o.wants(row)) && !yield(row, err) {
				return
			}
		}
	}
	if o.longest > 0 {
		longest, err := review.Longest(rows, o.longest)
		for _, row := range longest {
			p.print(row)
		}
		return err
	}
	for row, err := range rows {
		if errors.Is(err, completion.ErrNoCompletions) && p.prompts == 0 && !o.selects() && !p.json {
			return p.printPrompts(ctx, out.Parts[0].Name)
		}
		if err != nil {
			return err
		}
		if p.print(row); p.rows > 0 && p.prompts == p.rows {
			return nil
		}
	}
	return nil
}
