package quantized

import (
	"fmt"
	"strings"

	"github.com/quire/quire/models/arch"
)

// awq is AutoAWQ's format for its kernel gemm: qweight I32 [in, out/8] and qzeros I32 [groups, out/8] pack the
// numbers of eight outputs in a word, in awqOrder; scales are [groups, out].
type awq struct {
	group int
	skips skips
}

// awqOrder is the place in a word of each of the eight numbers.
var awqOrder = [8]int{0, 4, 1, 5, 2, 6, 3, 7}

func parseAWQ(c *config) (reader, error) {
	bits := c.first(4, "bits", "w_bit")
	q := awq{group: c.first(128, "group_size", "q_group_size"), skips: parseSkips(c)}
	if err := checkBits(bits, q.group); err != nil {
		return nil, err
	}
	if bits != 4 {
		return nil, arch.Unsupported("4 are", "bits %d", bits)
	}
	if layout := strings.ToLower(c.str("version", c.str("format", "gemm"))); layout != "gemm" {
		return nil, arch.Unsupported("gemm is", "version %q", layout)
	}
	if !c.flag("zero_point", true) {
		return nil, arch.Unsupported("true is", "zero_point false")
	}
	return q, nil
}

func (q awq) text() string   { return "4 bits, " + groupsText(q.group) }
func (q awq) asks() []string { return nil }

func (q awq) matrix(_ Module, parts map[string]Tensor) (*Matrix, error) {
	if _, ok := parts[qweight]; !ok {
		return nil, noParts(parts)
	}
	words, err := need(parts, qweight, "I32", 2)
	if err != nil {
		return nil, err
	}
	m := &Matrix{Out: words.Shape[1] * 8, In: words.Shape[0], Stored: "AWQ int4", bits: 4}
	group := q.group
	if group == -1 {
		group = m.In
	}
	if m.In%group != 0 {
		return nil, fmt.Errorf("%s has %d inputs, not a multiple of group_size %d", qweight, m.In, group)
	}
	if err := m.transposedScales(parts, group, func(w uint32, i int) uint8 {
		return uint8(w >> (4 * awqOrder[i]) & 15)
	}); err != nil {
		return nil, err
	}
	width := words.Shape[1]
	m.quants = func(to []uint8, row, n int) {
		for i := range m.In {
			for r := 0; r < n; {
				w := word(words.Data, i*width+(row+r)/8)
				for ; r < n; r++ {
					to[r*m.In+i] = uint8(w >> (4 * awqOrder[(row+r)%8]) & 15)
					if (row+r)%8 == 7 {
						r++
						break
					}
				}
			}
		}
	}
	return m, nil
}

func (q awq) planned(m Module) *planned {
	if q.skips.has(m.Name) {
		return nil
	}
	return &planned{bits: 4, zero: true, columns: max(q.group, 0)}
}
