package setup

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A machine without a TPU is recognized; anything that may be one counts as one.
func TestWithoutTPU(t *testing.T) {
	const null, card = "dev/null", "sys/bus/pci/devices/0000:00:04.0/"
	for name, c := range map[string]struct {
		files   []string // with text after a "="
		environ string
		want    bool
	}{
		"none":                 {[]string{null, card + "vendor=0x8086\n"}, "HOME=/x QUIRE_CACHE=/tpu", true},
		"no bus":               {[]string{null}, "", true},
		"an empty variable":    {[]string{null}, "TPU_SKIP_MDS_QUERY=", true},
		"v4":                   {[]string{null, "dev/accel0"}, "", false},
		"subsystem accel":      {[]string{null, "dev/accel/accel0"}, "", false},
		"v5e":                  {[]string{null, "dev/vfio/0"}, "", false},
		"vfio without a group": {[]string{null, "dev/vfio/vfio"}, "", false},
		"on the bus":           {[]string{null, card + "vendor=0x1ae0\n", card + "device=0x9999\n"}, "", false},
		"no vendor":            {[]string{null, card + "device=0x0063\n"}, "", false},
		"no /dev":              {[]string{card + "vendor=0x8086\n"}, "", false},
		"/dev/vfio is a file":  {[]string{null, "dev/vfio"}, "", false},
		"the bus is a file":    {[]string{null, "sys/bus/pci/devices"}, "", false},
		"on GKE":               {[]string{null}, "TPU_WORKER_HOSTNAMES=localhost", false},
		"no metadata":          {[]string{null}, "TPU_SKIP_MDS_QUERY=1", false},
		"kind":                 {[]string{null}, "TPU_ACCELERATOR_TYPE=v5litepod-4", false},
		"remote":               {[]string{null}, "CLOUD_TPU_TASK_ID=0", false},
		"slices":               {[]string{null}, "MEGASCALE_SLICE_ID=0", false},
		"libtpu's own":         {[]string{null}, "LIBTPU_INIT_ARGS=--x", false},
	} {
		files := map[string]string{}
		for _, f := range c.files {
			path, text, _ := strings.Cut(f, "=")
			files[path] = text
		}
		if got := withoutTPU(machine(t, files), strings.Fields(c.environ)); got != c.want {
			t.Errorf("%s: %t, want %t", name, got, c.want)
		}
	}
}

// libtpu is rejected if there is no TPU to run on, immediately and with remedies; it compiles there. The user's own
// plugin is accepted.
func TestNoTPU(t *testing.T) {
	cache := isolate(t)
	for _, v := range os.Environ() { // of a machine that has TPUs
		if name, _, _ := strings.Cut(v, "="); strings.Contains(name, "TPU") || strings.HasPrefix(name, "MEGASCALE_") {
			t.Setenv(name, "")
		}
	}
	plugin := touch(t, filepath.Join(accelerators["tpu"].folder(cache), accelerators["tpu"].target))
	withSystem(t, machine(t, map[string]string{"dev/null": ""}))
	var none *NoTPUError
	if err := Usable("tpu", true); !errors.As(err, &none) || !strings.Contains(err.Error(),
		"a different backend, such as xla:cpu; if there is one after all, set QUIRE_PLUGIN_TPU="+plugin) {
		t.Error(err)
	}
	if _, err := UsePlugin(t.Context(), "tpu", false, nil); err != nil {
		t.Error(err)
	}
	t.Setenv(EnvPlugin("tpu"), plugin)
	if err := Usable("tpu", true); err != nil {
		t.Error(err)
	}
	t.Setenv(EnvPlugin("tpu"), "")
	touch(t, filepath.Join(cache, "plugins", "tpu-local", "mine.so"))
	if err := Usable("tpu", true); err != nil {
		t.Error(err)
	}
}
