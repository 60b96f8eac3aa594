package core

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"time"

	"github.com/quire/quire/engine/config"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/lockstep"
	"github.com/quire/quire/engine/schedule"
)

// New compiles the programs and puts the weights on the device. texts are the tokens, which the tables of stops and
// masks need. There is no state yet: see [Core.Reset].
func New(ctx context.Context, settled *config.Settled, hosts *Hosts, texts Texts) (*Core, error) {
	cfg := settled.Config
	unused, err := cfg.Model.Validate()
	if err != nil {
		return nil, err
	}
	c := &Core{Settled: settled, Log: logger(cfg), Now: time.Now, Pinned: func() int { return 0 }, Renewed: func() {},
		backend: cfg.Backend, hosts: hosts, graphs: settled.Graphs(),
		inputs:   inputs{backend: cfg.Backend, sent: map[string]*sent{}},
		resident: residents{Texts: texts, backend: cfg.Backend}}
	c.Adapters = &c.weights.adapters
	if cfg.DraftModel != nil {
		if _, err := cfg.DraftModel.Validate(); err != nil {
			return nil, fmt.Errorf("the draft model: %w", err)
		}
	}
	for _, name := range unused {
		c.Log.Warn("the model has no use for a tensor", "name", name)
	}
	for _, warning := range settled.Warnings() {
		c.Log.Warn(warning.String())
	}
	if cfg.Trace != nil {
		c.Trace = cfg.Trace(cfg.Replica)
	}
	c.programs = &programs{backend: cfg.Backend, tuned: settled.Traits.TunesOnDevice, log: c.Log, span: c.Span,
		byName: map[string]*program{}}
	if err := c.compileAndLoad(ctx); err != nil {
		c.Close(func() {})
		return nil, err
	}
	return c, nil
}

// compileAndLoad compiles the programs side by side and puts the weights on the device meanwhile. Programs that a job
// may do without are compiled alongside the first calls if it is known that they are needed, or else once they may be.
//
// Programs that are tuned on the device are all compiled before the weights are loaded, one after the other: what else
// the device does while the compiler measures would decide what it chooses.
func (c *Core) compileAndLoad(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	loaded := make(chan error, 1)
	load := func() {
		defer c.Span(schedule.HostTrack, "load weights")("bytes", c.Settled.AllWeightBytes())
		loaded <- c.weights.load(ctx, c.graphs, c.Settled.Config)
	}
	tuned := c.programs.tuned
	if tuned {
		loaded <- nil
	} else {
		go load()
	}
	// Processes compare all programs first.
	first := c.programs.add(c.graphs, c.graphs.Programs(), c.hosts == nil && !tuned)
	end := c.Span(compilerTrack, "compile")
	err := c.programs.compile(c.graphs, first)
	end("programs", len(first))
	if err == nil && c.hosts != nil {
		err = c.agree()
	}
	if err != nil {
		stop()
		<-loaded
		return err
	}
	if c.Settled.Config.HostKVMemory > 0 || c.Settled.Sizes.Contexts > 0 {
		c.programs.compileLater()
	}
	if err = <-loaded; tuned {
		load()
		err = <-loaded
	}
	c.programs.compiling.Go(c.programs.releaseMemory)
	run := c.Program(device.Run)
	if err == nil {
		err = c.resident.loadStops(run, c.graphs.Stops)
	}
	if err == nil {
		err = c.resident.loadTexts(run, c.graphs.Features)
	}
	return err
}

// agree compares what the processes are about to run.
func (c *Core) agree() error {
	p := c.Settled.Plan()
	p.Backend = "" // names a path, and devices by their numbers here
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	facts := []lockstep.Fact{{Name: "the model's fingerprint", Value: c.Settled.Config.Model.FingerPrint()}}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[config.Plan]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if value, ok := fields[name]; ok {
			facts = append(facts, lockstep.Fact{Name: name, Value: string(value)})
		}
	}
	facts = append(facts, c.resident.facts()...)
	for _, name := range p.Programs {
		if x, ok := c.Program(name).Executable.(interface{ StableHLO() string }); ok {
			sum := sha256.Sum256([]byte(x.StableHLO()))
			facts = append(facts, lockstep.Fact{Name: "program " + name, Value: hex.EncodeToString(sum[:8])})
		}
	}
	return c.hosts.group.Agree("the engine", facts)
}

// logger is the config's, or one that writes nothing.
func logger(cfg config.Config) *slog.Logger {
	if cfg.Log != nil {
		return cfg.Log
	}
	return slog.New(slog.NewTextHandler(io.Discard, nil))
}
