package xla_test

import (
	"testing"

	"github.com/gomlx/compute/support/backendtest"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
)

// cpuPlugin returns the XLA:CPU plugin, which `make test` fetches.
func cpuPlugin(t testing.TB) string {
	t.Helper()
	plugin, err := setup.FindPlugin("cpu")
	if err != nil {
		t.Fatal(err)
	}
	return plugin
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
	backendtest.RunAll(t, testenv.XLA(t), nil)
}
