// Package hlo reads optimized programs, in the text that package xla prints, and adds up what their steps consist of.
package hlo

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
	// Largest is the number of elements of the largest array in its result, and Bytes their size. Rows is the first
	// dimension of that array.
	Largest, Rows int
	Bytes         int64
	// Cycles is the TPU compiler's estimate of its cycles; 0 if there is none.
	Cycles   int
	Operands []string // operations of the same computation
	Calls    []string // called computations
	// Kernel describes a TPU kernel.
	Kernel bool
	// Near reports that the result, or a part of it, is not in the device's main memory but in a core's own.
	Near bool
	Line string // its text
}

var (
	computation = regexp.MustCompile(`^(?:ENTRY )?%([\w.-]+) .*\{\s*$`)
	operation   = regexp.MustCompile(`^\s+(?:ROOT )?%(\S+) = (.*?) ([\w-]+)\(([^)]*)\)`)
	called      = regexp.MustCompile(` calls=%([\w.-]+)`)
	cycles      = regexp.MustCompile(`, cycles=(\d+)`)
	arrayOf     = regexp.MustCompile(`(\w+)\[([0-9,]*)\]`)
	bitsOf      = regexp.MustCompile(`[0-9]+`)
)

// noEstimate is what the compiler writes for operations of other cores, such as a SparseCore.
const noEstimate = 1<<63 - 1

// Read parses the result of OptimizedHLO of package xla.
func Read(text string) Program {
	all, in := Program{}, ""
	for line := range strings.Lines(text) {
		if c := computation.FindStringSubmatch(line); c != nil {
			in = c[1]
		}
		m := operation.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		op := Operation{Kind: m[3], Kernel: strings.Contains(line, `custom_call_target="tpu_custom_call"`),
			Near: strings.Contains(m[2], ":S("), Line: strings.TrimSpace(line)}
		for _, a := range arrayOf.FindAllStringSubmatch(m[2], -1) {
			op.add(a[1], a[2])
		}
		for operand := range strings.SplitSeq(m[4], ", ") {
			op.Operands = append(op.Operands, strings.TrimPrefix(operand, "%"))
		}
		if c := cycles.FindStringSubmatch(line); c != nil {
			if op.Cycles, _ = strconv.Atoi(c[1]); op.Cycles == noEstimate {
				op.Cycles = 0
			}
		}
		for _, c := range called.FindAllStringSubmatch(line, -1) {
			op.Calls = append(op.Calls, c[1])
		}
		all[in] = append(all[in], op)
	}
	return all
}

// add notes an array of the result.
func (op *Operation) add(dtype, dimensions string) {
	size, rows := 1, 0
	for d := range strings.SplitSeq(dimensions, ",") {
		if n, err := strconv.Atoi(d); err == nil {
			if size *= n; rows == 0 {
				rows = n
			}
		}
	}
	bits := 8
	if text := bitsOf.FindString(dtype); text != "" {
		bits, _ = strconv.Atoi(text)
	}
	if size > op.Largest {
		op.Largest, op.Rows = size, max(rows, 1)
	}
	op.Bytes = max(op.Bytes, int64(size)*int64(bits)/8)
}

// name returns the operation's name.
func (op Operation) name() string {
	name, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(op.Line, "ROOT "), "%"), " ")
	return name
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
