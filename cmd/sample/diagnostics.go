package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	runtimepprof "runtime/pprof"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/spf13/pflag"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/batch"
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
	if host, port, err := net.SplitHostPort(d.pprof); err == nil && !strings.ContainsRune(port, filepath.Separator) {
		return serveProfiles(host, port)
	}
	f, err := os.Create(d.pprof)
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	if err := runtimepprof.StartCPUProfile(f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	return func() error {
		runtimepprof.StopCPUProfile()
		if err := f.Close(); err != nil {
			return fmt.Errorf("--pprof: %w", err)
		}
		return nil
	}, nil
}

// serveProfiles serves the pages of net/http/pprof. Profiles tell of prompts and files, so only this machine may ask.
func serveProfiles(host, port string) (stop func() error, err error) {
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, &exitError{exitUsage,
			fmt.Errorf("--pprof is %s:%s, but must be a file, or an address of this machine only, such as localhost:%s",
				host, port, port)}
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, fmt.Errorf("--pprof: %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	return func() error {
		// A profile that is being taken may go on for half a minute: the job does not wait for it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("--pprof: %w", err)
		}
		return nil
	}, nil
}

// compiledEngine is an engine whose programs can be looked at.
type compiledEngine interface {
	Executables() map[string]compute.Executable
}

// dump writes what --dump-hlo asks for.
func (d *diagnostics) dump(s *batch.Session) error {
	if d.dumpHLO == "" {
		return nil
	}
	e, ok := s.Sampler.(compiledEngine)
	if !ok {
		return errors.New("--dump-hlo: this engine compiles nothing")
	}
	if err := os.MkdirAll(d.dumpHLO, 0o755); err != nil {
		return fmt.Errorf("--dump-hlo: %w", err)
	}
	for name, executable := range e.Executables() {
		compiled, ok := executable.(*xla.Executable)
		if !ok {
			return errors.New("--dump-hlo: the programs of this backend have no HLO: use a backend of xla")
		}
		if err := dumpProgram(filepath.Join(d.dumpHLO, name), compiled); err != nil {
			return fmt.Errorf("--dump-hlo: %w", err)
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
