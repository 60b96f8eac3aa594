package quantized

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/quire/quire/blocks"
)

// planned describes how matrices are stored according to a config, before there is a file.
type planned struct {
	bits    int
	e4m3    bool
	zero    bool
	columns int // columns that share a scale; 0: all
	number  blocks.Scale
}

// skips are the modules of modules_to_not_convert or ignored_layers: suffixes of names, or patterns that match whole
// components from the start, as transformers reads them.
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

// Random returns a matrix [out, in] in the form that the config asks for, from numbers of 8 random bits that quants
// returns; nil if the config has no form for it. Scales have the type number if the config does not set one. The
// matrix's numbers are centred on 0.
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
	case p.e4m3: // magnitudes 1 to 2, both signs
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
