package xla

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/programcache"
	"github.com/quire/quire/backend/xla/internal/topologies"
)

func openCache(dir string, b *Backend) (*programcache.Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("xla: the folder for compiled programs: %w: give another, or none", err)
	}
	key, err := b.machineKey()
	if err != nil {
		return nil, err
	}
	return programcache.Open(dir, key), nil
}

// machineKey returns what compiled programs depend on besides their text.
func (b *Backend) machineKey() ([]byte, error) {
	var key bytes.Buffer
	if b.platform == "tpu" && b.standIn == nil {
		// Another machine may compile a TPU's programs: see tpuKey.
		b.tpuKey(&key)
		return key.Bytes(), nil
	}
	plugin, err := os.Stat(b.pluginPath)
	if err != nil {
		return nil, fmt.Errorf("xla: the plugin: %w", err)
	}
	major, minor := b.plugin.Version()
	fmt.Fprintf(&key, "plugin %s %d %d api %d.%d\n", b.pluginPath, plugin.Size(), plugin.ModTime().UnixNano(), major,
		minor)
	attributes := b.plugin.Attributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fmt.Fprintf(&key, "attribute %s %v\n", name, attributes[name])
	}
	fmt.Fprintf(&key, "platform %s %s devices %d: %s\n", b.platform, b.client.PlatformVersion(), b.client.NumDevices(),
		b.DeviceDescription(0))
	fmt.Fprintf(&key, "cpus %d %s\n", runtime.NumCPU(), cpuFeatures("/proc/cpuinfo"))
	for _, name := range []string{xlaFlags, pjrt.EnvXlaDebugOptions} {
		fmt.Fprintf(&key, "%s %q\n", name, os.Getenv(name))
	}
	return key.Bytes(), nil
}

// cpuFeatures returns what the processor can do, on which the code that XLA:CPU generates depends.
func cpuFeatures(file string) string {
	info, err := os.ReadFile(file)
	if err != nil {
		return runtime.GOARCH // not Linux
	}
	var features []string
	for line := range strings.Lines(string(info)) {
		name, value, _ := strings.Cut(line, ":")
		switch strings.TrimSpace(name) {
		case "vendor_id", "model name", "flags", "Features", "CPU part":
			features = append(features, strings.TrimSpace(value))
		case "":
			return strings.Join(features, "; ") // the end of the first processor
		}
	}
	return strings.Join(features, "; ")
}

// tpuKey writes what the programs of a TPU depend on besides their text. It leaves out the host and the path of the
// plugin, so that a machine with the devices finds what a machine without them has compiled. The version identifies
// libtpu's build and the chip.
func (b *Backend) tpuKey(key io.Writer) {
	var version string
	if b.topology != nil {
		version = b.topology.described.Version
	} else {
		version = b.client.PlatformVersion()
	}
	fmt.Fprintf(key, "tpu %q devices %d\n", version, b.devicesOfAll())
	fmt.Fprintf(key, "LIBTPU_INIT_ARGS %q\n", os.Getenv("LIBTPU_INIT_ARGS"))
	fmt.Fprintf(key, "%s %q\n", xlaFlags, userFlags())
	fmt.Fprintf(key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
}

// openRecords keeps records in a folder. Their key has all that the compiler's answers depend on besides the program
// and its options.
func (b *Backend) openRecords(o TopologyOptions) error {
	if err := os.MkdirAll(o.RecordDir, 0o755); err != nil {
		return fmt.Errorf("xla: the folder for what is known of programs: %w: give another, or none", err)
	}
	var key bytes.Buffer
	fmt.Fprintf(&key, "record 1 %s %q\n", b.platform, o.Name)
	for _, name := range slices.Sorted(maps.Keys(o.Options)) {
		fmt.Fprintf(&key, "option %s %v\n", name, o.Options[name])
	}
	b.tpuKey(&key)
	if b.platform != "tpu" { // whose version does not tell the build
		plugin, err := os.Stat(b.pluginPath)
		if err != nil {
			return fmt.Errorf("xla: the plugin: %w", err)
		}
		fmt.Fprintf(&key, "described as %v\n", topologies.GPUOptions(o.Name))
		fmt.Fprintf(&key, "plugin %s %d %d\n", b.pluginPath, plugin.Size(), plugin.ModTime().UnixNano())
		fmt.Fprintf(&key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
	}
	b.topology.records = programcache.Open(o.RecordDir, key.Bytes())
	return nil
}
