package xla_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
)

// The CPU's plugin has no profiler, and says so.
func TestNoProfilerOnTheCPU(t *testing.T) {
	b := testenv.XLA(t)
	if err := b.CheckProfiler(); !errors.Is(err, xla.ErrNoProfiler) || !strings.Contains(err.Error(), "cpu_plugin") {
		t.Errorf("the error is %v", err)
	}
	if _, err := b.StartProfile(); !errors.Is(err, xla.ErrNoProfiler) {
		t.Errorf("the error is %v", err)
	}
}

// The plugins for GPU and TPU take a profile where there is no device too. What is written has whole fields only.
func TestProfilesOfPlugins(t *testing.T) {
	for _, name := range []string{"h200:1", "v5e:1x1"} {
		t.Run(name, func(t *testing.T) { takeProfiles(t, testenv.Topology(t, name)) })
	}
}

func takeProfiles(t *testing.T, b *xla.Backend) {
	if err := b.CheckProfiler(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // one after the other
		p, err := b.StartProfile()
		if err != nil {
			t.Fatal(err)
		}
		folder := t.TempDir()
		file, err := p.Stop(folder)
		if err != nil {
			t.Fatal(err)
		}
		found, _ := filepath.Glob(filepath.Join(folder, "plugins", "profile", "*", "*.xplane.pb"))
		if len(found) != 1 || found[0] != file {
			t.Errorf("the profile is in %s, and there are %v", file, found)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for len(data) > 0 {
			number, _, n := protowire.ConsumeField(data)
			if n < 0 || number > 5 {
				t.Fatalf("field %d of an XSpace (%v)", number, protowire.ParseError(n))
			}
			data = data[n:]
		}
	}
	p, err := b.StartProfile()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Stop(string([]byte{0})); err == nil {
		t.Error("a folder that can not be made was made")
	}
}
