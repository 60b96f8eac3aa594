package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/cmd/sample/cli"
)

func newManual() *cli.Command {
	var folder string
	return &cli.Command{
		Name:    "manual",
		Args:    "[SUBCOMMAND]",
		Summary: "print a manual page, or write all of them",
		About: `
Prints the page of sample, or of a subcommand, in the format of man. The pages have the text of "sample help".`,
		Example: `
sample manual run | man -l -
sample manual --output ~/.local/share/man/man1    # then: man sample-run`,
		Flags: func(f *cli.Flags) {
			f.Group("Flags", func(s *pflag.FlagSet) {
				cli.PlaceVar(s, &folder, cli.OnThisMachine, "output", "o",
					"`FOLDER` write all pages to this folder (default: print one)")
			})
		},
		Run: func(_ context.Context, env *cli.Environment, args []string) error {
			switch {
			case folder != "" && len(args) > 0:
				return cli.Usagef("manual --output writes all pages, but was given %q", args)
			case folder != "":
				return writeManual(folder)
			case len(args) > 1:
				return cli.Usagef("manual takes one subcommand, but was given %q", args)
			case len(args) == 0:
				_, err := io.WriteString(env.Stdout, overviewPage())
				return err
			}
			sub, err := cli.Find(args[0])
			if err != nil {
				return err
			}
			_, err = io.WriteString(env.Stdout, subcommandPage(sub))
			return err
		},
	}
}

// writeManual writes all pages to a folder.
func writeManual(folder string) error {
	if err := os.MkdirAll(folder, 0o777); err != nil {
		return err
	}
	pages := map[string]string{"sample": overviewPage()}
	for _, sub := range cli.Commands() {
		pages["sample-"+sub.Name] = subcommandPage(sub)
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(folder, name+".1"), []byte(page), 0o666); err != nil {
			return err
		}
	}
	return nil
}

// page is a manual page in the making, in the macros of man.
type page struct{ strings.Builder }

func newPage(name, summary string) *page {
	p := &page{}
	fmt.Fprintf(p, ".TH %s 1 \"\" \"sample %s\" Quire\n.ad l\n", strings.ToUpper(roff(name)),
		roff(cli.QuireVersion()))
	p.section("NAME")
	fmt.Fprintf(p, "%s \\- %s\n", roff(name), roff(summary))
	return p
}

func (p *page) section(title string) { fmt.Fprintf(p, ".SH %s\n", roff(title)) }

// term writes a term and, indented, what it means.
func (p *page) term(term, text string) { fmt.Fprintf(p, ".TP\n.B %s\n%s\n", roff(term), roff(text)) }

// verbatim writes lines as they are.
func (p *page) verbatim(text string) { fmt.Fprintf(p, ".RS 4\n.nf\n%s\n.fi\n.RE\n", roff(text)) }

// paragraphs writes text, filled but for lines that are indented. The first line of a paragraph that ends in a colon
// and has indented lines after it is the title of a section.
func (p *page) paragraphs(text string) {
	for paragraph := range strings.SplitSeq(strings.Trim(text, "\n"), "\n\n") {
		title, lines, several := strings.Cut(paragraph, "\n")
		if several && strings.HasSuffix(title, ":") && strings.HasPrefix(lines, " ") {
			p.section(strings.ToUpper(strings.TrimSuffix(title, ":")))
			paragraph = lines
		}
		var indented []string
		for strings.HasPrefix(paragraph, " ") {
			line, rest, _ := strings.Cut(paragraph, "\n")
			indented, paragraph = append(indented, strings.TrimPrefix(line, "  ")), rest
		}
		if len(indented) > 0 {
			p.verbatim(strings.Join(indented, "\n"))
		}
		if paragraph != "" {
			fmt.Fprintf(p, ".PP\n%s\n", roff(paragraph))
		}
	}
}

// roff escapes text for a page: characters that start commands, and hyphens, at which it would break lines.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}

// overviewPage is the page of the command as a whole.
func overviewPage() string {
	p := newPage("sample", "generate completions of a set of prompts with a large language model")
	p.section("SYNOPSIS")
	fmt.Fprintf(p, ".B sample\nSUBCOMMAND [flags]\n")
	p.section("DESCRIPTION")
	about, _, _ := strings.Cut(cli.Overview, "\n\n")
	p.paragraphs(about)
	p.section("SUBCOMMANDS")
	for _, g := range cli.Groups() {
		fmt.Fprintf(p, ".SS %s\n", roff(g.Title))
		for _, sub := range g.Subs {
			p.term(sub.Name, sub.Summary)
		}
	}
	p.paragraphs(cli.OverviewExamples + cli.OverviewEnd)
	p.section("SEE ALSO")
	var names []string
	for _, sub := range cli.Commands() {
		names = append(names, fmt.Sprintf(".BR %s (1)", roff("sample-"+sub.Name)))
	}
	fmt.Fprintln(p, strings.Join(names, " ,\n"))
	return p.String()
}

// subcommandPage is the page of one subcommand.
func subcommandPage(sub *cli.Command) string {
	f := cli.NewFlags(sub.Name)
	sub.Flags(f)
	p := newPage("sample-"+sub.Name, sub.Summary)
	p.section("SYNOPSIS")
	fmt.Fprintf(p, ".B %s\n", roff(cli.UsageLine(sub, f)))
	p.section("DESCRIPTION")
	p.paragraphs(cli.Capitalized(sub.Summary) + ".\n\n" + sub.About)
	p.section("OPTIONS")
	for _, group := range f.Groups {
		fmt.Fprintf(p, ".SS %s\n", roff(group.Title))
		group.Set.VisitAll(func(flag *pflag.Flag) { p.term(strings.TrimSpace(cli.FlagHead(flag)), cli.FlagText(flag)) })
	}
	if sub.Example != "" {
		p.section("EXAMPLES")
		p.verbatim(strings.TrimSpace(sub.Example))
	}
	p.section("SEE ALSO")
	fmt.Fprintln(p, ".BR sample (1)")
	return p.String()
}
