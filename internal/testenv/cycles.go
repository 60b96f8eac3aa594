package testenv

import (
	"regexp"
	"strconv"
	"strings"
)

var (
	computation = regexp.MustCompile(`^(?:ENTRY )?%([\w.-]+) .*\{\s*$`)
	fusion      = regexp.MustCompile(` fusion\(.* calls=%([\w.-]+)`)
	cycles      = regexp.MustCompile(`, cycles=(\d+)`)
)

// Cycles adds up what the compiler for TPUs expects the operations of a program to take, those of each loop and branch
// once. hlo is what OptimizedHLO of package xla returns. It has no estimate of custom calls, of what devices exchange
// and of arrays that are written in another order.
func Cycles(hlo string) int {
	fused := map[string]bool{}
	for _, m := range fusion.FindAllStringSubmatch(hlo, -1) {
		fused[m[1]] = true
	}
	sum, in := 0, ""
	for line := range strings.Lines(hlo) {
		if m := computation.FindStringSubmatch(line); m != nil {
			in = m[1]
		}
		if m := cycles.FindStringSubmatch(line); m != nil && !fused[in] {
			n, _ := strconv.Atoi(m[1])
			sum += n
		}
	}
	return sum
}
