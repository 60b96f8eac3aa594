// Package testenv provides tests with shared backends, models and goldens.
package testenv

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/models"
)

var (
	sharedXLA   = once(1, xla.KernelsAuto)
	sharedPlain = once(1, xla.KernelsOff)
	// Backends of several virtual devices, for groups.
	sharedDevices      = once(virtualDevices, xla.KernelsAuto)
	sharedDevicesPlain = once(virtualDevices, xla.KernelsOff)
)

const virtualDevices = 8

func once(devices int, kernels string) func() (*xla.Backend, error) {
	return sync.OnceValues(func() (*xla.Backend, error) { return newXLA(devices, xla.Options{Kernels: kernels}) })
}

// newXLA opens a backend with so many virtual CPU devices.
func newXLA(devices int, o xla.Options) (_ *xla.Backend, err error) {
	if o.Plugin, err = setup.FindPlugin("cpu"); err != nil {
		return nil, err
	}
	// The compiler takes most of a test's time, so programs are kept between runs of the tests.
	cache, err := setup.CacheDir()
	if err != nil {
		return nil, err
	}
	o.Platform, o.ClientOptions = "cpu", map[string]any{"cpu_device_count": devices}
	o.CacheDir, o.KeepLoaded = filepath.Join(cache, "test-executables"), 20
	return xla.New(o)
}

// ownXLA is newXLA for one test.
func ownXLA(t testing.TB, devices int, o xla.Options) *xla.Backend {
	t.Helper()
	b, err := newXLA(devices, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// XLA returns the serving backend on the CPU plugin, one for all tests of a process. It fails the test if the plugin is
// not installed: `make test` installs it.
func XLA(t testing.TB) *xla.Backend { return backend(t, sharedXLA) }

// XLAWithoutKernels is XLA with the plain forms of all composites.
func XLAWithoutKernels(t testing.TB) *xla.Backend { return backend(t, sharedPlain) }

// Group returns a backend on some of 8 virtual devices of the CPU, which run programs together; kernels is as in
// xla.Options.
func Group(t testing.TB, kernels string, devices ...int) *xla.Backend {
	t.Helper()
	open := sharedDevices
	if kernels == xla.KernelsOff {
		open = sharedDevicesPlain
	}
	g, err := backend(t, open).Group(devices...)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func backend(t testing.TB, open func() (*xla.Backend, error)) *xla.Backend {
	t.Helper()
	b, err := open()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Topology returns a backend that compiles for a topology, such as "v5e:1x1" or "h200:1", without any of its devices.
// It skips the test if the plugin is not installed, which `sample setup tpu` and `sample setup cuda-compile` do.
func Topology(t testing.TB, name string) *xla.Backend {
	t.Helper()
	platform := setup.Compiler(xla.TopologyPlatform(name))
	plugin, err := setup.FindPlugin(platform)
	if err != nil {
		t.Skipf("the plugin is not installed (\"sample setup %s\" fetches it): nothing is compiled for %s", platform,
			name)
	}
	cache, err := setup.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	b, err := xla.OpenTopology(xla.TopologyOptions{Plugin: plugin, Name: name,
		RecordDir: filepath.Join(cache, "test-plans")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Finalize)
	return b
}

// Slow skips a test unless slow tests run, as in `make test-slow`.
func Slow(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("part of make test-slow")
	}
}

// Go returns GoMLX's pure Go backend.
func Go(t testing.TB) compute.Backend {
	t.Helper()
	b, err := xla.Open("go", xla.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Path returns the path of a file of the repository, given relative to its root.
func Path(elem ...string) string {
	if root == "" {
		panic("testenv: the process was not started in a folder of the repository")
	}
	return filepath.Join(append([]string{root}, elem...)...)
}

// root is the folder of the repository. It is found from the folder in which a test starts, because a binary built
// with -trimpath does not know the paths of its sources. A test binary that a script runs as a command starts
// elsewhere and has no root.
var root = findRoot()

func findRoot() string {
	folder, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	for ; folder != filepath.Dir(folder); folder = filepath.Dir(folder) {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod"))
		if err == nil && strings.HasPrefix(string(text), module) {
			return folder
		}
	}
	return ""
}

const module = "module github.com/quire/quire\n"

// Families returns the names of the tiny checkpoints under testdata/models.
func Families(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(Path("testdata", "models"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names
}

// Model opens the tiny checkpoint of a family.
func Model(t testing.TB, family string) *models.Checkpoint {
	t.Helper()
	return open(t, Path("testdata", "models", family))
}

// SmolLM2 opens the demo model.
func SmolLM2(t testing.TB) *models.Checkpoint {
	t.Helper()
	path, err := setup.FindModel("smollm2")
	if err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

func open(t testing.TB, path string) *models.Checkpoint {
	t.Helper()
	c, err := models.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Golden has what Hugging Face transformers computed for one model; see scripts/oracle.
type Golden struct {
	Model string
	Cases []GoldenCase
}

// GoldenCase is one prompt: the logits after its last token, and the tokens that greedy decoding generates.
type GoldenCase struct {
	Prompt   []int32
	Logits   []float32
	Tokens   []int32
	Logprobs []float32
	MinGap   float64 `json:"min_gap"`
}

// ReadGolden reads testdata/goldens/<name>.json.gz into v.
func ReadGolden(t testing.TB, name string, v any) {
	t.Helper()
	f, err := os.Open(Path("testdata", "goldens", name+".json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(z).Decode(v); err != nil {
		t.Fatalf("%s: %v", f.Name(), err)
	}
}
