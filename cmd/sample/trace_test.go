package main

import (
	"strings"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/quire/quire/internal/traceformat"
)

// traceFile checks that a file is a well-formed trace, which has spans, counters or tracks of these names.
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
}
