package deploy

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/data/setting"
)

// Topology is a slice of TPUs on GKE.
type Topology struct {
	// Name is the topology's name in libtpu and "sample plan", such as v5e:4x4. Shape is the part after the colon.
	Name, Shape string
	// Accelerator is the value of GKE's node label.
	Accelerator string
	// Chips is the number of chips of all hosts. Devices is the number of devices, as programs see the chips.
	Chips, Hosts, Devices int
}

// generations lists the generations of TPUs: the name of node pools, how many axes a topology has, and the number of
// devices of a chip.
var generations = []struct {
	name, accelerator string
	axes, devices     int
}{
	{"v4", "tpu-v4-podslice", 3, 1},
	{"v5e", "tpu-v5-lite-podslice", 2, 1},
	{"v5p", "tpu-v5p-slice", 3, 1},
	{"v6e", "tpu-v6e-slice", 2, 1},
	{"tpu7x", "tpu7x", 3, 2},
}

// flat are the topologies with two axes; those with up to 8 chips are one host.
var flat = []string{"1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16"}

// small are the topologies with three axes that are not multiples of 4 on each.
var small = []string{"2x2x1", "2x2x2", "2x2x4", "2x4x4"}

// chipsOfHost is the number of chips of a host in a slice of several hosts.
const chipsOfHost = 4

// ParseTopology parses a topology.
func ParseTopology(text string) (Topology, error) {
	generation, shape, _ := strings.Cut(text, ":")
	for _, g := range generations {
		if g.name != generation {
			continue
		}
		chips, ok := shapeOf(shape, g.axes)
		if !ok {
			return Topology{}, setting.Errorf("`topology` is %q, but the topologies of %s are %s", text, g.name,
				shapesOf(g.axes))
		}
		t := Topology{Name: text, Shape: shape, Accelerator: g.accelerator, Chips: chips, Hosts: 1,
			Devices: chips * g.devices}
		if g.axes == 3 || chips > 8 {
			t.Hosts = chips / chipsOfHost
		}
		return t, nil
	}
	var names []string
	for _, g := range generations {
		names = append(names, g.name)
	}
	return Topology{}, setting.Errorf("`topology` is %q, but must be a generation and a shape, such as v5e:4x4; "+
		"generations are %s", text, strings.Join(names, ", "))
}

func shapesOf(axes int) string {
	if axes == 2 {
		return strings.Join(flat, ", ")
	}
	return strings.Join(small, ", ") + ", and those with multiples of 4 up to 64 on each axis"
}

// shapeOf returns the number of chips of a shape.
func shapeOf(shape string, axes int) (chips int, ok bool) {
	if axes == 2 && !slices.Contains(flat, shape) {
		return 0, false
	}
	sides := strings.Split(shape, "x")
	chips, fours := 1, true
	for _, side := range sides {
		n, err := strconv.Atoi(side)
		if err != nil || n < 1 || n > 64 || strconv.Itoa(n) != side {
			return 0, false
		}
		chips, fours = chips*n, fours && n%4 == 0
	}
	return chips, len(sides) == axes && (axes == 2 || fours || slices.Contains(small, shape))
}

// jobSet is the data of both JobSet templates.
type jobSet struct {
	pod
	Topology Topology
	Hosts    int // hosts of a slice
}

// Pod is for templates, which cannot access the embedded field.
func (j jobSet) Pod() pod { return j.pod }

// JobSet renders what runs a job on TPUs: one JobSet whose pods do one shard each if a host has the whole model, or
// one JobSet for each slice of several hosts, which run the model together.
func (k *Kubernetes) JobSet(t Topology) (File, error) {
	p := pod{Kubernetes: k, Setup: backend.TPU, StartupProbes: 180, Probes: k.probes(40), Gang: t.Hosts > 1,
		ProbesNote: "later than --call-timeout, whose error is more informative",
		TPU:        &tpuPod{t.Accelerator, t.Shape, t.Chips / t.Hosts}}
	p.Args = append(p.Args, Flag{Name: "backend", Value: backend.XLATPU})
	p.Args = append(p.Args, k.Flags...)
	ends := "shard"
	if p.Gang {
		ends = "gang"
		p.Args = append(p.Args, Flag{Name: "num-processes", Value: "auto",
			note: "TPU_WORKER_ID and TPU_WORKER_HOSTNAMES, which GKE sets"})
	} else {
		p.Args, p.Shards = append(p.Args, shardAuto), k.Workers
	}
	if !slices.ContainsFunc(k.Flags, func(f Flag) bool { return f.Name == callTimeout }) {
		p.Args = append(p.Args, Flag{Name: callTimeout, Value: "15m",
			note: "a chip that never answers ends the " + ends + ", which starts again"})
	}
	p.Args = append(p.Args, reporting...)
	if p.Gang {
		return k.slices(p, t)
	}
	if err := k.check("-shards-0-" + strconv.Itoa(k.Workers-1) + podSuffix); err != nil {
		return File{}, err
	}
	text, err := render("jobset.yaml", jobSet{p, t, t.Hosts})
	return File{k.Name + ".yaml", text}, err
}

// podSuffix is as long as the suffix that a Job adds to the names of its pods.
const podSuffix = "-xxxxx"

// slices renders one JobSet per slice.
func (k *Kubernetes) slices(p pod, t Topology) (File, error) {
	number := func(i int) string { return "" }
	if k.Workers > 1 {
		number = func(i int) string { return "-" + strconv.Itoa(i) }
	}
	if err := k.check(number(k.Workers-1) + "-model-0-" + strconv.Itoa(t.Hosts-1) + podSuffix); err != nil {
		return File{}, err
	}
	var all [][]byte
	for i := range k.Workers {
		one, slicePod := *k, p
		one.Name, slicePod.Kubernetes = k.Name+number(i), &one
		if k.Workers > 1 {
			slicePod.Args = slices.Insert(slices.Clone(p.Args), 1+len(k.Flags), Flag{Name: "shard",
				Value: fmt.Sprintf("%d/%d", i, k.Workers), note: "the slice of the rows that this slice of chips does"})
		}
		text, err := render("slice.yaml", jobSet{slicePod, t, t.Hosts})
		if err != nil {
			return File{}, err
		}
		all = append(all, text)
	}
	return File{k.Name + ".yaml", bytes.Join(all, []byte("---\n"))}, nil
}
