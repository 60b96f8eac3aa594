package setup

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// isolate hides what this machine has installed.
func isolate(t *testing.T) (cache string) {
	t.Helper()
	cache = t.TempDir()
	t.Setenv(EnvCache, cache)
	t.Setenv("HOME", t.TempDir())
	for _, v := range []string{"PJRT_PLUGIN_LIBRARY_PATH", "VIRTUAL_ENV", "CONDA_PREFIX", "TPU_LIBRARY_PATH",
		EnvPlugin("cpu"), EnvPlugin("cuda"), EnvPlugin(CUDACompile), EnvPlugin("tpu")} {
		t.Setenv(v, "")
	}
	return cache
}

func touch(t *testing.T, path string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	return real
}

// The places come in the documented order: each new file, better placed than the last one, is found.
func TestFindPluginOrder(t *testing.T) {
	cache := isolate(t)
	home, venv, own := os.Getenv("HOME"), t.TempDir(), t.TempDir()
	t.Setenv("VIRTUAL_ENV", venv)
	for platform, paths := range map[string][]string{
		"cpu": {
			home + "/.local/lib/go-xla/pjrt_c_api_cpu_v0.98.0_plugin.so",
			cache + "/plugins/cpu-release/pjrt_c_api_cpu_plugin.so",
			cache + "/plugins/cpu-local/mine.so",
		},
		"cuda": {
			home + "/.local/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
			venv + "/lib/python3.12/site-packages/jax_plugins/xla_cuda13/xla_cuda_plugin.so",
			home + "/.local/lib/go-xla/nvidia/pjrt_c_api_cuda_plugin.so",
			accelerators["cuda"].folder(cache) + "/nvidia/pjrt_c_api_cuda_plugin.so",
		},
		"tpu": {
			venv + "/lib/python3.12/site-packages/libtpu/libtpu.so",
			accelerators["tpu"].folder(cache) + "/pjrt_c_api_tpu_plugin.so",
		},
	} {
		for _, path := range paths {
			want := touch(t, path)
			if got, err := FindPlugin(platform); err != nil || got != want {
				t.Errorf("%s: found %q, %v; want %q", platform, got, err, want)
			}
		}
		want := touch(t, filepath.Join(own, platform+".so"))
		t.Setenv(EnvPlugin(platform), want)
		if got, err := FindPlugin(platform); err != nil || got != want {
			t.Errorf("%s by variable: found %q, %v; want %q", platform, got, err, want)
		}
		t.Setenv(EnvPlugin(platform), want+"-none")
		if _, err := FindPlugin(platform); err == nil || !strings.Contains(err.Error(), EnvPlugin(platform)) {
			t.Errorf("%s by a variable that names no file: %v", platform, err)
		}
	}
}

