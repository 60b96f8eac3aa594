package cli

import (
	"sync"

	"github.com/spf13/pflag"

	"github.com/quire/quire/data/setting"
)

// namesOfFlags lists the flags that a subcommand has.
func namesOfFlags(sub *Command) (names []string) {
	f := NewFlags(sub.Name)
	sub.Flags(f)
	f.Set.VisitAll(func(flag *pflag.Flag) { names = append(names, flag.Name) })
	return names
}

// AsFlag is the [setting.Spelling] of this command: the flag that a subcommand has for a setting.
func AsFlag(name string) string {
	if AllFlags()[name] {
		return "--" + name
	}
	return setting.Name(name).String()
}

// Message is an error as this command prints it.
func Message(err error) string { return setting.Spell(err, AsFlag) }

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
