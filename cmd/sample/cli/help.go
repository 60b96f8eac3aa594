package cli

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/pflag"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
)

var Overview = strings.Join(wrap("sample generates completions of a set of prompts with a large language model. It "+
	"reads prompts from "+promptset.InputFormats()+" files, writes the completions to Parquet or JSONL files, and "+
	"computes with XLA through PJRT on CPUs, GPUs and TPUs.", helpWidth), "\n") + `

Usage:
  sample SUBCOMMAND [flags]
`

const OverviewExamples = `
A first run on a new machine, which fetches what it needs:
  sample run -m smollm2 --temperature 0 "Why is the sky blue?"
  sample run -m smollm2 --prompt-as user -i prompts.jsonl -o out
  sample show out
`

const overviewShortEnd = `
"sample SUBCOMMAND -h" shows what a subcommand does and its main flags, "sample help SUBCOMMAND" all of them; "sample
help" has exit codes and variables of the environment.
`

const OverviewEnd = `
Exit codes:
  0  all done
  1  failure: a message on standard error says what failed and how to fix it
  2  usage: the command line or a config file is wrong, or an input is missing, or a file cannot be written
  3  partial: the output is complete, but some rows have an error (column "error")
  4  interrupted: finished work is kept, and the same command resumes it
  5  damaged: sample verify found damage in an output
A failure to write to standard output, such as a full disk, is exit code 1. If its reader has left, as with "| head",
SIGPIPE ends the command.

Environment:
  QUIRE_CACHE                       folder for plugins, models and compiled programs
  QUIRE_PLUGIN_CPU, _CUDA, _TPU     a PJRT plugin to use instead
  HTTPS_PROXY, PIP_INDEX_URL, ...   as other tools use them, for sample setup
  NO_COLOR                          print no colours, also on a terminal

"sample help SUBCOMMAND" shows all flags of a subcommand, "sample SUBCOMMAND -h" the main ones; "sample -v" prints the
version.
`

// printOverview prints the help of the whole command, or only its first part.
func printOverview(w io.Writer, whole bool) {
	PaintLines(w, OfHeadings)
	var text strings.Builder
	text.WriteString(Overview)
	table := tabwriter.NewWriter(&text, 0, 0, 3, ' ', 0)
	for _, g := range Groups() {
		fmt.Fprintf(table, "\n%s:\n", g.Title)
		for _, sub := range g.Subs {
			fmt.Fprintf(table, "  %-10s\t%s\n", sub.Name, sub.Summary)
		}
	}
	fmt.Fprintf(table, "  %-10s\tthis text, or the help of a subcommand\n", "help")
	table.Flush()
	text.WriteString(OverviewExamples)
	if whole {
		text.WriteString(OverviewEnd)
	} else {
		text.WriteString(overviewShortEnd)
	}
	fmt.Fprint(w, reflow(text.String(), min(TerminalWidth(w), helpWidth)))
}

// shortExamples is how many examples the short help has.
const shortExamples = 4

// printHelp prints the help of one subcommand, in full or in short.
func printHelp(w io.Writer, sub *Command, f *Flags, short bool) {
	PaintLines(w, OfHeadings)
	width := min(TerminalWidth(w), helpWidth)
	fmt.Fprint(w, reflow(fmt.Sprintf("%s\n\nUsage:\n  %s\n", Capitalized(sub.Summary), UsageLine(sub, f)), width))
	examples := strings.Split(strings.TrimSpace(sub.Example), "\n")
	if short = short && len(sub.Short) > 0; short {
		examples = examples[:min(len(examples), shortExamples)]
	}
	if sub.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", Indent(strings.Join(examples, "\n")))
	}
	if short {
		some := pflag.NewFlagSet(sub.Name, pflag.ContinueOnError)
		some.SortFlags = false
		for _, name := range sub.Short {
			flag := *f.Set.Lookup(name)
			flag.Usage = firstClause(flag.Usage)
			some.AddFlag(&flag)
		}
		count := 0
		f.Set.VisitAll(func(flag *pflag.Flag) {
			if !flag.Hidden {
				count++
			}
		})
		fmt.Fprintf(w, "\nMain flags:\n%s\n%s\n", alignedUsages(&Flags{Set: some}, some, width),
			reflow(fmt.Sprintf("All %d flags, and what else there is to know: sample help %s", count, sub.Name), width))
		return
	}
	if sub.About != "" {
		fmt.Fprintf(w, "\n%s\n", reflow(strings.TrimSpace(sub.About), width))
	}
	for _, g := range f.Groups {
		fmt.Fprintf(w, "\n%s\n%s", reflow(g.Title+":", width), alignedUsages(f, g.Set, width))
	}
}

