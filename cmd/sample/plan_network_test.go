package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/quire/quire/internal/testenv"
)

// A plan of a config.json asks nothing of the network: a proxy that takes everything sees no request.
func TestPlanNeedsNoNetwork(t *testing.T) {
	var asked atomic.Int64
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		http.Error(w, "there is no network", http.StatusForbidden)
	}))
	defer proxy.Close()
	plan := func(t *testing.T, args ...string) (output string, err error) {
		asked.Store(0)
		cmd := exec.CommandContext(t.Context(), "real-sample", append([]string{"plan"}, args...)...)
		cmd.Env = append(os.Environ(), "NO_PROXY=", "no_proxy=")
		for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"} {
			cmd.Env = append(cmd.Env, name+"="+proxy.URL, strings.ToLower(name)+"="+proxy.URL)
		}
		text, err := cmd.CombinedOutput()
		return string(text), err
	}
	needsNone := func(t *testing.T, args ...string) {
		if output, err := plan(t, args...); err != nil || asked.Load() != 0 || !strings.Contains(output, "run with") {
			t.Errorf("%d requests, %v:\n%s", asked.Load(), err, output)
		}
	}
	t.Run("cpu", func(t *testing.T) {
		config, err := os.ReadFile(testenv.Path("testdata", "models", "smollm2-like", "config.json"))
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "model.json")
		if err := os.WriteFile(file, config, 0o644); err != nil {
			t.Fatal(err)
		}
		needsNone(t, "--model", file, "--backend", "xla:cpu", "--max-seqs", "4", "--max-model-len", "16", "--kv-memory",
			"1MiB")
	})
	t.Run("tpu", func(t *testing.T) {
		testenv.Slow(t)
		needLibtpu(t)
		needsNone(t, "--model", smallLlama(t), "--topology", "v5e:1x1", "--dtype", "bf16", "--max-seqs", "4",
			"--max-model-len", "128", "--kv-memory", "64MiB", "--layers", "loop")
	})
	t.Run("a model of the hub", func(t *testing.T) { // the proxy is asked where there is something to ask for
		t.Setenv("HF_HOME", t.TempDir())
		if output, err := plan(t, "--model", "hf://quire/none", "--backend", "xla:cpu"); err == nil ||
			asked.Load() == 0 {
			t.Errorf("%d requests, %v:\n%s", asked.Load(), err, output)
		}
	})
}
