package jobflags

import (
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/cmd/sample/cli"
)

// DeviceFlags defines the flags of a process for devices that do not answer.
func DeviceFlags(s *pflag.FlagSet, o *process.Options) {
	s.IntVar(&o.MaxRestarts, "max-restarts", 5,
		"`N` give up when the device fails more than N times without finishing a completion in between")
	s.DurationVar(&o.ClientTimeout, "client-timeout", xla.DefaultClientTimeout,
		"`TIME` give up when the plugin has not opened its devices, or described the topology, after this long")
	s.DurationVar(&o.CallTimeout, "call-timeout", 0,
		"`TIME` end the process, with exit code 1, when no device call has ended for this long; 0 only warns")
}

func CheckDeviceFlags(o *process.Options) error {
	switch {
	case o.MaxRestarts < 0:
		return fmt.Errorf("--max-restarts is %d, but must be 0 or more", o.MaxRestarts)
	case o.ClientTimeout <= 0:
		return fmt.Errorf("--client-timeout is %s, but must be more than 0", o.ClientTimeout)
	case o.CallTimeout < 0:
		return fmt.Errorf("--call-timeout is %s, but must be 0 (no limit) or more", o.CallTimeout)
	}
	return nil
}

// Stuck ends a process that hangs while it ends. Destructors of C code are not run, because its threads may hold what
// they need.
func Stuck(env *cli.Environment) func(error) {
	return func(err error) {
		code, _ := cli.CodeOf(err)
		fmt.Fprintf(env.Stderr, "sample: %s\n", cli.Message(err))
		os.Exit(code)
	}
}
