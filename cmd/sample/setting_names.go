package main

import (
	"io"
	"regexp"
	"strings"
	"sync"
)

// The packages below know no flags. Their errors name a setting as config files do, in backquotes. What this command
// prints of them names its flag.

// settingName is a mention of a setting.
var settingName = regexp.MustCompile("`[a-z][a-z0-9-]*`")

// asFlags writes the names of settings as flags: those that a subcommand has a flag for.
func asFlags(text string) string {
	if !strings.Contains(text, "`") {
		return text
	}
	return settingName.ReplaceAllStringFunc(text, func(mention string) string {
		if name := strings.Trim(mention, "`"); allFlags()[name] {
			return "--" + name
		}
		return mention
	})
}

// flagNames are the flags of all subcommands, once somebody asks.
var flagNames struct {
	once sync.Once
	all  map[string]bool
}

func allFlags() map[string]bool {
	flagNames.once.Do(func() {
		flagNames.all = map[string]bool{}
		for _, sub := range subcommands() {
			for _, name := range namesOfFlags(sub) {
				flagNames.all[name] = true
			}
		}
	})
	return flagNames.all
}

// withFlags is where texts of the packages below are printed, with names of settings as flags.
type withFlags struct{ io.Writer }

func (w withFlags) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, asFlags(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
