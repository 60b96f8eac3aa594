package jobflags

import (
	"os"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset/completion"
)

// Options are the flags of "sample run", which config files set too.
type Options struct {
	Spec    spec.Spec
	Process process.Options
	Job     *spec.Job // job of the two, once check has accepted them

	unparsed
	Hosts Hosts

	Flags                    *pflag.FlagSet
	Config, Progress, Report string
	Quiet, Verbose           bool
	Diagnostics              Diagnostics
	Observing                Observing
	Units                    Units
	Maintenance              Maintenance

	ForTask completion.Task // the task of a command that is for one task; "" for other commands

	Secrets []string // URLs with their parameters

	MayTry  bool     // arguments without --output are prompts
	Prompts []string // prompts given as arguments
	piped   *os.File // a pipe that --input names
}

// unparsed are values of flags that check parses into the spec and the options.
type unparsed struct {
	shardText, kvMemory, hostMemory, prefixCache, mesh string
	accept                                             acceptFlags
}
