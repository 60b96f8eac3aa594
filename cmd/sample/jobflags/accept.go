package jobflags

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/verdict"
	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/data/parameter"
)

// acceptFlags are the flags for how completions are judged.
type acceptFlags struct {
	schema string
	maxN   int
}

func (a *acceptFlags) define(s *pflag.FlagSet, accept *verdict.Settings) {
	s.StringVar(&accept.Regex, "accept-regex", "",
		"`PATTERN` accept completions in which this regular expression matches somewhere")
	s.Var(&jsonValue{&a.schema, parameter.Object}, "accept-schema",
		"`FILE` accept completions that are JSON of this schema: a file, or the schema itself, as '{...}'")
	s.StringVar(&accept.Equals, "accept-equals", "",
		"`COLUMN` accept completions that equal this column of their row, as text or as a number; see --extract")
	s.StringVar(&accept.Command, "accept-command", "",
		"`COMMAND` accept what this shell command accepts: it gets a line of JSON for each completion and answers "+
			"with one, such as {\"accepted\": true}")
	cli.PlaceVar(s, &accept.Score, cli.ModelPlace, "accept-score", "",
		"`MODEL` accept completions to which this model, a reward model, gives a score above --accept-above")
	s.Float64Var(&accept.Above, "accept-above", 0, "`SCORE` the score that --accept-score must be above")
	s.StringVar(&accept.Extract, "extract", "",
		"`PATTERN` judge the last match of this regular expression, or its first group, not the whole text")
	s.IntVar(&accept.Until, "until", 0,
		"`COUNT` end a row when so many of its completions are accepted; 0 generates all -n")
	s.Float64Var(&accept.Majority, "until-majority", 0,
		"`CERTAINTY` end a row when its most frequent answer (see --extract) is the most likely one with this "+
			"certainty, such as 0.95")
	s.IntVar(&a.maxN, "max-n", 0,
		"`COUNT` with --until and --until-majority: how many completions a row gets at most; another name of -n")
	s.IntVar(&accept.Processes, "accept-processes", 0, fmt.Sprintf(
		"`COUNT` processes of --accept-command that run at once (default %d)", verdict.DefaultProcesses))
	s.DurationVar(&accept.Timeout, "accept-timeout", 0, fmt.Sprintf(
		"`TIME` how long --accept-command may take for a verdict; later the row has an error (default %s)",
		strings.TrimSuffix(verdict.DefaultTimeout.String(), "0s")))
}

// settle takes over what the flags say.
func (a *acceptFlags) settle(o *Options) error {
	accept := &o.Spec.Accept
	accept.Schema = a.schema
	given := cli.Given(o.Flags.Lookup("max-n"))
	switch {
	case given && !accept.Stops():
		return errors.New("--max-n is for --until and --until-majority, and neither is given: give -n")
	case given && cli.Given(o.Flags.Lookup("n-generations")):
		return errors.New("--max-n and -n say the same: leave one of the two out")
	case given && a.maxN < 1:
		return fmt.Errorf("--max-n is %d, but must be at least 1", a.maxN)
	case given:
		o.Spec.Sampling.N = a.maxN
	}
	return nil
}
