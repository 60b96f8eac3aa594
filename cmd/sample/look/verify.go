package look

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/dustin/go-humanize"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/verify"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
)

func NewVerify() *cli.Command {
	var output, workDir string
	var asJSON bool
	return &cli.Command{
		Name:    "verify",
		Args:    "FOLDER",
		Summary: "read a whole output and report what is damaged",
		About: `
Reads every part of the output of "sample run" and compares it with what was noted when it was written: size and
SHA-256, Parquet footers, rows. Each generation of each input row must be there once, in the order of the input; ids and
numbers of completions are compared with the input files, where these can be read and are unchanged. It also reads
job.json, the notes on parts and the journal.

It changes nothing and takes no lock, so it may be used while the job runs: it looks at the parts that are there when it
begins. Each problem is one line, with its remedy. A part that is missing because the job is not finished is no problem.

Exit codes: 0 nothing is wrong, 5 something is damaged or missing, 1 it could not be checked, 4 interrupted.`,
		Example: `
sample verify out
sample verify s3://bucket/out --json | jq .problems`,
		Flags: func(f *cli.Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) {
				s.BoolVar(&asJSON, "json", false, "print JSON")
				s.StringVar(&workDir, "work-dir", "", "`FOLDER` the --work-dir of the run, if it had one")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("verify: give one folder: the output of a run")
			}
			var err error
			if output, err = storage.Hide(args[0]); err != nil {
				return err
			}
			bar := newByteBar(env.Stderr)
			report, err := verify.Output(ctx, env.FS, output, workDir, bar)
			bar.finish()
			if err != nil {
				return err
			}
			if err := printVerified(env.Stdout, report, asJSON); err != nil {
				return err
			}
			if n := len(report.Problems); n > 0 {
				return cli.Exit(cli.ExitDamaged, fmt.Errorf("%s is damaged: %s", report.Output,
					plural.Count(n, "problem")))
			}
			return nil
		},
	}
}

// missingNamed is how many missing parts are named in a line.
const missingNamed = 5

// printVerified writes what verify found.
func printVerified(w io.Writer, r *verify.Report, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(w, r)
	}
	var lines []string
	for _, p := range r.Problems {
		lines = append(lines, fmt.Sprintf("%s: %s (%s)", p.File, p.What, p.Remedy.Spell(cli.AsFlag)))
	}
	for _, n := range r.Notes {
		lines = append(lines, "note: "+n)
	}
	if r.Inputs != "compared" {
		lines = append(lines, "note: the inputs are "+r.Inputs)
	}
	if n := len(r.Missing); n > 0 {
		names := strings.Join(r.Missing[:min(n, missingNamed)], ", ")
		if n > missingNamed {
			names += fmt.Sprintf(" and %d more", n-missingNamed)
		}
		lines = append(lines,
			fmt.Sprintf("missing: %s; the journal here has %s; the same sample run command continues it",
				names,
				plural.Count(r.Journaled, "completion")))
	}
	total := ""
	if r.Parts > 0 {
		total = fmt.Sprintf(" of %d", r.Parts)
	}
	lines = append(lines, fmt.Sprintf("%s is %s: %d%s parts are whole; %s and %s were read", r.Output, r.Status,
		r.Whole,
		total, plural.Count(r.Rows, "row"), humanize.IBytes(uint64(r.Bytes))))
	_, err := fmt.Fprintln(w, strings.Join(lines, "\n"))
	return err
}

// byteBar shows on a terminal how much was read; elsewhere it is silent.
type byteBar struct{ bar *progressbar.ProgressBar }

func newByteBar(w io.Writer) *byteBar {
	if !cli.IsTerminal(w) {
		return &byteBar{}
	}
	return &byteBar{progressbar.NewOptions64(-1, progressbar.OptionSetWriter(w), progressbar.OptionShowBytes(true),
		progressbar.OptionThrottle(cli.BarEvery), progressbar.OptionClearOnFinish())}
}

func (b *byteBar) Describe(text string) {
	if b.bar != nil {
		b.bar.Describe(text)
	}
}

func (b *byteBar) Add(n int64) {
	if b.bar != nil {
		_ = b.bar.Add64(n)
	}
}

func (b *byteBar) finish() {
	if b.bar != nil {
		_ = b.bar.Finish()
	}
}
