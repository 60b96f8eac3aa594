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
)

// openCache opens the folder for compiled programs, and makes it if it is missing.
func openCache(dir string, d *devices) (*programcache.Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("xla: the folder for compiled programs: %w: give another, or none", err)
	}
	key, err := machineKey(d)
	if err != nil {
		return nil, err
	}
	return programcache.Open(dir, key), nil
}

// machineKey returns what compiled programs depend on in addition to their text.
func machineKey(d *devices) ([]byte, error) {
	var key bytes.Buffer
	if d.platform == "tpu" && !d.standIn {
		// Another machine may compile a TPU's programs: see writeTPUKey.
		writeTPUKey(&key, d)
		return key.Bytes(), nil
	}
	plugin, err := os.Stat(d.pluginPath)
	if err != nil {
		return nil, fmt.Errorf("xla: the plugin: %w", err)
	}
	major, minor := d.plugin.Version()
	fmt.Fprintf(&key, "plugin %s %d %d api %d.%d\n", d.pluginPath, plugin.Size(), plugin.ModTime().UnixNano(), major,
		minor)
	attributes := d.plugin.Attributes()
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		fmt.Fprintf(&key, "attribute %s %v\n", name, attributes[name])
	}
	fmt.Fprintf(&key, "platform %s %s devices %d: %s\n", d.platform, d.client.PlatformVersion(), d.client.NumDevices(),
		d.DeviceDescription(0))
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

// writeTPUKey writes what the programs of a TPU depend on in addition to their text. It leaves out the host and the
// path of the plugin, so that a machine with the devices finds what a machine without them has compiled. The version
// identifies libtpu's build and the chip.
func writeTPUKey(key io.Writer, d *devices) {
	var version string
	if d.topology != nil {
		version = d.topology.described.Version
	} else {
		version = d.client.PlatformVersion()
	}
	fmt.Fprintf(key, "tpu %q devices %d\n", version, d.onAllHosts())
	fmt.Fprintf(key, "LIBTPU_INIT_ARGS %q\n", os.Getenv("LIBTPU_INIT_ARGS"))
	fmt.Fprintf(key, "%s %q\n", xlaFlags, userFlags())
	fmt.Fprintf(key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
}
