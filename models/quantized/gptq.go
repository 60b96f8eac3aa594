package quantized

import (
	"encoding/binary"
	"fmt"

	"github.com/quire/quire/models/arch"
)

// gptq is the format of AutoGPTQ and GPTQModel: qweight I32 [in*bits/32, out] packs consecutive inputs in a word,
// qzeros I32 [groups, out*bits/32] consecutive outputs; scales are [groups, out], and g_idx I32 [in] is the group of
// each input.
type gptq struct {
	bits, group int
	ordered     bool   // columns may be in a different order from their groups
	less        uint32 // what version 1 subtracts from each word of qzeros: 1 from each number
}

func parseGPTQ(c *config) (reader, error) {
	q := gptq{bits: c.num("bits", 4), group: c.num("group_size", -1), ordered: c.flag("desc_act", false)}
	if err := checkBits(q.bits, q.group); err != nil {
		return nil, err
	}
	switch format := c.str("checkpoint_format", c.str("format", "gptq")); format {
	case "gptq":
		if q.less = 0x11111111; q.bits == 8 {
			q.less = 0x01010101
		}
	case "gptq_v2":
	default:
		return nil, arch.Unsupported("gptq and gptq_v2 are", "checkpoint_format %q", format)
	}
	if c.flag("is_marlin_format", false) {
		return nil, arch.Unsupported("use the checkpoint in GPTQ's own format", "is_marlin_format")
	}
	var each map[string]any
	if c.decode("dynamic", &each); len(each) > 0 {
		for pattern := range each {
			if len(pattern) < 2 || pattern[:2] != "-:" { // such patterns leave modules unquantized
				return nil, arch.Unsupported("one setting for all modules is", "dynamic %q", pattern)
			}
		}
	}
	return q, nil
}

// checkBits rejects bits and group sizes that neither GPTQ nor AWQ supports here.
func checkBits(bits, group int) error {
	if bits != 4 && bits != 8 {
		return arch.Unsupported("4 and 8 are", "bits %d", bits)
	}
	if group != -1 && group < 1 {
		return fmt.Errorf("group_size is %d; it must be at least 1, or -1", group)
	}
	return nil
}

func (q gptq) text() string   { return fmt.Sprintf("%d bits, %s", q.bits, groupsText(q.group)) }
func (q gptq) asks() []string { return nil }

func groupsText(group int) string {
	if group == -1 {
		return "a scale for each output"
	}
	return fmt.Sprintf("groups of %d", group)
}

func (q gptq) matrix(_ Module, parts map[string]Tensor) (*Matrix, error) {
	if _, ok := parts[qweight]; !ok {
		return nil, noParts(parts)
	}
	words, err := need(parts, qweight, "I32", 2)
	if err != nil {
		return nil, err
	}
	each := 32 / q.bits
	m := &Matrix{Out: words.Shape[1], In: words.Shape[0] * each, Stored: fmt.Sprintf("GPTQ int%d", q.bits),
		bits: q.bits}
	group := q.group
	if group == -1 {
		group = m.In
	}
	if err := m.transposedScales(parts, group, func(w uint32, i int) uint8 {
		return uint8((w + q.less) >> (i * q.bits) & (1<<q.bits - 1))
	}); err != nil {
		return nil, err
	}
	if index, ok := parts[groupIndex]; ok {
		if m.order, err = orderOf(groupIndex, index, m.In, group, ceil(m.In, group)); err != nil {
			return nil, err
		}
	}
	data, out, bits := words.Data, m.Out, q.bits
	m.quants = func(to []uint8, row, n int) {
		for index := range words.Shape[0] {
			for r := range n {
				putWord(to[r*m.In+index*each:], word(data, index*out+row+r), bits)
			}
		}
	}
	return m, nil
}

// noParts returns the error for parts without a weight.
func noParts(parts map[string]Tensor) error {
	for _, suffix := range []string{qzeros, scales, groupIndex} {
		if _, ok := parts[suffix]; ok {
			return fmt.Errorf("there is %s, but no %s", suffix, qweight)
		}
	}
	return nil
}

// putWord unpacks the numbers of a word, the lowest bits first.
func putWord(to []uint8, w uint32, bits int) {
	if bits == 8 {
		binary.LittleEndian.PutUint32(to, w)
		return
	}
	x := uint64(w) // spread nibbles to bytes
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	binary.LittleEndian.PutUint64(to, x)
}

// transposedScales reads scales [groups, out] and qzeros I32 [groups, out*bits/32]; zero extracts number i from a
// word of qzeros.
func (m *Matrix) transposedScales(parts map[string]Tensor, group int, zero func(w uint32, i int) uint8) error {
	each := 32 / m.bits
	if m.Out%each != 0 {
		return fmt.Errorf("%s has %d outputs, not a multiple of %d", qweight, m.Out, each)
	}
	s, err := need(parts, scales, "", 2)
	if err != nil {
		return err
	}
	z, err := need(parts, qzeros, "I32", 2)
	if err != nil {
		return err
	}
	groups := ceil(m.In, group)
	if s.Shape[0] != groups || s.Shape[1] != m.Out || z.Shape[0] != groups || z.Shape[1] != m.Out/each {
		return fmt.Errorf("scales have shape %v and qzeros %v, but a matrix [%d, %d] in groups of %d has [%d, %d] and "+
			"[%d, %d]", s.Shape, z.Shape, m.Out, m.In, group, groups, m.Out, groups, m.Out/each)
	}
	number, value, err := numbers(scales, s)
	if err != nil {
		return err
	}
	m.scales = grid{rows: 1, columns: group, number: number, width: groups, value: value}.transposed(m.Out)
	m.zeros = func(row, group int) uint8 { return zero(word(z.Data, group*m.Out/each+row/each), row%each) }
	return nil
}

func (q gptq) planned(Module) *planned {
	if q.ordered {
		return nil
	}
	return &planned{bits: q.bits, zero: true, columns: max(q.group, 0)}
}
