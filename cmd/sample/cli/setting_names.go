package cli

import (
	"io"
	"regexp"
	"strings"
	"sync"

	"github.com/spf13/pflag"
)

// namesOfFlags lists the flags that a subcommand has.
func namesOfFlags(sub *Command) (names []string) {
	f := NewFlags(sub.Name)
	sub.Flags(f)
	f.Set.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// The packages below know no flags. Their errors name a setting as config files do, in backquotes. What this command
// prints of them names its flag.

// settingName is a mention of a setting.
var settingName = regexp.MustCompile("`[a-z][a-z0-9-]*`")

// AsFlags writes the names of settings as flags: those that a subcommand has a flag for.
func AsFlags(text string) string {
	if !strings.Contains(text, "`") {
		return text
	}
	return settingName.ReplaceAllStringFunc(text, func(mention string) string {
		if name := strings.Trim(mention, "`"); AllFlags()[name] {
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

func AllFlags() map[string]bool {
	flagNames.once.Do(func() {
		flagNames.all = map[string]bool{}
		for _, sub := range Commands() {
			for _, name := range namesOfFlags(sub) {
				flagNames.all[name] = true
			}
		}
	})
	return flagNames.all
}

// WithFlags prints texts of the packages below, with names of settings as flags.
type WithFlags struct{ io.Writer }

func (w WithFlags) Write(b []byte) (int, error) {
	if _, err := io.WriteString(w.Writer, AsFlags(string(b))); err != nil {
		return 0, err
	}
	return len(b), nil
}
