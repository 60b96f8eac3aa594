package jobflags

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/telemetry"
	"github.com/quire/quire/cmd/sample/cli"
)

// Diagnostics are the flags for looking inside a command that runs the engine.
type Diagnostics struct {
	pprof, DumpHLO, trace     string
	DumpTables, DumpTablesDir string
	ProfileDevice             string
	profileCalls              int64

	tracing *telemetry.Trace // nil without --trace
}

// DiagnosticsTitle is the title of these flags in the help.
const DiagnosticsTitle = "Diagnostics"

func (d *Diagnostics) Define(s *pflag.FlagSet) {
	cli.PlaceVar(s, &d.pprof, cli.OnThisMachine, "pprof", "",
		"`WHERE` write a CPU profile of the host to this file, or serve Go's pprof profiles at this address of this "+
			"machine, such as localhost:6060")
	cli.PlaceVar(s, &d.DumpHLO, cli.OnThisMachine, "dump-hlo", "",
		"`FOLDER` write the engine's programs: as built (StableHLO), as the device runs them (optimized HLO), and "+
			"their memory")
	s.StringVar(&d.DumpTables, "dump-tables", "",
		"`WHEN` write the device's tables as text and JSON: fault (when a run fails), call=N (after the N-th device "+
			"call), every=N (after each N calls, the last 100 times), or several, as in fault,every=50")
	cli.PlaceVar(s, &d.DumpTablesDir, cli.OnThisMachine, "dump-tables-to", "",
		"`FOLDER` where --dump-tables writes (default: _job/tables next to the journal)")
	cli.PlaceVar(s, &d.trace, cli.OnThisMachine, "trace", "",
		"`FILE` write when the host and the device did what, for ui.perfetto.dev (JSON); about 1 MB for 1,000 "+
			"device calls")
	cli.PlaceVar(s, &d.ProfileDevice, cli.OnThisMachine, "profile-device", "",
		"`FOLDER` write a profile of the device for TensorBoard and xprof, by the plugin's profiler; the plugins for "+
			"TPU and GPU have one")
	s.Int64Var(&d.profileCalls, "profile-calls", 100,
		"`N` end the profile of --profile-device after N device calls; 0 takes the whole run")
}

// Check parses what the options of a job take of these flags.
func (d *Diagnostics) Check(o *process.Options) (err error) {
	if d.profileCalls < 0 {
		return fmt.Errorf("--profile-calls is %d, but must be 0 (all) or more", d.profileCalls)
	}
	if d.ProfileDevice != "" {
		o.ProfileDevice = &observe.DeviceProfile{Folder: d.ProfileDevice, Calls: d.profileCalls}
	}
	switch {
	case d.DumpTables == "" && d.DumpTablesDir != "":
		return errors.New("--dump-tables-to needs --dump-tables, which sets when: add --dump-tables fault")
	case d.DumpTables == "":
		return nil
	}
	if o.DumpTables, err = observe.ParseTableDumps(d.DumpTables); err != nil {
		return fmt.Errorf("--dump-tables is %w", err)
	}
	o.DumpTables.Folder = d.DumpTablesDir
	return nil
}

// Begin begins what --pprof and --trace ask for; the function that it returns ends it. It also makes sure that the
// folders of the other flags can be written.
func (d *Diagnostics) Begin() (stop func() error, err error) {
	err = errors.Join(cli.WritableFolder("dump-hlo", d.DumpHLO), cli.WritableFolder("dump-tables-to", d.DumpTablesDir),
		cli.WritableFolder("profile-device", d.ProfileDevice), cli.Writable("trace", d.trace))
	if err != nil {
		return nil, err
	}
	stopProfile, err := d.profile()
	if err != nil {
		return nil, err
	}
	if d.trace == "" {
		return stopProfile, nil
	}
	if d.tracing, err = telemetry.NewTrace(d.trace); err != nil {
		return nil, errors.Join(fmt.Errorf("--trace: %w", err), stopProfile())
	}
	return func() error {
		err := d.tracing.Close()
		if err != nil {
			err = fmt.Errorf("--trace: %w", err)
		}
		return errors.Join(stopProfile(), err)
	}, nil
}

// profile begins what --pprof asks for.
func (d *Diagnostics) profile() (stop func() error, err error) {
	if d.pprof == "" {
		return func() error { return nil }, nil
	}
	end, err := telemetry.Profile(d.pprof)
	if errors.Is(err, telemetry.ErrNotLocal) {
		return nil, cli.Exit(cli.ExitUsage, fmt.Errorf("--pprof is %w", err))
	}
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	return func() error {
		if err := end(); err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		return nil
	}, nil
}

// Dump returns what writes what --dump-hlo asks for when a model is opened, and the rest before it is closed.
func (d *Diagnostics) Dump(stderr io.Writer) func(*process.Session) (closing func(), err error) {
	return func(s *process.Session) (closing func(), err error) {
		if d.DumpHLO == "" {
			return nil, nil
		}
		again, err := load.DumpPrograms(s, d.DumpHLO)
		if err != nil {
			return nil, fmt.Errorf("--dump-hlo: %w", err)
		}
		return func() {
			if err := again(); err != nil {
				fmt.Fprintf(stderr, "sample: --dump-hlo: %s\n", cli.Message(err))
			}
		}, nil
	}
}