// firstClause is the usage of a flag up to the first sentence's end, with its default.
func firstClause(usage string) string {
	match := clauseEnd.FindStringIndex(usage)
	if match == nil {
		return usage
	}
	return usage[:match[0]] + ofDefault.FindString(usage[match[0]:])
}

var (
	clauseEnd = regexp.MustCompile(`[.;] `)
	ofDefault = regexp.MustCompile(` \(default[^()]*\)`)
)

// UsageLine is how a subcommand is called.
func UsageLine(sub *Command, f *Flags) string {
	usage := []string{"sample", sub.Name}
	if f.Set.HasAvailableFlags() {
		usage = append(usage, "[flags]")
	}
	if sub.Args != "" {
		usage = append(usage, sub.Args)
	}
	return strings.Join(usage, " ")
}

// helpWidth is the widest that help gets, in columns.
const helpWidth = 120

// Paragraph is text of a subcommand's help, broken into lines.
func Paragraph(text string) string { return "\n" + strings.Join(wrap(text, helpWidth), "\n") + "\n" }

// DefaultColumns names the columns that every output of a task has.
func DefaultColumns(task completion.Task) (names []string) {
	for c := range task.Columns() {
		if !c.OnRequest {
			names = append(names, c.Name)
		}
	}
	return names
}

// noDefaults are the default values of flags that are not given: help does not show them.
var noDefaults = []string{"", "0", "0s", "-1", "false", "[]"}

// alignedUsages renders a group with its text starting at the column that the widest flag of all groups needs, or below
// the flags if a terminal has no room for that.
func alignedUsages(f *Flags, group *pflag.FlagSet, width int) string {
	widest := 0
	f.Set.VisitAll(func(flag *pflag.Flag) {
		if !flag.Hidden {
			widest = max(widest, len(FlagHead(flag)))
		}
	})
	indent, below := widest+3, false
	if width-indent < roomBeside {
		indent, below = 10, true
	}
	var b strings.Builder
	group.VisitAll(func(flag *pflag.Flag) {
		head := FlagHead(flag)
		if below {
			fmt.Fprintln(&b, head)
			head = ""
		}
		for i, line := range wrap(FlagText(flag), max(width-indent, 30)) {
			if i > 0 {
				head = ""
			}
			fmt.Fprintf(&b, "%-*s%s\n", indent, head, line)
		}
	})
	return b.String()
}

// roomBeside is how many columns the text of a flag needs to stand alongside it.
const roomBeside = 40

// reflow breaks the lines of a text again. Indented lines that are an entry of a table, with two spaces after its
// name, stay in their column; others, such as command lines, stay as they are.
func reflow(text string, width int) string {
	var out []string
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); {
		first, column := lines[i], 0
		switch m := entry.FindString(first); {
		case m != "":
			column = len(m)
		case first == "" || strings.HasPrefix(first, " "):
			out = append(out, first)
			i++
			continue
		}
		words := first[column:]
		for i++; i < len(lines) && lines[i] != "" && leading(lines[i]) == column; i++ {
			if entry.MatchString(lines[i]) {
				break
			}
			words += " " + strings.TrimSpace(lines[i])
		}
		head := first[:column]
		if column > 0 && width-column < roomBeside/2 { // the text stands below the name
			out = append(out, strings.TrimRight(head, " "))
			column = 6
			head = strings.Repeat(" ", column)
		}
		for _, line := range wrap(words, width-column) {
			out = append(out, head+line)
			head = strings.Repeat(" ", column)
		}
	}
	return strings.Join(out, "\n")
}

// entry is what an entry of a table begins with.
var entry = regexp.MustCompile(`^ +\S+( \S+)* {2,}`)

// leading counts the spaces that a line begins with.
func leading(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }

// splitUsage takes the placeholder of the value, written in backquotes before the text, off a flag's usage.
func splitUsage(flag *pflag.Flag) (kind, text string) {
	rest, ok := strings.CutPrefix(flag.Usage, "`")
	if !ok {
		return "", flag.Usage
	}
	kind, text, _ = strings.Cut(rest, "` ")
	return kind, text
}

// FlagText is the help for a flag, with its default.
func FlagText(flag *pflag.Flag) string {
	_, text := splitUsage(flag)
	if d := flag.DefValue; !slices.Contains(noDefaults, d) && !strings.Contains(text, "(default") {
		text += fmt.Sprintf(" (default %s)", d)
	}
	return text
}

func FlagHead(flag *pflag.Flag) string {
	kind, _ := splitUsage(flag)
	head := "      --" + flag.Name
	if flag.Shorthand != "" {
		head = "  -" + flag.Shorthand + ", --" + flag.Name
	}
	if kind != "" {
		head += " " + kind
	}
	return head
}

func wrap(text string, width int) []string {
	var lines []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

func Indent(s string) string { return "  " + strings.ReplaceAll(s, "\n", "\n  ") }

func Capitalized(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
