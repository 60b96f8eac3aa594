package testenv

import (
	"regexp"
	"strconv"
	"strings"
)

// Operation is one of a computation of an optimized program.
type Operation struct {
	Kind string
	// Cycles are what the compiler for TPUs expects it to take; 0 where it does not say.
	Cycles int
	Calls  []string // computations
	// Kernel tells of a TPU's kernel.
	Kernel bool
}

var (
	computation = regexp.MustCompile(`^(?:ENTRY )?%([\w.-]+) .*\{\s*$`)
	operation   = regexp.MustCompile(`^\s+(?:ROOT )?%\S+ = .*? ([\w-]+)\(`)
	called      = regexp.MustCompile(` calls=%([\w.-]+)`)
	cycles      = regexp.MustCompile(`, cycles=(\d+)`)
)

// Computations are the operations of each computation of a program, by name. hlo is what OptimizedHLO of package xla
// returns.
func Computations(hlo string) map[string][]Operation {
	all, in := map[string][]Operation{}, ""
	for line := range strings.Lines(hlo) {
		if c := computation.FindStringSubmatch(line); c != nil {
			in = c[1]
		}
		m := operation.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		op := Operation{Kind: m[1], Kernel: strings.Contains(line, `custom_call_target="tpu_custom_call"`)}
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

// Cycles adds up what the compiler for TPUs expects the operations of a program to take, those of each loop and branch
// once. It has no estimate of custom calls, of what devices exchange and of arrays that are written in another order.
func Cycles(hlo string) int {
	all, fused := Computations(hlo), map[string]bool{}
	for _, ops := range all {
		for _, op := range ops {
			if op.Kind == "fusion" {
				for _, name := range op.Calls {
					fused[name] = true
				}
			}
		}
	}
	sum := 0
	for name, ops := range all {
		for _, op := range ops {
			if !fused[name] {
				sum += op.Cycles
			}
		}
	}
	return sum
}
