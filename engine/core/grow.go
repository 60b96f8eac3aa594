package core

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/ops/tree"
)

// featuresProgram is what process 0 calls that the program run gets more features.
const featuresProgram = "features"

// Grow gives the program run more features, if it lacks any of these. wait waits until nothing copies pages.
func (c *Core) Grow(all feature.Set, wait func()) error {
	if all |= c.graphs.Features; all == c.graphs.Features {
		return nil
	}
	announced := &device.Compiled{Program: device.Program{Name: featuresProgram}}
	err := c.hosts.announce(announced, [][]byte{[]byte(strings.Join(all.Names(), " "))}, nil)
	if err == nil {
		err = c.addFeatures(all, wait)
	}
	return err
}

// followFeatures is Grow for processes other than 0.
func (c *Core) followFeatures(sent [][]byte, wait func()) error {
	if len(sent) != 1 {
		return errors.New("process 0 does not say which features the program run gets")
	}
	all, err := feature.Named(strings.Fields(string(sent[0]))...)
	if err != nil {
		return fmt.Errorf("what process 0 wants of the program run: %w", err)
	}
	return c.addFeatures(all, wait)
}

// addFeatures compiles the program run for more features, and makes their extras. The state of rows in other features
// stays.
func (c *Core) addFeatures(all feature.Set, wait func()) error {
	start := time.Now()
	more := all &^ c.graphs.Features
	gr := *c.graphs
	gr.Features = all
	name := func(err error) error {
		return fmt.Errorf("the program for %s, which a request asks for (see Config.Features): %w", more, err)
	}
	wait() // copies look at the graphs too
	for _, p := range gr.Programs() {
		if p.Name != device.Run {
			continue
		}
		built, err := gr.Compile(c.backend, p)
		if err != nil {
			return name(err)
		}
		run := c.Program(device.Run)
		extras, err := c.newExtras(built, run)
		if err != nil {
			built.Executable.Finalize()
			return name(err)
		}
		old := run.Executable
		*run = *built // replaced in place: others read the list of programs
		old.Finalize()
		c.extras = extras
	}
	c.graphs = &gr
	if err := c.resident.loadTexts(c.Program(device.Run), gr.Features); err != nil {
		return name(err)
	}
	c.inputs.forget(device.Run)
	c.Log.Info("the program that generates is compiled again", "features", all.String(), "seconds",
		time.Since(start).Seconds())
	if c.hosts != nil {
		return c.agree()
	}
	return nil
}

// stopsProgram is what process 0 calls new contents of the arena of stops.
const stopsProgram = "stops"

// PlaceStops brings the arena of a run to the device, if it has other contents than are there.
func (c *Core) PlaceStops(a *stopping.Arena) error {
	table, version := a.Table()
	if version == 0 || a == c.resident.arena && version == c.resident.version {
		return nil
	}
	announced := &device.Compiled{Program: device.Program{Name: stopsProgram}}
	err := c.hosts.announce(announced, [][]byte{tree.Bytes(table)}, nil)
	if err == nil {
		err = c.resident.replaceStops(c.Program(device.Run), table)
	}
	if err != nil {
		return err
	}
	c.resident.arena, c.resident.version = a, version
	return nil
}

// followStops is PlaceStops for processes other than 0.
func (c *Core) followStops(sent [][]byte) error {
	table, err := c.resident.decodeStops(c.graphs.Stops, sent)
	if err != nil {
		return err
	}
	return c.resident.replaceStops(c.Program(device.Run), table)
}
