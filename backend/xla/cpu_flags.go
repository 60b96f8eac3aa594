package xla

import (
	"os"
	"strings"
)

const xlaFlags = "XLA_FLAGS"

// cpuFlags make XLA:CPU compile fast. Programs have hundreds of small loops over tables, each of which XLA's newer
// emitter lowers by itself, while most of a step's time is in kernels in C. docs/kernels.md explains the flags, and
// bench/start.md has what they gain.
const cpuFlags = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters,xla_cpu_disable_loop_unrolling," +
	"xla_cpu_disable_slp_vectorizer"

// setCPUFlags puts cpuFlags before the user's flags, once. A plugin reads the flags once, so they apply to all programs
// of the process, with and without kernels. Processes that this one starts inherit them.
func setCPUFlags() {
	if !strings.HasPrefix(os.Getenv(xlaFlags), cpuFlags) {
		_ = os.Setenv(xlaFlags, strings.TrimSpace(cpuFlags+" "+os.Getenv(xlaFlags)))
	}
}

// userFlags returns the user's flags. Programs for other devices do not depend on cpuFlags.
func userFlags() string { return strings.TrimSpace(strings.TrimPrefix(os.Getenv(xlaFlags), cpuFlags)) }
