package main

import (
	"errors"
	"fmt"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/telemetry"
)

// diagnostics are the flags for looking inside a command that runs the engine.
type diagnostics struct {
	pprof, dumpHLO string
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
}

// profile begins what --pprof asks for; the function that it returns ends it. It also makes sure that --dump-hlo can be
// written.
func (d *diagnostics) profile() (stop func() error, err error) {
	if err := writableFolder("dump-hlo", d.dumpHLO); err != nil {
		return nil, err
	}
	if d.pprof == "" {
		return func() error { return nil }, nil
	}
	stop, err = telemetry.Profile(d.pprof)
	if errors.Is(err, telemetry.ErrNotLocal) {
		return nil, &exitError{exitUsage, fmt.Errorf("--pprof is %w", err)}
	}
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	return func() error {
		if err := stop(); err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		return nil
	}, nil
}

// dump writes what --dump-hlo asks for.
func (d *diagnostics) dump(s *batch.Session) error {
	if d.dumpHLO == "" {
		return nil
	}
	if err := s.DumpPrograms(d.dumpHLO); err != nil {
		return fmt.Errorf("--dump-hlo: %w", err)
	}
	return nil
}
