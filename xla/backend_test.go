package xla_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/support/backendtest"

	"github.com/quire/quire/xla"
)

// cpuPlugin returns the XLA:CPU plugin of the cache that `make test` fills.
func cpuPlugin(t testing.TB) string {
	t.Helper()
	if p := os.Getenv("QUIRE_PLUGIN_CPU"); p != "" {
		return p
	}
	cache := os.Getenv("QUIRE_CACHE")
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			t.Fatal(err)
		}
		cache = filepath.Join(user, "quire")
	}
	found, _ := filepath.Glob(filepath.Join(cache, "plugins", "cpu-*", "pjrt_c_api_cpu_plugin.so"))
	if len(found) == 0 {
		t.Fatalf("no XLA:CPU plugin under %s: `make test` fetches it", cache)
	}
	return found[0]
}

func newBackend(t testing.TB, o xla.Options) *xla.Backend {
	t.Helper()
	o.Plugin = cpuPlugin(t)
	b, err := xla.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}


func TestCompliance(t *testing.T) {
	backendtest.RunAll(t, newBackend(t, xla.Options{}), nil)
}
