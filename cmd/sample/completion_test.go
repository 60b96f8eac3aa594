package main

import "testing"

// Every word that completion knows for a flag is one that the flag's help names, in some subcommand.
func TestFlagValuesAreNamedInHelp(t *testing.T) {
	for name, values := range flagValues {
		for _, value := range values {
			named := false
			for _, sub := range subcommands() {
				f := newFlags(sub.name)
				sub.flags(f)
				flag := f.set.Lookup(name)
				named = named || flag != nil && mentions(flagText(flag), value)
			}
			if !named {
				t.Errorf("no help of --%s names %q", name, value)
			}
		}
	}
	for name := range listedValues {
		if !allFlags()[name] {
			t.Errorf("no subcommand has --%s", name)
		}
	}
}
