package jobflags

import (
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
)

// TestMain gives the package one subcommand, whose flags errors are worded with.
func TestMain(m *testing.M) {
	cli.Groups = func() []cli.Group {
		return []cli.Group{{Title: "Test", Subs: []*cli.Command{{Name: "run", Flags: new(Options).Define}}}}
	}
	m.Run()
}
