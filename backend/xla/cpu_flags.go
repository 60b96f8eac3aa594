package xla

import (
	"os"
	"strings"
	"sync"
)

// cpuFlags ask XLA:CPU to compile fast. Programs have hundreds of small loops over tables, and kernels in C do what
// takes time in a step. XLA's newer emitter lowers each of these loops by itself. See docs/kernels.md.
const cpuFlags = "--xla_backend_extra_options=xla_cpu_disable_new_fusion_emitters,xla_cpu_disable_loop_unrolling," +
	"xla_cpu_disable_slp_vectorizer"

const xlaFlags = "XLA_FLAGS"

var flagsOfCPUs sync.Once

// setCPUFlags puts cpuFlags before the user's own, which win. A plugin reads them once, so they are for all programs of
// the process.
func setCPUFlags() {
	flagsOfCPUs.Do(func() {
		_ = os.Setenv(xlaFlags, strings.TrimSpace(cpuFlags+" "+os.Getenv(xlaFlags)))
	})
}
