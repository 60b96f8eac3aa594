// Package fakeplugin builds a PJRT plugin that does what a script says, for tests: clients that take long or fail,
// devices that vanish, calls that never return.
//
//	plugin := fakeplugin.New(t, "platform=tpu", "devices=4", "Client_Create: sleep 60")
//	backend, err := xla.New(xla.Options{Plugin: plugin})
//
// By itself the plugin has devices that hold arrays, and programs whose output i is a copy of input i. With real=PATH
// it is the plugin at PATH, for instance the CPU's, and the script bends its calls. The entries of a script:
//
//	FUNCTION: ACTION        what becomes of all calls of PJRT_FUNCTION; FUNCTION@3 is the third call, FUNCTION@3+ all
//	                        from the third on. The actions: "sleep SECONDS" before the call, "hang", "error CODE TEXT"
//	                        in the call's place (PJRT_Error_Code), "exit CODE" of the process
//	api=0.104               version of the C API
//	functions=40            the table of functions ends after so many
//	platform=tpu kind=TPU   names of the platform and of its devices
//	devices=16 processes=4  devices in all, and how many processes have an equal share; process=1 is this one
//	memory=16000000000      bytes of a device
//	topology=v5e:2x4        the topology that it knows, with those devices
//	outputs=2               outputs of each program
//	log=FILE                takes a line for each call that a script may name, and one with each variable of libtpu's
//	                        that the plugin finds in its environment when it is loaded ("env TPU_VISIBLE_CHIPS=0")
//	real=PATH               the plugin to bend
//
// With real= and memory= the device has so much memory: it counts arrays, the code of programs and their temporaries,
// and refuses what it has no room for. It has the name platform= then, so that it counts as an accelerator.
//
// To add a function of the C API, write it in c/plugin.c and name it in CALLS of c/table.c.
package fakeplugin

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quire/quire/backend/setup"
)

// Variable has the script of a plugin that has no script file, with its entries separated by semicolons.
const Variable = "QUIRE_FAKE_PLUGIN"

// The parts of the plugin, which are compiled as one file.
var (
	//go:embed c/plugin.c
	calls string
	//go:embed c/memory.c
	memory string
	//go:embed c/table.c
	table string
)

var source = calls + "\n" + memory + "\n" + table

// New returns the path of a new plugin with a script.
func New(t testing.TB, script ...string) string {
	t.Helper()
	built, err := os.ReadFile(Build(t))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "plugin.so")
	for name, content := range map[string][]byte{path: built, path + ".script": []byte(strings.Join(script, ";"))} {
		if err := os.WriteFile(name, content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

// Build returns the path of the plugin, whose script is in [Variable]. Compiled programs of a plugin that it wraps
// are cached under this path.
func Build(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// build compiles the plugin, once for each version of it.
var build = sync.OnceValues(func() (string, error) {
	module, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gomlx/go-xla").Output()
	if err != nil {
		return "", fmt.Errorf("finding go-xla, which has the header of the C API: %w", err)
	}
	cache, err := setup.CacheDir()
	if err != nil {
		return "", err
	}
	header := filepath.Join(strings.TrimSpace(string(module)), "pjrt")
	sum := sha256.Sum256([]byte(header + "\n" + source))
	dir := filepath.Join(cache, "test-plugins")
	path := filepath.Join(dir, "fake-"+hex.EncodeToString(sum[:8])+".so")
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	made, err := os.CreateTemp(dir, "building-*.so") // other processes may build it, too
	if err != nil {
		return "", err
	}
	made.Close()
	defer os.Remove(made.Name())
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	cmd := exec.Command(compiler, "-std=gnu11", "-O1", "-Wall", "-shared", "-fPIC", "-fvisibility=hidden", "-I", header,
		"-o", made.Name(), "-x", "c", "-", "-ldl", "-lpthread")
	cmd.Stdin = strings.NewReader(source)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("compiling the fake plugin: %w: %s", err, out)
	}
	return path, os.Rename(made.Name(), path)
})
