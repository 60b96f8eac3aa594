package quantized

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/quire/quire/blocks"
)

// planned is how a config says that matrices are stored, before a file is there.
type planned struct {
	bits    int
	e4m3    bool
	zero    bool
	columns int // of a scale; 0: all
	number  blocks.Scale
}

// skips are the modules of modules_to_not_convert or ignored_layers: ends of names, or patterns of whole parts of them
// from the begin on, as transformers reads them.
type skips []string

func parseSkips(c *config) (list skips) {
	for _, key := range []string{"modules_to_not_convert", "ignored_layers"} {
		list = append(list, c.list(key)...)
	}
	return list
}

func (s skips) has(name string) bool {
	for _, key := range s {
		if strings.HasSuffix(name, key) {
			return true
		}
		re, err := regexp.Compile(`^(?:` + key + `)(?:\.|$)`)
		if err == nil && re.MatchString(name) {
			return true
		}
	}
	return false
}

// Random returns a matrix [out, in] of numbers that quants gives, each of 8 random bits, in the form that the config
// asks for; nil where it has none. Scales are of the type number where the config does not say. The numbers lie around
// 0.
func (s *Scheme) Random(module string, out, in int, number blocks.Scale, quants func(to []uint8, row, n int)) *Matrix {
	p := s.reader.planned(Module{module, module})
	if p == nil {
		return nil
	}
	if p.number == 0 {
		p.number = number
	}
	m := &Matrix{Out: out, In: in, Stored: fmt.Sprintf("random int%d", p.bits), bits: p.bits, e4m3: p.e4m3}
	scale, keep, set := float32(1)/(1<<10), uint8(0xff), uint8(0)
	switch {
	case p.e4m3: // 1 to 2, of both signs
		scale, keep, set = 1.0/(1<<6), 0x87, 7<<3
	case p.bits == 4:
		scale, keep = 1.0/(1<<8), 15
	}
	m.scales = grid{rows: out, columns: or(p.columns, in), number: p.number, at: func(int) float32 { return scale }}
	if p.zero {
		m.zeros = func(int, int) uint8 { return uint8(m.middle()) }
	}
	m.quants = func(to []uint8, row, n int) {
		quants(to[:n*in], row, n)
		for i, q := range to[:n*in] {
			to[i] = q&keep | set
		}
	}
	m.settle()
	return m
}

func (q gptq) planned(Module) *planned {
	if q.ordered {
		return nil
	}
	return &planned{bits: q.bits, zero: true, columns: max(q.group, 0)}
}

func (q awq) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	return &planned{bits: 4, zero: true, columns: max(q.group, 0)}
}

func (q fp8) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	p := &planned{bits: 8, e4m3: true, number: blocks.F32}
	if q.block != nil {
		p.columns = q.block[1]
	}
	return p
}

func (q fbgemm) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	return &planned{bits: 8, e4m3: true, number: blocks.F32}
}

func (q *compressed) planned(m Module) *planned {
	args, err := q.argsOf(m)
	if err != nil || args.ordered() {
		return nil
	}
	return &planned{bits: args.Bits, e4m3: args.Type == "float", zero: !args.symmetric(), columns: args.columns}
}
