package xla

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// executableCache keeps compiled programs in a folder, one file each, named by a hash of all that the result of
// compiling depends on. An entry that is damaged or that the plugin refuses is compiled again; a folder that can't be
// written only costs the time.
type executableCache struct {
	dir     string
	machine []byte // the part of the key that all programs of a backend share
}

const (
	// cacheMagic begins an entry, followed by the SHA-256 of the rest and the rest, which is what the plugin
	// serialized.
	cacheMagic  = "quire executable 1\n"
	cacheSuffix = ".pjrt"
	// cacheKept is how long an entry is kept after its last use.
	cacheKept = 30 * 24 * time.Hour
	// temporaryKept is the age from which the temporary file of a writer that died is removed.
	temporaryKept = time.Hour
)

func openCache(dir string, b *Backend) (*executableCache, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("xla: the folder for compiled programs: %w: give another, or none", err)
	}
	key, err := b.machineKey()
	if err != nil {
		return nil, err
	}
	return newCache(dir, key), nil
}

func newCache(dir string, machine []byte) *executableCache {
	c := &executableCache{dir: dir, machine: machine}
	c.prune(time.Now())
	return c
}

// machineKey is what programs depend on beside their text.
func (b *Backend) machineKey() ([]byte, error) {
	var key bytes.Buffer
	if b.platform == "tpu" && b.standIn == nil {
		// A TPU's programs may be compiled elsewhere: see topology.go.
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

// cpuFeatures returns what the processor can do, which decides the code that XLA:CPU generates.
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

// key names the entry of a program for devices, none for any one device.
func (c *executableCache) key(text []byte, devices []int) string {
	h := sha256.New()
	h.Write(c.machine)
	switch len(devices) {
	case 0:
		fmt.Fprintln(h, "device -1")
	case 1:
		fmt.Fprintf(h, "device %d\n", devices[0])
	default:
		fmt.Fprintf(h, "devices %v\n", devices)
	}
	h.Write(text)
	return hex.EncodeToString(h.Sum(nil))
}

func (c *executableCache) path(key string) string { return filepath.Join(c.dir, key+cacheSuffix) }

// load returns the program of the key, or nil if there is none that can be used.
func (c *executableCache) load(key string, b *Backend, portable bool) *pjrt.LoadedExecutable {
	body := c.read(key)
	if body == nil {
		return nil
	}
	loaded, err := pjrtc.Load(b.client, body, portable, b.here())
	if err != nil {
		slog.Info("compiled program in the cache is not usable, compiling again", "file", c.path(key), "err", err)
		return nil
	}
	return loaded
}

// read returns what an entry has, nil where there is none or where it is damaged.
func (c *executableCache) read(key string) []byte {
	path := c.path(key)
	entry, err := os.ReadFile(path)
	if err != nil {
		return nil
	}
	body, ok := bytes.CutPrefix(entry, []byte(cacheMagic))
	if ok && len(body) > sha256.Size {
		if sum := sha256.Sum256(body[sha256.Size:]); bytes.Equal(sum[:], body[:sha256.Size]) {
			now := time.Now()
			_ = os.Chtimes(path, now, now) // for prune
			return body[sha256.Size:]
		}
	}
	slog.Warn("compiled program in the cache is damaged, compiling again", "file", path)
	return nil
}

// has tells whether there is an entry.
func (c *executableCache) has(key string) bool { _, err := os.Stat(c.path(key)); return err == nil }

// store keeps a program. It is written beside its place and then renamed, so that no reader sees a part of it.
func (c *executableCache) store(key string, e *pjrt.LoadedExecutable) {
	c.storeBytes(key, func() ([]byte, error) { return pjrtc.Serialize(e) })
}

func (c *executableCache) storeBytes(key string, serialize func() ([]byte, error)) {
	serialized, err := serialize()
	if err != nil {
		slog.Info("compiled program is not kept: the plugin can't serialize it", "err", err)
		return
	}
	if err := c.write(c.path(key), serialized); err != nil {
		slog.Warn("compiled program is not kept", "err", err)
	}
}

func (c *executableCache) write(path string, serialized []byte) error {
	f, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after the rename, as it should
	sum := sha256.Sum256(serialized)
	_, err = io.Copy(f, io.MultiReader(strings.NewReader(cacheMagic), bytes.NewReader(sum[:]),
		bytes.NewReader(serialized)))
	if closed := f.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// prune removes entries that were not used for long, and the remains of writers that died.
func (c *executableCache) prune(now time.Time) {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return
	}
	for _, entry := range entries {
		kept := cacheKept
		switch {
		case strings.HasPrefix(entry.Name(), "new-"):
			kept = temporaryKept
		case !strings.HasSuffix(entry.Name(), cacheSuffix):
			continue // not ours
		}
		if info, err := entry.Info(); err == nil && now.Sub(info.ModTime()) > kept {
			_ = os.Remove(filepath.Join(c.dir, entry.Name()))
		}
	}
}
