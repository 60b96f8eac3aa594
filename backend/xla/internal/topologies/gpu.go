package topologies

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// gpu is what the compiler asks about a GPU that is not there: NVIDIA's figures, as the driver reports them.
type gpu struct {
	name         string // as the driver calls it
	major, minor int    // compute capability
	cores        int    // streaming multiprocessors
	threads      int    // resident threads per multiprocessor
	shared       int    // bytes of shared memory per multiprocessor
	l2           int64  // bytes
	memory       int64  // bytes
	bandwidth    int64  // bytes per second
	clock        float64
}

// gpus has each GPU by its name in topologies.
var gpus = map[string]gpu{
	"a100": {"NVIDIA A100-SXM4-80GB", 8, 0, 108, 2048, 164 << 10, 40 << 20, 81_920 << 20, 2_039_000_000_000, 1.41},
	"l4":   {"NVIDIA L4", 8, 9, 58, 1536, 100 << 10, 48 << 20, 23_034 << 20, 300_000_000_000, 2.04},
	"l40s": {"NVIDIA L40S", 8, 9, 142, 1536, 100 << 10, 96 << 20, 46_068 << 20, 864_000_000_000, 2.52},
	"h100": {"NVIDIA H100 80GB HBM3", 9, 0, 132, 2048, 228 << 10, 50 << 20, 81_559 << 20, 3_352_000_000_000, 1.98},
	"h200": {"NVIDIA H200", 9, 0, 132, 2048, 228 << 10, 50 << 20, 143_771 << 20, 4_800_000_000_000, 1.98},
	"b200": {"NVIDIA B200", 10, 0, 148, 2048, 228 << 10, 126 << 20, 183_359 << 20, 8_000_000_000_000, 1.965},
}

// GPUMemoryFraction is the fraction of a GPU's memory that the client takes when it starts, for all programs. The
// plugin's own default is 0.75. The rest is for CUDA, its libraries and the code of programs.
const GPUMemoryFraction = 0.9

// GPUClient has the options of a client on GPUs. Options that the caller gives override them.
var GPUClient = map[string]any{"memory_fraction": float32(GPUMemoryFraction), "preallocate": true}

var gpuTopology = regexp.MustCompile(`^([a-z]+[0-9]+[a-z]*)(?::([1-9][0-9]?))?$`)

// Platform returns the platform, "cuda" or "tpu", whose plugin compiles for the topology with this name. It leaves
// names that are not a GPU's to libtpu.
func Platform(name string) string {
	if m := gpuTopology.FindStringSubmatch(name); m != nil {
		if _, ok := gpus[m[1]]; ok {
			return "cuda"
		}
	}
	return "tpu"
}

// gpuCUDA is the version of driver and libraries that the compiler may assume. CUDA graphs have branches and loops from
// 12.3 on, and slices from 12.9 on.
const gpuCUDA = "13.0.0"

// GPUOptions returns the options with which the CUDA plugin makes the topology with this name, for which [Platform] is
// "cuda". All GPUs are in one host. target_config is a stream_executor.GpuTargetConfigProto in text form.
func GPUOptions(name string) map[string]any {
	m := gpuTopology.FindStringSubmatch(name)
	g, n := gpus[m[1]], 1
	if m[2] != "" {
		n, _ = strconv.Atoi(m[2])
	}
	config := fmt.Sprintf(`gpu_device_info {
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_block_optin: %d
  shared_memory_per_core: %d
  threads_per_core_limit: %d
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
  core_count: %d
  fpus_per_core: %d
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: %d
  l2_cache_size: %d
  clock_rate_ghz: %g
  device_memory_size: %d
  driver_version: %q
  runtime_version: %q
  compile_time_toolkit_version: %q
  cuda_compute_capability { major: %d minor: %d }
}
platform_name: "CUDA"
dnn_version_info { major: 9 minor: 10 }
device_description_str: %q
`, g.shared-1024, g.shared, g.threads, g.cores, g.fpus(), g.bandwidth, g.l2, g.clock, g.memory,
		gpuCUDA, gpuCUDA, gpuCUDA, g.major, g.minor, g.name)
	return map[string]any{"topology": fmt.Sprintf("1x1x%d", n), "target_config": config}
}

// fpus returns the number of float32 units per multiprocessor.
func (g gpu) fpus() int {
	if g.major == 8 && g.minor == 0 {
		return 64
	}
	return 128
}

// gpuNames lists the names that [Platform] takes for GPUs.
func gpuNames() string { return strings.Join(slices.Sorted(maps.Keys(gpus)), ", ") }
