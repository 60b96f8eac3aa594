package main

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"github.com/agext/levenshtein"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/quire/quire/parameter"
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
	var invalid *pflag.InvalidValueError
	var out *rangeError
	if errors.As(err, &invalid) && errors.As(err, &out) {
		return fmt.Errorf("--%s is %w", invalid.GetFlag().Name, out)
	}
	var unknown *pflag.NotExistError
	if errors.As(err, &unknown) {
		return fmt.Errorf("%w%s", err, didYouMean(unknown.GetSpecifiedName(), f.names()))
	}
	return err
}

// rangeError says that a flag's value is not one that it may have.
type rangeError struct{ value, allowed string }

func (e *rangeError) Error() string { return fmt.Sprintf("%q, but must be %s", e.value, e.allowed) }

// seedValue is a flag for a seed.
type seedValue uint64

func (s *seedValue) String() string { return strconv.FormatUint(uint64(*s), 10) }

func (s *seedValue) Type() string { return "uint64" }

func (s *seedValue) Set(text string) error {
	v, err := strconv.ParseUint(text, 0, 64)
	if err != nil {
		return &rangeError{text, parameter.SeedRange}
	}
	*s = seedValue(v)
	return nil
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
