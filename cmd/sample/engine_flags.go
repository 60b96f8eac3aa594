package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/quire/quire/batch"
)

// definePages defines the flags for what becomes of pages of keys and values: docs/pages.md.
func (o *runOptions) definePages(s *pflag.FlagSet) {
	s.StringVar(&o.prefixCache, "prefix-cache", "on",
		"`HOW` prompts share the pages of a prefix that they have in common: on, or off; what is drawn is the same")
	s.StringVar((*string)(&o.spec.Engine.Admission), "admission", string(o.spec.Engine.Admission),
		"`HOW` pages are promised: overcommit, for a sequence's prompt, and when pages run out sequences move to the "+
			"host's memory and back; or reserve, for the longest that a sequence may become")
	s.StringVar(&o.hostMemory, "host-kv-memory", "",
		"`BYTES` the host's memory for prefixes that had to leave the device, such as 4GB (default: none)")
	placeVar(s, &o.process.SavePrefix, onThisMachine, "save-prefix", "",
		"`FILE` write the keys and values of the prefix that all prompts of this run have in common here, when it is "+
			"through")
	placeVar(s, &o.process.LoadPrefix, onThisMachine, "load-prefix", "",
		"`FILE` take the prefix from this file, where a prompt begins with it")
}

// defineDevices defines the flags for how a job is spread over devices.
func (o *runOptions) defineDevices(s *pflag.FlagSet) {
	s.IntVar(&o.spec.Engine.TP, "tp", 1, "`DEVICES` that run the model together, each with a part of it: tensor parallelism")
	s.IntVar(&o.spec.Engine.DP, "dp", 1,
		"`REPLICAS` of the model, each on --tp devices of its own, that draw from one queue: data parallelism")
	s.StringVar(&o.mesh, "mesh", "", "`AXES` both at once, such as tp=4,dp=2")
}

// parseMesh reads --mesh, which gives the same as --tp and --dp.
func parseMesh(mesh string, e *batch.Engine) error {
	given := map[string]bool{}
	for axis := range strings.SplitSeq(mesh, ",") {
		if mesh == "" {
			break
		}
		name, size, _ := strings.Cut(axis, "=")
		n, err := strconv.Atoi(size)
		field := map[string]*int{"tp": &e.TP, "dp": &e.DP}[name]
		if err != nil || n < 1 || field == nil || given[name] {
			return fmt.Errorf("--mesh is %q, but must name axes and their devices, each once, such as tp=4,dp=2", mesh)
		}
		if *field != 1 && *field != n {
			return fmt.Errorf("--mesh is %q, but --%s is %d: give one of the two", mesh, name, *field)
		}
		given[name], *field = true, n
	}
	return nil
}
