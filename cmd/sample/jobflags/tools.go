package jobflags

import (
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/tools"
	"github.com/quire/quire/data/parameter"
)

// toolFlags defines the flags for tools that completions call.
func toolFlags(s *pflag.FlagSet, t *tools.Settings) {
	s.Var(&jsonValue{&t.Registry, parameter.Object}, "tools-from",
		"`FILE` tools that completions may call: JSON that gives each a command or a URL on this machine, limits, and "+
			"its definition for the chat template")
	s.StringVar(&t.Command, "tool-command", "",
		"`COMMAND` have this shell command answer the calls of all tools that --tools-from lacks: it gets a line of "+
			"JSON for each call, and answers with one")
	s.IntVar(&t.MaxTurns, "max-turns", 0, fmt.Sprintf(
		"`COUNT` turns that the model has at most, with the results of its calls between them (default %d)",
		tools.DefaultMaxTurns))
	s.StringVar(&t.Failures, "tool-failures", "", fmt.Sprintf(
		"`AS` what a failing or late tool becomes: %s (the model sees what is wrong, and continues) or %s (the "+
			"row's error) (default %[1]s)", tools.FailuresToModel, tools.FailuresOfRow))
	s.IntVar(&t.Processes, "tool-processes", 0, fmt.Sprintf(
		"`COUNT` processes of --tool-command that run at once (default %d)", tools.DefaultProcesses))
	s.DurationVar(&t.Timeout, "tool-timeout", 0, fmt.Sprintf(
		"`TIME` how long --tool-command may take for an answer (default %s)",
		strings.TrimSuffix(tools.DefaultTimeout.String(), "0s")))
}
