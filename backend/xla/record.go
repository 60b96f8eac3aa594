package xla

import (
	"bytes"
	"compress/gzip"
	"encoding/gob"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"

	"github.com/gomlx/go-xla/pjrt"

	"github.com/quire/quire/backend/xla/internal/pjrtc"
)

// ahead is a program that was compiled for a topology: what can be asked of it.
type ahead interface {
	Memory() (pjrtc.Memory, error)
	Cost() (map[string]float64, error)
	OptimizedProgram() (code []byte, format string, err error)
	Close()
}

// record is an ahead in a file: the answers of a program that was compiled before. What is compiled ahead runs nowhere,
// so its answers are all that there is to it.
type record struct {
	Needs      pjrtc.Memory
	Properties map[string]float64
	NoCost     bool // the plugin does not count it
	Code       []byte
	Format     string
	// Refused is the compiler's error where the program needs more memory than there is; nothing else is set then.
	Refused *pjrtc.Error
}

var _, _ ahead = (*record)(nil), (*pjrtc.Compiled)(nil)

func (r *record) Memory() (pjrtc.Memory, error) { return r.Needs, nil }

func (r *record) Cost() (map[string]float64, error) {
	if r.NoCost {
		return nil, &pjrtc.Error{Code: pjrtc.CodeUnimplemented, Message: "the plugin did not count the program's cost"}
	}
	return r.Properties, nil
}

func (r *record) OptimizedProgram() (code []byte, format string, err error) {
	return r.Code, r.Format, nil
}

func (r *record) Close() {}

// newRecord asks a program all that it can be asked.
func newRecord(of ahead) (*record, error) {
	r := &record{}
	var errs [3]error
	r.Needs, errs[0] = of.Memory()
	if r.Properties, errs[1] = of.Cost(); errs[1] != nil {
		refused := (*pjrtc.Error)(nil)
		if r.NoCost = errors.As(errs[1], &refused) && refused.Code == pjrtc.CodeUnimplemented; r.NoCost {
			errs[1] = nil
		}
	}
	r.Code, r.Format, errs[2] = of.OptimizedProgram()
	return r, errors.Join(errs[:]...)
}

// openRecords keeps records in a folder. Their key is all that the compiler's answers depend on beside the program and
// its options.
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
		fmt.Fprintf(&key, "described as %v\n", gpuOptions(o.Name))
		fmt.Fprintf(&key, "plugin %s %d %d\n", b.pluginPath, plugin.Size(), plugin.ModTime().UnixNano())
		fmt.Fprintf(&key, "%s %q\n", pjrt.EnvXlaDebugOptions, os.Getenv(pjrt.EnvXlaDebugOptions))
	}
	b.topology.records = newCache(o.RecordDir, key.Bytes())
	return nil
}

// known is what was recorded under a key; nil where there is nothing.
func (c *executableCache) known(key string) *record {
	body := c.read(key)
	if body == nil {
		return nil
	}
	r := &record{}
	z, err := gzip.NewReader(bytes.NewReader(body))
	if err == nil {
		err = gob.NewDecoder(z).Decode(r)
	}
	if err != nil {
		slog.Warn("what is known of a program can't be read, compiling again", "file", c.path(key), "err", err)
		return nil
	}
	return r
}

// learn records a program that was compiled, or that was refused because it needs too much memory.
func (c *executableCache) learn(key string, of ahead, refused *pjrtc.Error) {
	c.storeBytes(key, func() ([]byte, error) {
		r := &record{Refused: refused}
		if refused == nil {
			var err error
			if r, err = newRecord(of); err != nil {
				return nil, err
			}
		}
		var to bytes.Buffer
		z := gzip.NewWriter(&to)
		err := errors.Join(gob.NewEncoder(z).Encode(r), z.Close())
		return to.Bytes(), err
	})
}
