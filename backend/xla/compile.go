package xla

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/native"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/internal/program"
	"github.com/quire/quire/backend/xla/internal/topologies"
)

// compile compiles the program, or takes it from the cache.
func (b *Backend) compile(p *program.Builder, text []byte) (*Executable, error) {
	if err := b.valid(); err != nil {
		return nil, err
	}
	e := &Executable{
		backend: b, name: p.Name(), text: text, outputs: p.Results(),
		portable: p.Device() < 0 && b.compiledFor() == 1,
	}
	e.params, e.paramShapes = p.Parameters()
	start := time.Now()
	defer func() { e.CompileTime = time.Since(start) }()
	var key string
	if b.topology != nil {
		return b.compileAhead(p, e)
	}
	if b.cache != nil {
		key = b.cache.Key(text, b.assigned(p.Device()))
		if e.loaded = b.loadCached(key); e.loaded != nil {
			e.FromCache = true
			b.cacheLoads.Add(1)
			return e, nil
		}
	}
	config := b.client.Compile().WithStableHLO(text)
	switch on := b.assigned(p.Device()); {
	case len(on) > 1:
		config = config.WithShardy(len(on)).WithDeviceAssignment(on)
	case len(on) == 1:
		config = config.WithDeviceAssignment(on)
	}
	if err := pjrtc.SetOptions(config, topologies.Overrides(b.options)); err != nil {
		return nil, err
	}
	loaded, err := config.Done()
	if err != nil {
		return nil, b.failed(p, err)
	}
	e.loaded = b.loaded.add(key, loaded)
	b.compiles.Add(1)
	if b.cache != nil {
		b.cache.Store(key, func() ([]byte, error) { return pjrtc.Serialize(loaded) })
	}
	pjrtc.Trim()
	return e, nil
}

// loadCached returns the program of a key, or nil if the cache has none that can be used.
func (b *Backend) loadCached(key string) *loadedProgram {
	if p := b.loaded.find(key); p != nil {
		return p
	}
	body := b.cache.Read(key)
	if body == nil {
		return nil
	}
	loaded, err := pjrtc.Load(b.client, body)
	if err != nil {
		slog.Info("compiled program in the cache is not usable, compiling again", "file", b.cache.Path(key), "err",
			err)
		return nil
	}
	return b.loaded.add(key, loaded)
}

// failed names the program in an error of the compiler, and the option that the error is about, if it is about one. One
// that is about memory becomes an [*OutOfMemoryError] or a [*KernelMemoryError]. After a memory error of a kernel the
// backend no longer builds programs with this kernel.
func (b *Backend) failed(p *program.Builder, cause error) error {
	err := memoryerror.Compiling(p.Name(), cause)
	if o := topologies.Refused(b.options, cause.Error()); o != nil && !memoryerror.IsOutOfMemory(err) {
		return fmt.Errorf("xla: compiling program %q: %s does not take the option %s=%s: use the version that "+
			"\"sample setup\" installs, or leave the option to libtpu by --%[3]s in %[5]s", p.Name(), b.pluginPath,
			o.Name, o.Value, libtpuFlags)
	}
	var lack *KernelMemoryError
	if errors.As(err, &lack) {
		native.SetKernel(b.forms, lack, p)
	}
	return err
}

// compileAhead compiles the program for the topology, and keeps it in the cache for machines that have the devices.
// Without a device, a program's memory needs can't be read from its serialized form, so they are kept in a record.
func (b *Backend) compileAhead(p *program.Builder, e *Executable) (*Executable, error) {
	options := slices.Concat(topologies.CompileOptions(b.assigned(-1)), topologies.Overrides(b.options))
	records := b.topology.records
	var key, recordKey string
	if b.cache != nil {
		key = b.cache.Key(e.text, b.assigned(-1))
	}
	if records != nil {
		recordKey = records.Key(slices.Concat(options, e.text), b.assigned(-1))
		switch r := records.Known(recordKey); {
		case r == nil:
		case r.Refused != nil:
			b.cacheLoads.Add(1)
			return nil, b.failed(p, r.Refused)
		case b.cache == nil || b.cache.Has(key):
			e.ahead, e.FromCache = r, true
			b.cacheLoads.Add(1)
			return e, nil
		}
	}
	compiled, err := b.topology.described.Compile(e.text, options)
	if err != nil {
		failed, refused := b.failed(p, err), (*pjrtc.Error)(nil)
		if records != nil && memoryerror.IsOutOfMemory(failed) && errors.As(err, &refused) {
			records.Learn(recordKey, nil, refused)
		}
		return nil, failed
	}
	e.ahead = compiled
	b.compiles.Add(1)
	if b.cache != nil {
		b.cache.Store(key, compiled.Serialize)
	}
	if records != nil {
		records.Learn(recordKey, compiled, nil)
	}
	pjrtc.Trim()
	return e, nil
}
