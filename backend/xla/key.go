package xla

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/xla/internal/programcache"
)

// libtpuFlags names the environment variable of the user's own flags for libtpu.
const libtpuFlags = "LIBTPU_INIT_ARGS"

// openCache opens the folder for compiled programs, and makes it if it is missing.
func openCache(dir string, d *devices) (*programcache.Cache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("xla: the folder for compiled programs: %w: give another, or none", err)
	}
	key, err := machineKey(dir, d)
	if err != nil {
		return nil, err
	}
	return programcache.Open(dir, key), nil
}

// machineKey returns what compiled programs depend on in addition to their text. dir is the folder of the cache.
func machineKey(dir string, d *devices) ([]byte, error) {
	var key bytes.Buffer
	switch {
	case d.platform == backend.TPU && !d.standIn:
		// Another machine may compile a TPU's programs: see writeTPUKey.
		writeTPUKey(&key, d)
		return key.Bytes(), nil
	case d.platform == backend.CUDA:
		err := writeGPUKey(&key, dir, d)
		return key.Bytes(), err
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

// writeGPUKey writes what the programs of a GPU depend on in addition to their text. It leaves out the host, its
// processor, and the path and time of the plugin, so that hosts with equal GPUs share programs and with them what
// tuning chose: the same bytes on each. The plugin is known by its contents.
func writeGPUKey(key io.Writer, dir string, d *devices) error {
	digest, err := fileDigest(dir, d.pluginPath)
	if err != nil {
		return fmt.Errorf("xla: the plugin: %w", err)
	}
	kind, err := d.DeviceKind()
	if err != nil {
		return err
	}
	fmt.Fprintf(key, "cuda %s platform %q devices %d: %s\n", digest, d.version(), d.NumDevices(), kind)
	for _, name := range []string{xlaFlags, pjrt.EnvXlaDebugOptions} {
		fmt.Fprintf(key, "%s %q\n", name, os.Getenv(name))
	}
	return nil
}

// fileDigest returns the SHA-256 sum of a file's contents. It keeps the sum in dir until the file changes, since
// plugins have hundreds of megabytes.
func fileDigest(dir, path string) (string, error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	name := sha256.Sum256(fmt.Appendf(nil, "%s %d %d", path, info.Size(), info.ModTime().UnixNano()))
	kept := filepath.Join(dir, hex.EncodeToString(name[:])+".sha256")
	if sum, err := os.ReadFile(kept); err == nil && len(sum) == hex.EncodedLen(sha256.Size) {
		return string(sum), nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return "", err
	}
	sum := hex.EncodeToString(h.Sum(nil))
	_ = os.WriteFile(kept, []byte(sum), 0o666) // without it the sum is computed again
	return sum, nil
}

// writeTPUKey writes what the programs of a TPU depend on in addition to their text. It leaves out the host and the
// path of the plugin, so that a machine with the devices finds what a machine without them has compiled. The version
// identifies libtpu's build and the chip.
func writeTPUKey(key io.Writer, d *devices) {
	fmt.Fprintf(key, "tpu %q devices %d\n", d.version(), d.onAllHosts())
	if len(d.options) > 0 {
		fmt.Fprintf(key, "options %q\n", d.options)
	}
	fmt.Fprintf(key, "LIBTPU_INIT_ARGS %q\n", os.Getenv(libtpuFlags))
	fmt.Fprintf(key, "%s %q\n", xlaFlags, userFlags())
	fmt.Fprintf(key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
}

// version returns the plugin's own description of its build and its devices.
func (d *devices) version() string {
	if d.topology != nil {
		return d.topology.described.Version
	}
	return d.client.PlatformVersion()
}
