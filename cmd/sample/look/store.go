package look

import (
	"context"
	"fmt"
	"io"

	"github.com/dustin/go-humanize"
	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/reuse"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/storage"
	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/internal/visible"
)

func NewStore() *cli.Command {
	var asJSON bool
	var size string
	var keep reuse.Collection
	return &cli.Command{
		Name:    "store",
		Args:    "stats|gc FOLDER",
		Summary: "show or clear what a store of completions has",
		About: `
"sample run --store FOLDER" keeps the completions of all jobs there, and copies those that a job would generate again
(docs/reuse.md). "stats" counts them, by model. "gc" joins small files, and removes damaged ones, completions that are
there again, files that are older than --max-age, and the oldest ones until the others fit into --max-bytes. Jobs may
run meanwhile: what they do not find any more, they generate.`,
		Example: `
sample store stats ~/completions
sample store gc s3://bucket/completions --max-bytes 50GB --max-age 720h`,
		Flags: func(f *cli.Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) {
				s.BoolVar(&asJSON, "json", false, "print JSON")
				s.StringVar(&size, "max-bytes", "", "`SIZE` gc: keep this much, such as 50GB (default: all)")
				s.DurationVar(&keep.MaxAge, "max-age", 0, "`TIME` gc: keep what is newer, such as 720h; 0 keeps all")
			})
		},
		Run: func(ctx context.Context, env *cli.Environment, args []string) error {
			if len(args) != 2 || args[0] != "stats" && args[0] != "gc" {
				return cli.Usagef("store: give stats or gc, and the folder that runs keep their completions in")
			}
			place, err := storage.Hide(args[1])
			if err != nil {
				return err
			}
			if args[0] == "gc" {
				if size != "" {
					bytes, err := humanize.ParseBytes(size)
					if err != nil || bytes == 0 || bytes > 1<<62 {
						return cli.Usagef("store: --max-bytes is %q, but must be a size such as 50GB", size)
					}
					keep.MaxBytes = int64(bytes)
				}
				if keep.MaxAge < 0 {
					return cli.Usagef("store: --max-age is %s, but must be 0 (no limit) or more", keep.MaxAge)
				}
				removed, err := reuse.Collect(ctx, place, keep)
				if err != nil {
					return err
				}
				if !asJSON {
					fmt.Fprintf(env.Stdout, "removed      %s\n", plural.Count(removed, "file"))
				}
			}
			stored, err := reuse.Stats(ctx, place)
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(env.Stdout, stored)
			}
			printStored(env.Stdout, stored)
			return nil
		},
	}
}

func printStored(w io.Writer, s *reuse.Stored) {
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%-12s %s\n", name, visible.Line(fmt.Sprintf(format, args...)))
	}
	line("completions", "%s, %s of them again", humanize.Comma(s.Completions), humanize.Comma(s.Repeated))
	line("files", "%d with %s, %d damaged", s.Packs, humanize.IBytes(uint64(s.Bytes)), len(s.Damaged))
	for _, m := range s.Models {
		line("model", "%.12s by %s: %s", m.Model, m.Arithmetic, plural.Count(m.Completions, "completion"))
	}
	for _, name := range s.Damaged {
		line("damaged", "%s", name)
	}
}
