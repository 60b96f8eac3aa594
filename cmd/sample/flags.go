package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/agext/levenshtein"
	"github.com/spf13/pflag"
	"golang.org/x/term"
)

// flags is a flag set whose help is in groups.
type flags struct {
	set    *pflag.FlagSet
	groups []flagGroup
}

type flagGroup struct {
	title string
	set   *pflag.FlagSet
}

func newFlags(name string) *flags {
	set := pflag.NewFlagSet(name, pflag.ContinueOnError)
	set.SortFlags = false
	set.Usage = func() {} // printed by the caller, once it is known where to
	return &flags{set: set}
}

// group defines flags under a title of their own in the help.
func (f *flags) group(title string, define func(set *pflag.FlagSet)) {
	set := pflag.NewFlagSet(title, pflag.ContinueOnError)
	set.SortFlags = false
	define(set)
	f.set.AddFlagSet(set)
	f.groups = append(f.groups, flagGroup{title, set})
}

// parse parses the arguments; an unknown flag's error names the nearest known one.
func (f *flags) parse(args []string) error {
	err := f.set.Parse(args)
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), f.names()))
	}
	return err
}

// names lists the names of all flags.
func (f *flags) names() []string {
	var names []string
	f.set.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// didYouMean returns "; did you mean X?" for the nearest of the known words, or "" if none is near.
func didYouMean(word string, known []string) string {
	best, bestDistance := "", len(word)/2+2
	for _, k := range known {
		if d := levenshtein.Distance(word, k, nil); d < bestDistance {
			best, bestDistance = k, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf("; did you mean %q?", best)
}

// isTerminal reports whether w is a terminal.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// terminalWidth returns the columns of w, or $COLUMNS, or 100.
func terminalWidth(w any) int {
	if f, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if width, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && width > 0 {
		return width
	}
	return 100
}
