package cli

// Group is some of the subcommands, under a title of their own in the help.
type Group struct {
	Title string
	Subs  []*Command
}

// Groups makes the subcommands. Package main sets it, because it imports the packages of all subcommands.
var Groups func() []Group

func Commands() (all []*Command) {
	for _, g := range Groups() {
		all = append(all, g.Subs...)
	}
	return all
}

func Find(name string) (*Command, error) {
	if other := otherSubcommands[name]; other != "" {
		return nil, Usagef("%q is no subcommand; did you mean %q?", name, other)
	}
	var names []string
	for _, sub := range Commands() {
		if sub.Name == name {
			return sub, nil
		}
		names = append(names, sub.Name)
	}
	return nil, Usagef("%q is no subcommand%s", name, DidYouMean(name, names, ""))
}
