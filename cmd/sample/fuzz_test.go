package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/cmd/sample/cli"
	"github.com/quire/quire/cmd/sample/jobflags"
)

// FuzzConfig reads any text as a --config file: an error that names the file, or flags that are set.
func FuzzConfig(f *testing.F) {
	configs, err := filepath.Glob("../../configs/*.yaml")
	if err != nil || len(configs) == 0 {
		f.Fatal(configs, err)
	}
	for _, path := range configs {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(text))
	}
	f.Add("model: a\nstop: [\"a\", 'b']\nseed: 18446744073709551615\ntemperature: 1e-3\nnew: true\n")
	f.Add("a: &x [*x, *x]\n---\n? [a]\n: b\n")
	f.Add("input: {a: b}\nmodel:\n  - a\n  - b\nlimit: ~\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(dir, "job.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		var o jobflags.Options
		flags := cli.NewFlags("run")
		o.Define(flags)
		if err := cli.ApplyConfig(path, flags, "config"); err != nil {
			if !strings.Contains(err.Error(), path) {
				t.Fatalf("%v does not name the file", err)
			}
			return
		}
		if o.Config != "" {
			t.Fatal("a file names another one")
		}
	})
}
