// Package arithmetic names what computes the completions of a job, so that no process continues a job with other bytes.
package arithmetic

import (
	"cmp"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"golang.org/x/sys/cpu"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/backend/xla/cpukernel"
	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/spec"
)

// The code that computes completions determines their last bits. A job records its name, which is the same for code
// that gives the same bytes, so that nobody continues a job whose first half was computed differently. docs/kernels.md
// reports which kernels give the same bytes.

// Name returns the name of the code that computes the completions of a model, whose own dtype is given, on a kind of
// device. Before a device is there, it is empty if it depends on the device.
func Name(e *spec.Engine, own dtypes.DType, device string) (string, error) {
	switch {
	case e.Backend == "go":
		// Whether Go fuses multiplications and additions depends on the architecture.
		return "go on " + runtime.GOARCH, nil
	case !backend.Named(e.Backend).IsHost && !backend.For(device).IsHost:
		return device, nil
	case e.Kernels == xla.KernelsOff:
		return compiledFor(), nil
	}
	level, err := cpukernel.Features()
	if err != nil {
		return "", err
	}
	return kernelClass(level, tiles(e, own, level)), nil
}

// tiles reports whether AMX multiplies the job's matrices, or its queries and keys: its order of sums is its own.
func tiles(e *spec.Engine, own dtypes.DType, level string) bool {
	matrices, attention := productsOfAMX(e.Weights, cmp.Or(e.Config().DType, own), e.Config().KVDType)
	if attention && level == cpukernel.Levels[len(cpukernel.Levels)-1] {
		return true
	}
	return matrices != nil &&
		cpukernel.LinearLayout(*matrices).Multiple > cpukernel.LinearLayout(cpukernel.F32).Multiple
}

// productsOfAMX is what AMX would multiply of a job: matrices of the type, if any, and queries and keys. kv is invalid
// if the cache has the model's dtype. Attention also depends on the size of heads, see q_attention_by_tiles.
func productsOfAMX(weights string, dtype, kv dtypes.DType) (matrices *cpukernel.DType, attention bool) {
	bf16 := dtype == dtypes.BFloat16
	switch {
	case weights == "int8":
		held := cpukernel.S8
		matrices = &held
	case bf16 && weights != "f32" && weights != "f16":
		held := cpukernel.BF16
		matrices = &held
	}
	return matrices, bf16 && (kv == dtypes.BFloat16 || kv == dtypes.InvalidDType)
}

// kernelClass names what kernels of a level compute, by the level of [cpukernel.Levels] that gives the bytes: AVX-512's
// kernels have AVX2's, tiles and plain C have not.
func kernelClass(level string, tiles bool) string {
	switch {
	case level == "plain":
		return jobstate.Kernels + level + ", " + compiledFor()
	case tiles:
		return jobstate.Kernels + "amx"
	}
	return jobstate.Kernels + "avx2"
}

// xlaArithmetic begins the names of what XLA's own code computes; one of instructionSets follows.
const xlaArithmetic = "XLA for "

// instructionSets are the sets that distinguish XLA's code, by the names in its flag. Each contains the previous ones.
var instructionSets = []string{"SSE4_2", "AVX", "AVX2", "AVX512"}

var maxISA = regexp.MustCompile(`--xla_cpu_max_isa=(\S+)`)

// compiledFor names the code that XLA makes for this processor, or for as much of it as XLA_FLAGS allow.
func compiledFor() string {
	if runtime.GOARCH != "amd64" {
		return xlaArithmetic + runtime.GOARCH
	}
	have := 0
	switch {
	case cpu.X86.HasAVX512F && cpu.X86.HasAVX512DQ && cpu.X86.HasAVX512BW && cpu.X86.HasAVX512VL:
		have = 3
	case cpu.X86.HasAVX2 && cpu.X86.HasFMA:
		have = 2
	case cpu.X86.HasAVX:
		have = 1
	}
	if m := maxISA.FindStringSubmatch(os.Getenv("XLA_FLAGS")); m != nil {
		name, _, _ := strings.Cut(strings.ToUpper(m[1]), "_") // AVX512_VNNI and others compute as AVX512
		if name == "SSE4" {
			name = instructionSets[0]
		}
		if limit := slices.Index(instructionSets, name); limit >= 0 {
			have = min(have, limit)
		}
	}
	return xlaArithmetic + instructionSets[have]
}

// tunedAs stands between the name of a kind of device and what tuning chose on one.
const tunedAs = ", tuned as "

// Tuned is the device of [Name] if programs are tuned on it: chosen is a digest of the forms that were chosen.
func Tuned(device, chosen string) string { return device + tunedAs + chosen }

// Remedy reports how this machine may compute as another one did; now and was are names of arithmetic.
func Remedy(now, was string) string {
	onSuch := "continue where the job was started, or on a machine like it"
	if device, _, ok := strings.Cut(was, tunedAs); ok && strings.HasPrefix(now, device+tunedAs) {
		return "continue where the job was started, or with the folder \"programs\" of that machine's cache " +
			"(QUIRE_CACHE), which has its programs as they were tuned"
	}
	if level, ok := strings.CutPrefix(was, jobstate.Kernels); ok {
		level, _, plain := strings.Cut(level, ", ")
		have, err := cpukernel.Features()
		switch {
		case !strings.HasPrefix(now, jobstate.Kernels): // --kernels or --backend is another, and named
		case err == nil && slices.Index(cpukernel.Levels, level) <= slices.Index(cpukernel.Levels, have) &&
			(!plain || strings.HasSuffix(was, compiledFor())):
			return fmt.Sprintf("%s=%s computes as the job began", cpukernel.EnvKernels, level)
		case os.Getenv(cpukernel.EnvKernels) != "":
			return fmt.Sprintf("unset %s, or %s", cpukernel.EnvKernels, onSuch)
		}
		return onSuch
	}
	before := slices.Index(instructionSets, strings.TrimPrefix(was, xlaArithmetic))
	if before >= 0 && before < slices.Index(instructionSets, strings.TrimPrefix(now, xlaArithmetic)) {
		return "XLA_FLAGS=--xla_cpu_max_isa=" + instructionSets[before] + " computes as the job began"
	}
	return onSuch
}
