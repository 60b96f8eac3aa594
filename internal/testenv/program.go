package testenv

import (
	"regexp"
	"strconv"
	"strings"
)

// Program is an optimized program: the operations of each computation, by its name.
type Program map[string][]Operation

// Operation is an operation of a computation.
type Operation struct {
	Kind string
	// Largest is the number of elements of the largest array in its result.
	Largest int
	// Cycles is the TPU compiler's estimate of its cycles; 0 if there is none.
	Cycles int
	Calls  []string // called computations
	// Kernel describes a TPU kernel.
	Kernel bool
	Line   string // its text
}

var (
	computation = regexp.MustCompile(`^(?:ENTRY )?%([\w.-]+) .*\{\s*$`)
	operation   = regexp.MustCompile(`^\s+(?:ROOT )?%\S+ = (.*?) ([\w-]+)\(`)
	called      = regexp.MustCompile(` calls=%([\w.-]+)`)
	cycles      = regexp.MustCompile(`, cycles=(\d+)`)
	arrayOf     = regexp.MustCompile(`\w+\[([0-9,]*)\]`)
)

// ReadProgram parses the result of OptimizedHLO of package xla.
func ReadProgram(hlo string) Program {
	all, in := Program{}, ""
	for line := range strings.Lines(hlo) {
		if c := computation.FindStringSubmatch(line); c != nil {
			in = c[1]
		}
		m := operation.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		op := Operation{Kind: m[2], Kernel: strings.Contains(line, `custom_call_target="tpu_custom_call"`),
			Line: strings.TrimSpace(line)}
		for _, a := range arrayOf.FindAllStringSubmatch(m[1], -1) {
			op.Largest = max(op.Largest, elementsOf(a[1]))
		}
		if c := cycles.FindStringSubmatch(line); c != nil {
			op.Cycles, _ = strconv.Atoi(c[1])
		}
		for _, c := range called.FindAllStringSubmatch(line, -1) {
			op.Calls = append(op.Calls, c[1])
		}
		all[in] = append(all[in], op)
	}
	return all
}

// elementsOf returns the number of elements of an array with these dimensions.
func elementsOf(dimensions string) int {
	size := 1
	for d := range strings.SplitSeq(dimensions, ",") {
		if n, err := strconv.Atoi(d); err == nil {
			size *= n
		}
	}
	return size
}

// Fused returns the computations of fusions: of fusions in the named computations, or of all if none is named.
func (p Program) Fused(in ...string) map[string]bool {
	fused := map[string]bool{}
	if len(in) == 0 {
		for name := range p {
			in = append(in, name)
		}
	}
	for _, name := range in {
		for _, op := range p[name] {
			for _, called := range op.Calls {
				if op.Kind == "fusion" {
					fused[called] = true
				}
			}
		}
	}
	return fused
}

// Cycles returns the sum of the TPU compiler's estimates for the operations of a program; each loop and branch counts
// once. There are no estimates for custom calls, for exchanges between devices and for arrays that are rewritten in a
// different order.
func (p Program) Cycles() int {
	fused, sum := p.Fused(), 0
	for name, ops := range p {
		for _, op := range ops {
			if !fused[name] {
				sum += op.Cycles
			}
		}
	}
	return sum
}
