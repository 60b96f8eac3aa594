package arithmetic

import (
	"runtime"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/batch/spec"
)

// Only what gives the same bytes has the same name, and the remedy fits the machine.
func TestArithmetic(t *testing.T) {
	for _, c := range []struct {
		level string
		tiles bool
		want  string
	}{{"avx2", false, "kernels avx2"}, {"avx512", false, "kernels avx2"}, {"avx512bf16", false, "kernels avx2"},
		{"amx", false, "kernels avx2"}, {"amx", true, "kernels amx"}} {
		if got := kernelClass(c.level, c.tiles); got != c.want {
			t.Errorf("%s, tiles %v: %q, want %q", c.level, c.tiles, got, c.want)
		}
	}
	for _, c := range []struct {
		weights             string
		dtype, kv           dtypes.DType
		matrices, attention bool
	}{
		{"auto", dtypes.BFloat16, dtypes.InvalidDType, true, true},
		{"bf16", dtypes.BFloat16, dtypes.Int8, true, false},
		{"f32", dtypes.BFloat16, dtypes.InvalidDType, false, true}, // queries and keys alone
		{"f16", dtypes.BFloat16, dtypes.BFloat16, false, true},
		{"f32", dtypes.BFloat16, dtypes.Float32, false, false},
		{"int8", dtypes.Float32, dtypes.InvalidDType, true, false},
		{"auto", dtypes.Float32, dtypes.InvalidDType, false, false},
		{"auto", dtypes.Float32, dtypes.BFloat16, false, false},
	} {
		if matrices, attention := productsOfAMX(c.weights, c.dtype, c.kv); (matrices != nil) != c.matrices ||
			attention != c.attention {
			t.Errorf("%+v: matrices %v, attention %v", c, matrices != nil, attention)
		}
	}
	if got := kernelClass("plain", false); !strings.HasPrefix(got, "kernels plain, XLA for ") {
		t.Error(got)
	}
	for _, c := range []struct{ backend, device, want string }{
		{"xla:cuda", "", ""}, {"xla:cuda", "NVIDIA H200", "NVIDIA H200"}, {"xla:tpu", "TPU v5 lite", "TPU v5 lite"},
		{"go", "", "go on " + runtime.GOARCH},
	} {
		e := &spec.Engine{Backend: c.backend, DType: "auto"}
		if got, err := Name(e, dtypes.InvalidDType, c.device); err != nil || got != c.want {
			t.Errorf("%s on %q: %q, %v; want %q", c.backend, c.device, got, err, c.want)
		}
	}
	tuned := func(chosen string) string { return Tuned("NVIDIA H200", chosen) }
	if got, err := Name(&spec.Engine{Backend: "xla:cuda"}, dtypes.InvalidDType, tuned("ab12")); err != nil ||
		got != "NVIDIA H200, tuned as ab12" {
		t.Errorf("what tuning chose: %q, %v", got, err)
	}
	if got := Remedy(tuned("ab12"), tuned("cd34")); !strings.Contains(got, "QUIRE_CACHE") {
		t.Errorf("the remedy for another tuning is %q", got)
	}
	if got := Remedy("NVIDIA H100, tuned as ab12", tuned("ab12")); strings.Contains(got, "QUIRE_CACHE") {
		t.Errorf("the remedy for another device is %q", got)
	}
	on := func(backend, device string) (string, error) {
		e := spec.Default().Engine
		e.Backend = backend
		return Name(&e, dtypes.InvalidDType, device)
	}
	here, err := on("xla:cpu", "")
	plugin, pluginErr := on("xla:/a/plugin.so", "cpu")
	if err != nil || pluginErr != nil || here != plugin || here == "" {
		t.Errorf("%q, %v; by the plugin's path %q, %v", here, err, plugin, pluginErr)
	}
	for _, c := range []struct{ now, was, want string }{
		{"NVIDIA H200", "NVIDIA H100", "on a machine like it"},
		{"kernels avx2", "NVIDIA H100", "on a machine like it"},
		{"NVIDIA H100", "kernels avx2", "on a machine like it"},
		{"XLA for AVX512", "XLA for AVX2", "XLA_FLAGS=--xla_cpu_max_isa=AVX2"},
		{"XLA for AVX2", "XLA for AVX512", "on a machine like it"},
	} {
		if got := Remedy(c.now, c.was); !strings.Contains(got, c.want) {
			t.Errorf("%s, was %s: %s", c.now, c.was, got)
		}
	}
}
