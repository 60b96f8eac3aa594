package look

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/visible"
)

func NewExplain() *cli.Command {
	var id string
	var asJSON bool
	return &cli.Command{
		Name:    "explain",
		Args:    "FOLDER",
		Summary: "report why completions of a row were generated or copied",
		About: `
Reports how the completions of the rows with an id came to be in the output of "sample run": generated, copied from an
output that --reuse named, or copied of an equal row. For those that were generated, it reports what each of these outputs
has in place of them: another prompt, other parameters, another seed, or another model. It reads what was noted with
the parts that are published (docs/reuse.md), and changes nothing.`,
		Example: `
sample explain out --id 17
sample explain s3://bucket/out --id review-3 --json`,
		Flags: func(f *cli.Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) {
				s.StringVar(&id, "id", "", "`ID` the id of the row; a row without one has its number")
				s.BoolVar(&asJSON, "json", false, "print JSON")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 1 {
				return cli.Usagef("explain: give one folder: the output of a run")
			}
			if id == "" {
				return cli.Usagef("explain: give the id of a row by --id")
			}
			output, err := storage.Hide(args[0])
			if err != nil {
				return err
			}
			all, err := reuse.Explain(ctx, env.FS, output, id)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(env.Stdout, all)
			}
			for _, x := range all {
				printExplanation(env.Stdout, &x)
			}
			return nil
		},
	}
}

// originTexts say how completions came to be, by the names in an explanation.
var originTexts = map[string]string{
	"generated": "generated",
	"repeated":  "copied of an equal row of this job, or of an equal generation",
	"kept":      "kept by an earlier process of the job, in its journal or in an earlier version of the part",
}

func printExplanation(w io.Writer, x *reuse.Explanation) {
	var how []string
	for _, origin := range x.Origins {
		if origin == "copied" {
			how = append(how, "copied from "+x.Source)
		} else {
			how = append(how, originTexts[origin])
		}
	}
	n := len(x.Generations)
	which := fmt.Sprintf("generation %d", x.Generations[0])
	if n > 1 {
		which = fmt.Sprintf("generations %d to %d", x.Generations[0], x.Generations[n-1])
	}
	fmt.Fprintf(w, "%s row %d, %s: %s\n", x.Part, x.Position, which, visible.Line(strings.Join(how, "; ")))
	for _, reason := range x.Reasons {
		fmt.Fprintf(w, "  %s\n", visible.Line(reason))
	}
}
