package xla

import (
	"os"
	"strings"
)

const xlaFlags = "XLA_FLAGS"

// cpuFlags ask XLA:CPU to compile fast. Programs have hundreds of small loops over tables, and kernels in C do what
// takes time in a step. XLA's newer emitter lowers each of these loops by itself. See docs/kernels.md, and
// bench/start.md for what the flags gain.
const cpuFlags = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters,xla_cpu_disable_loop_unrolling," +
	"xla_cpu_disable_slp_vectorizer"

// setCPUFlags puts cpuFlags before the user's own, once. A plugin reads them once, so they are for all programs of the
// process, with kernels and without. Processes that this one starts inherit them.
func setCPUFlags() {
	if !strings.HasPrefix(os.Getenv(xlaFlags), cpuFlags) {
		_ = os.Setenv(xlaFlags, strings.TrimSpace(cpuFlags+" "+os.Getenv(xlaFlags)))
	}
}

// userFlags are the user's own: other devices' programs do not depend on cpuFlags.
func userFlags() string { return strings.TrimSpace(strings.TrimPrefix(os.Getenv(xlaFlags), cpuFlags)) }
