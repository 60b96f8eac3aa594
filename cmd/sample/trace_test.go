package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/internal/traceformat"
)

// traceFile checks that a file is a well-formed trace, which has spans, counters or tracks of these names. Where
// QUIRE_PERFETTO names a folder with Perfetto's page, Perfetto must read the same from it.
func traceFile(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 1 {
		ts.Fatalf("usage: tracefile FILE [NAME...]")
	}
	trace, err := traceformat.Read([]byte(ts.ReadFile(args[0])))
	if err != nil {
		ts.Fatalf("%s: %v", args[0], err)
	}
	names := map[string]bool{}
	for _, e := range trace.Events {
		names[e.Name] = true
	}
	var tracks []string
	for _, name := range trace.Tracks {
		tracks = append(tracks, name)
	}
	for _, name := range args[1:] {
		if !names[name] && !strings.Contains(strings.Join(tracks, "\n"), name) {
			ts.Fatalf("%s has nothing called %q, but %v and the tracks %q", args[0], name, names, tracks)
		}
	}
	if folder := os.Getenv("QUIRE_PERFETTO"); folder != "" {
		if err := asPerfettoReads(folder, ts.MkAbs(args[0]), trace); err != nil {
			ts.Fatalf("%s: %v", args[0], err)
		}
	}
}

// asPerfettoReads compares a trace with what Perfetto's own code reads of its file: spans, counters and tracks, and
// that nothing of it was wrong or left out.
func asPerfettoReads(folder, file string, trace *traceformat.Trace) error {
	queries := []struct {
		sql  string // gives a column text
		want []string
	}{
		{"select name || ' = ' || value as text from stats where value > 0 and severity in ('error', 'data_loss')",
			nil},
		{"select name || ' from ' || ts || ' for ' || dur as text from slice", trace.Spans()},
		{"select 'value at ' || ts as text from counter", trace.Values()},
		{"select p.name || ': ' || t.name as text from thread t join process p using (upid) where t.name is not null " +
			"and t.tid != p.pid", slices.Collect(maps.Values(trace.Tracks))},
	}
	args := []string{testenv.Path("scripts", "perfetto", "perfetto.mjs"), folder, file}
	for _, q := range queries {
		args = append(args, q.sql)
	}
	out, err := exec.Command("node", args...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		return fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	answers := json.NewDecoder(bytes.NewReader(out))
	for _, q := range queries {
		var rows []struct{ Text string }
		if err := answers.Decode(&rows); err != nil {
			return fmt.Errorf("%s: %w", q.sql, err)
		}
		var got []string
		for _, row := range rows {
			got = append(got, row.Text)
		}
		slices.Sort(got)
		slices.Sort(q.want)
		if !slices.Equal(got, q.want) {
			return fmt.Errorf("Perfetto's %s are %q, want %q", q.sql, got, q.want)
		}
	}
	return nil
}
