package main

import (
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
)

// Every word that completion knows for a flag is one that the flag's help names, in some subcommand.
func TestFlagValuesAreNamedInHelp(t *testing.T) {
	for name, values := range cli.FlagValues {
		for _, value := range values {
			named := false
			for _, sub := range cli.Commands() {
				f := cli.NewFlags(sub.Name)
				sub.Flags(f)
				flag := f.Set.Lookup(name)
				named = named || flag != nil && cli.Mentions(cli.FlagText(flag), value)
			}
			if !named {
				t.Errorf("no help of --%s names %q", name, value)
			}
		}
	}
	for name := range cli.ListedValues {
		if !cli.AllFlags()[name] {
			t.Errorf("no subcommand has --%s", name)
		}
	}
}
