package load

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch/arithmetic"
	"github.com/quire/quire/batch/process"
)

// compiledEngine is an engine whose programs can be looked at.
type compiledEngine interface {
	Executables() map[string]compute.Executable
}

// DumpPrograms writes the programs of the session's engine to a folder. again writes the programs that were compiled
// since. A program that replaced another one, because rows asked for more, is named NAME-2.
func DumpPrograms(s *process.Session, folder string) (again func() error, err error) {
	e, ok := s.Sampler.(compiledEngine)
	if !ok {
		return nil, errors.New("this engine compiles nothing")
	}
	written := e.Executables()
	again = func() error {
		since := map[string]compute.Executable{}
		for name, executable := range e.Executables() {
			switch before, ok := written[name]; {
			case !ok:
				since[name] = executable
			case before != executable:
				since[name+"-2"] = executable
			}
		}
		return WritePrograms(folder, maps.All(since))
	}
	return again, WritePrograms(folder, maps.All(written))
}

// WritePrograms writes programs of a backend of package xla to a folder, by name: as built (StableHLO), as the device
// runs them (optimized HLO), and their memory.
func WritePrograms(folder string, programs iter.Seq2[string, compute.Executable]) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	for name, executable := range programs {
		compiled, ok := executable.(*xla.Executable)
		if !ok {
			return errors.New("the programs of this backend have no HLO: use a backend of xla")
		}
		if err := dumpProgram(filepath.Join(folder, name), compiled); err != nil {
			return err
		}
	}
	return nil
}

func dumpProgram(path string, e *xla.Executable) error {
	optimized, err := e.OptimizedHLO()
	if err != nil {
		return err
	}
	memory, err := e.Memory()
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(map[string]any{"bytes": memory, "seconds": e.CompileTime.Seconds(),
		"from_cache": e.FromCache}, "", "  ")
	if err != nil {
		return err
	}
	for suffix, content := range map[string]string{".stablehlo.mlir": e.StableHLO(), ".optimized.hlo": optimized,
		".memory.json": string(text) + "\n"} {
		if err := os.WriteFile(path+suffix, []byte(content), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// tuning returns a digest of what tuning on the device chose for the programs of the session's engine.
func tuning(s *process.Session) (string, error) {
	e, ok := s.Sampler.(compiledEngine)
	if !ok {
		return "", nil
	}
	all, digest := e.Executables(), sha256.New()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		program, ok := all[name].(interface{ Choices() (string, error) })
		if !ok {
			continue
		}
		chosen, err := program.Choices()
		if err != nil {
			return "", err
		}
		fmt.Fprintln(digest, name, chosen)
	}
	return hex.EncodeToString(digest.Sum(nil)[:6]), nil
}

// nameTuning adds to the name of the session's devices what tuning chose on them. A job whose programs can't be read
// runs without, since tuning is the same as long as its programs are in the cache.
func nameTuning(s *process.Session, b compute.Backend, log *slog.Logger) {
	if !backend.Of(b).TunesOnDevice {
		return
	}
	switch chosen, err := tuning(s); {
	case err != nil:
		log.Warn("what tuning chose is not part of the job's description", "err", err)
	case chosen != "":
		s.Device = arithmetic.Tuned(s.Device, chosen)
	}
}
