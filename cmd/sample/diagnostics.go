package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch/load"
	"github.com/quire/quire/batch/observe"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/telemetry"
)

// diagnostics are the flags for looking inside a command that runs the engine.
type diagnostics struct {
	pprof, dumpHLO, trace     string
	dumpTables, dumpTablesDir string
	profileDevice             string
	profileCalls              int64

	tracing *telemetry.Trace // nil without --trace
}

// diagnosticsTitle is the title of these flags in the help.
const diagnosticsTitle = "Diagnostics"

func (d *diagnostics) define(s *pflag.FlagSet) {
	placeVar(s, &d.pprof, onThisMachine, "pprof", "",
		"`WHERE` write a CPU profile of the host to this file, or serve Go's pprof profiles at this address of this "+
			"machine, such as localhost:6060")
	placeVar(s, &d.dumpHLO, onThisMachine, "dump-hlo", "",
		"`FOLDER` write the engine's programs: as built (StableHLO), as the device runs them (optimized HLO), and "+
			"their memory")
	s.StringVar(&d.dumpTables, "dump-tables", "",
		"`WHEN` write the device's tables as text and JSON: fault (when a run fails), call=N (after the N-th device "+
			"call), every=N (after each N calls, the last 100 times), or several, as in fault,every=50")
	placeVar(s, &d.dumpTablesDir, onThisMachine, "dump-tables-to", "",
		"`FOLDER` where --dump-tables writes (default: _job/tables beside the journal)")
	placeVar(s, &d.trace, onThisMachine, "trace", "",
		"`FILE` write when the host and the device did what, for ui.perfetto.dev (JSON); about 1 MB for 1,000 "+
			"device calls")
	placeVar(s, &d.profileDevice, onThisMachine, "profile-device", "",
		"`FOLDER` write a profile of the device for TensorBoard and xprof, by the plugin's profiler; the plugins for "+
			"TPU and GPU have one")
	s.Int64Var(&d.profileCalls, "profile-calls", 100,
		"`N` end the profile of --profile-device after N device calls; 0 takes the whole run")
}

// check parses what the options of a job take of these flags.
func (d *diagnostics) check(o *process.Options) (err error) {
	if d.profileCalls < 0 {
		return fmt.Errorf("--profile-calls is %d, but must be 0 (all) or more", d.profileCalls)
	}
	if d.profileDevice != "" {
		o.ProfileDevice = &observe.DeviceProfile{Folder: d.profileDevice, Calls: d.profileCalls}
	}
	switch {
	case d.dumpTables == "" && d.dumpTablesDir != "":
		return errors.New("--dump-tables-to says where, and --dump-tables has to say when: add --dump-tables fault")
	case d.dumpTables == "":
		return nil
	}
	if o.DumpTables, err = observe.ParseTableDumps(d.dumpTables); err != nil {
		return fmt.Errorf("--dump-tables is %w", err)
	}
	o.DumpTables.Folder = d.dumpTablesDir
	return nil
}

// begin begins what --pprof and --trace ask for; the function that it returns ends it. It also makes sure that the
// folders of the other flags can be written.
func (d *diagnostics) begin() (stop func() error, err error) {
	err = errors.Join(writableFolder("dump-hlo", d.dumpHLO), writableFolder("dump-tables-to", d.dumpTablesDir),
		writableFolder("profile-device", d.profileDevice), writable("trace", d.trace))
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
func (d *diagnostics) profile() (stop func() error, err error) {
	if d.pprof == "" {
		return func() error { return nil }, nil
	}
	end, err := telemetry.Profile(d.pprof)
	if errors.Is(err, telemetry.ErrNotLocal) {
		return nil, &exitError{exitUsage, fmt.Errorf("--pprof is %w", err)}
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

// dump returns what writes what --dump-hlo asks for when a model is opened, and the rest before it is closed.
func (d *diagnostics) dump(stderr io.Writer) func(*process.Session) (closing func(), err error) {
	return func(s *process.Session) (closing func(), err error) {
		if d.dumpHLO == "" {
			return nil, nil
		}
		again, err := load.DumpPrograms(s, d.dumpHLO)
		if err != nil {
			return nil, fmt.Errorf("--dump-hlo: %w", err)
		}
		return func() {
			if err := again(); err != nil {
				fmt.Fprintf(stderr, "sample: --dump-hlo: %v\n", err)
			}
		}, nil
	}
}
