package setup

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Devices are found by their files, TPUs by their PCI ids too, and nothing else is taken for one.
func TestAccelerators(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"none":         {nil, nil},
		"gpu":          {map[string]string{"dev/nvidia0": "", "dev/nvidiactl": ""}, []string{"cuda"}},
		"driver alone": {map[string]string{"dev/nvidiactl": ""}, nil},
		"wsl":          {map[string]string{"usr/lib/wsl/lib/libcuda.so.1": ""}, []string{"cuda"}},
		"tpu v4":       {map[string]string{"dev/accel0": ""}, []string{"tpu"}},
		"other accel":  {map[string]string{"dev/accel/accel0": ""}, nil},
		"tpu v6e": {map[string]string{"sys/bus/pci/devices/0000:00:04.0/vendor": "0x1ae0\n",
			"sys/bus/pci/devices/0000:00:04.0/device": "0x006f\n"}, []string{"tpu"}},
		"google's nic": {map[string]string{"sys/bus/pci/devices/0000:00:04.0/vendor": "0x1ae0\n",
			"sys/bus/pci/devices/0000:00:04.0/device": "0x0042\n"}, nil},
	} {
		root := machine(t, c.files)
		withSystem(t, root)
		if got := Accelerators(); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if none := NoDevice("cuda"); (none == "") != slices.Contains(c.want, "cuda") || NoDevice("cpu") != "" {
			t.Errorf("%s: %q", name, none)
		}
	}
}

// machine makes the root of a file system with these files.
func machine(t *testing.T, files map[string]string) (root string) {
	t.Helper()
	root = t.TempDir()
	for file, text := range files {
		path := filepath.Join(root, file)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

func withSystem(t *testing.T, root string) {
	was := system
	system = root
	t.Cleanup(func() { system = was })
}

// A large missing plugin is not fetched without being asked for; the error states whether there is a device, the cost
// and the command. An installed one is used, with a device or without.
func TestUsable(t *testing.T) {
	isolate(t)
	withSystem(t, t.TempDir())
	if _, err := FindPlugin("tpu"); err == nil {
		t.Skip("the system has a TPU plugin")
	}
	for platform, c := range map[string]struct {
		device bool
		want   []string
	}{
		"cuda": {true, []string{"no NVIDIA GPU was found",
			`"sample setup cuda" installs it (2 GB to fetch, 4 GB on disk)`, "QUIRE_PLUGIN_CUDA"}},
		CUDACompile: {false, []string{"is not installed: ", `"sample setup cuda-compile"`}},
		"tpu":       {true, []string{"no TPU was found", `"sample setup tpu" installs it (205 MB to fetch)`}},
	} {
		_, err := UsePlugin(t.Context(), platform, c.device, func(Step) { t.Errorf("%s is fetched", platform) })
		for _, want := range c.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v lacks %q", platform, err, want)
			}
		}
	}
	if err := errors.Join(Usable("cpu", true), Usable("go", true), Usable("/path/plugin.so", true)); err != nil {
		t.Error(err)
	}
	own := touch(t, filepath.Join(t.TempDir(), "mine.so"))
	t.Setenv(EnvPlugin("tpu"), own)
	if path, err := UsePlugin(t.Context(), "tpu", true, nil); err != nil || path != own {
		t.Error(path, err)
	}
	withSystem(t, t.TempDir())
	if err := os.MkdirAll(filepath.Join(system, "dev", "nvidia0"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Usable("cuda", true); err == nil || strings.Contains(err.Error(), "was found") {
		t.Error(err)
	}
}
