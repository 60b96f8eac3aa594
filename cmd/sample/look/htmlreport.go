package look

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/review"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
)

func NewHTMLReport() *cli.Command {
	var output, workDir string
	var page string
	return &cli.Command{
		Name:    "report",
		Args:    "FOLDER",
		Summary: "make an HTML page of what a run did",
		About: `
FOLDER is the --output of a run that is finished or under way. The page shows throughput, slots and pages in use over
time, lengths, finish reasons, errors, the slowest rows, and some completions. It is one file; open it in a browser. It
needs no network and runs no scripts.`,
		Example: `
sample report out
sample report out -o report.html`,
		Flags: func(fl *cli.Flags) {
			fl.Group("Output", func(s *pflag.FlagSet) {
				cli.PlaceVar(s, &page, cli.OnThisMachine, "output", "o",
					"`FILE` where the page goes (default: FOLDER/_report.html, or report.html for a folder of objects)")
				cli.PlaceVar(s, &workDir, cli.OnThisMachine, "work-dir", "",
					"`FOLDER` the --work-dir of the run, if it had one")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("report: give one folder, the output of a run")
			}
			var err error
			if output, err = cli.Anywhere.Resolve(args[0]); err != nil {
				return cli.Exit(cli.ExitUsage, fmt.Errorf("report: %w", err))
			}
			if output, err = storage.Hide(output); err != nil {
				return err
			}
			if err := cli.Writable("output", page); err != nil {
				return err
			}
			return makeReport(ctx, env, output, workDir, page)
		},
	}
}

// makeReport writes the page of the job in output.
func makeReport(ctx context.Context, env *cli.Environment, output, workDir, path string) error {
	switch {
	case path != "":
	case storage.IsRemote(output):
		path = "report.html"
	default:
		path = filepath.Join(output, "_report.html")
	}
	page, err := review.Page(ctx, env.FS, output, workDir)
	if err != nil {
		return err
	}
	var text bytes.Buffer
	if err := page.Write(&text); err != nil {
		return err
	}
	if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "%s\n", path)
	return nil
}