// The error of a machine with nothing and no network has everything that is needed to fix it by hand.
func TestMissingErrorTellsAll(t *testing.T) {
	cache := isolate(t)
	t.Setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple") // nothing listens there
	t.Setenv("PIP_FIND_LINKS", t.TempDir())
	for _, a := range []asset{cpuPlugin, demoModel, gemmaModel} {
		var err error
		if a.Name == "cpu" {
			_, err = EnsurePlugin(t.Context(), "cpu", nil)
		} else {
			_, err = EnsureModel(t.Context(), a.Name, nil)
		}
		var missing *MissingError
		if !errors.As(err, &missing) || missing.Cause == nil {
			t.Fatalf("%s: got %v", a.Name, err)
		}
		wanted := []string{a.SHA256, a.path(cache), a.EnvPath, "--from"}
		for _, w := range a.Wheels {
			wanted = append(wanted, w.Package+"=="+w.Version)
		}
		if w := a.Wheels[0]; len(a.Wheels) == 1 {
			wanted = append(wanted, w.File, w.SHA256, w.Inside)
		}
		for _, want := range wanted {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the error does not say %q:\n%v", a.Name, want, err)
			}
		}
	}
	if _, err := FindPlugin("cuda"); !isMissing(err) || !strings.Contains(err.Error(), "QUIRE_PLUGIN_CUDA") {
		t.Errorf("cuda: %v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	isolate(t)
	if _, err := EnsurePlugin(t.Context(), "rocm", nil); err == nil ||
		!strings.Contains(err.Error(), "cpu, cuda, cuda-compile, tpu") {
		t.Errorf("platform: %v", err)
	}
	if _, err := EnsureModel(t.Context(), "gpt5", nil); err == nil || !strings.Contains(err.Error(), "smollm2") {
		t.Errorf("model: %v", err)
	}
}

// A pinned file of the wrong size, as after a full disk, does not count as installed.
func TestDamagedFile(t *testing.T) {
	cache := isolate(t)
	touch(t, cpuPlugin.path(cache))
	touch(t, demoModel.path(cache))
	if _, err := FindPlugin("cpu"); !isMissing(err) || !strings.Contains(err.Error(), "wrong size") {
		t.Errorf("plugin: %v", err)
	}
	if _, err := FindModel("smollm2"); !isMissing(err) || !strings.Contains(err.Error(), "wrong size") {
		t.Errorf("model: %v", err)
	}
}

// A file of the right size but with other bytes is found, and List reports that it is damaged.
func TestListChecksDigests(t *testing.T) {
	cache := isolate(t)
	touch(t, demoModel.path(cache))
	if err := os.Truncate(demoModel.path(cache), demoModel.Size); err != nil {
		t.Fatal(err)
	}
	entries, err := List()
	if err != nil {
		t.Fatal(err)
	}
	states := map[string]State{}
	for _, e := range entries {
		states[e.Name] = e.State
	}
	if states["smollm2"] != Damaged || states["cpu"] != Missing || states["cuda"] != Missing || len(states) != 8 {
		t.Errorf("states %v", states)
	}
}

func TestInstallOwn(t *testing.T) {
	cache := isolate(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	text := touch(t, filepath.Join(t.TempDir(), "thing.so"))
	for from, want := range map[string]string{
		text:                             "not a shared library",
		self:                             "", // a Go test binary: symbols or none, never GetPjrtApi
		filepath.Join(cache, "none.so"):  "--from",
		touch(t, cache+"/"+"other.whl"):  "SHA-256",
		touch(t, cache+"/"+"model.gguf"): "not a shared library",
	} {
		if _, err := Install(t.Context(), "cpu", from, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("from %s: %v", from, err)
		}
	}
	if _, err := Install(t.Context(), "smollm2", cache+"/model.gguf", nil); err == nil ||
		!strings.Contains(err.Error(), "--model") {
		t.Errorf("another model: %v", err)
	}
	if _, err := Install(t.Context(), "nothing", text, nil); err == nil || !strings.Contains(err.Error(), "smollm2") {
		t.Errorf("unknown item: %v", err)
	}
}

// The pins fit the real files, and the pinned plugin can be brought by hand.
func TestPinsFitRealFiles(t *testing.T) {
	plugin, err := FindPlugin("cpu")
	if err != nil {
		t.Fatalf("fetch first (make test does): %v", err)
	}
	if err := exportsPJRT(plugin); err != nil {
		t.Error(err)
	}
	entries, err := List()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if (e.Name == "cpu" || e.Name == "smollm2") && e.State != OK {
			t.Errorf("%s is %s: %s", e.Name, e.State, e.Problem)
		}
	}
	isolate(t)
	if sizeOf(plugin) != cpuPlugin.Size {
		return // QUIRE_PLUGIN_CPU names another one
	}
	path, err := Install(t.Context(), "cpu", plugin, nil)
	if err != nil || checkDigest(path, cpuPlugin.SHA256) != nil {
		t.Errorf("installing the pinned file: %q, %v", path, err)
	}
}

// A plugin of one's own is linked, preferred to the fetched one, and replaced by the next.
func TestInstallOwnPlugin(t *testing.T) {
	isolate(t)
	dir := t.TempDir()
	source := filepath.Join(dir, "plugin.c")
	if err := os.WriteFile(source, []byte("void *GetPjrtApi(void) { return 0; }"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"one.so", "two.so"} {
		own := filepath.Join(dir, name)
		if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", own, source).CombinedOutput(); err != nil {
			t.Fatalf("gcc, which cgo needs too: %v: %s", err, out)
		}
		own, _ = filepath.EvalSymlinks(own)
		if got, err := Install(t.Context(), "cpu", own, nil); err != nil || got != own {
			t.Errorf("installed %q, %v", got, err)
		}
		if got, err := FindPlugin("cpu"); err != nil || got != own {
			t.Errorf("found %q, %v; want %q", got, err, own)
		}
	}
}
