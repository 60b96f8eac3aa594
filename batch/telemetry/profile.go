package telemetry

import (
	"context"
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
)

// ErrNotLocal reports an address that other machines can also reach.
var ErrNotLocal = errors.New("must be a file, or an address of this machine only")

// Profile writes a CPU profile of this process to the file named where, until stop is called; if where is HOST:PORT, it
// serves the pages of net/http/pprof there instead.
func Profile(where string) (stop func() error, err error) {
	if host, port, err := net.SplitHostPort(where); err == nil && !strings.ContainsRune(port, filepath.Separator) {
		return serveProfiles(host, port)
	}
	f, err := os.Create(where)
	if err != nil {
		return nil, err
	}
	if err := runtimepprof.StartCPUProfile(f); err != nil {
		_ = f.Close()
		return nil, err
	}
	return func() error {
		runtimepprof.StopCPUProfile()
		return f.Close()
	}, nil
}

// serveProfiles serves the pages of net/http/pprof, only to this machine, because profiles reveal prompts and files.
func serveProfiles(host, port string) (stop func() error, err error) {
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("%s:%s, but %w, such as localhost:%s", host, port, ErrNotLocal, port)
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(host, port))
	if err != nil {
		return nil, err
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
		// A running profile may take half a minute more: the job does not wait for it.
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		if server.Shutdown(ctx) != nil {
			_ = server.Close()
		}
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	}, nil
}
