package pretoken

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// CharsMap is SentencePiece's precompiled_charsmap: a table of replacements with a double-array trie (darts-clone).
type CharsMap struct {
	units []uint32
	texts string // each ended by a zero byte
}

// NewCharsMap reads a map: the size of the trie in bytes, the trie, the texts. An empty one is nil.
func NewCharsMap(data []byte) (*CharsMap, error) {
	if len(data) == 0 {
		return nil, nil
	}
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap is cut off")
	}
	size := binary.LittleEndian.Uint32(data)
	if data = data[4:]; size%4 != 0 || uint64(size) > uint64(len(data)) {
		return nil, fmt.Errorf("precompiled_charsmap has %d bytes after its size, but its trie needs %d", len(data),
			size)
	}
	m := &CharsMap{units: make([]uint32, size/4), texts: string(data[size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return m, nil
}

// find returns the lengths of the shortest and the longest prefix of s that the map replaces, and the offsets of their
// replacements in texts. The lengths are 0 if there is none.
func (m *CharsMap) find(s string) (short, shortAt, long, longAt int) {
	if len(m.units) == 0 {
		return
	}
	offset := func(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }
	node := offset(m.units[0])
	for i := 0; i < len(s) && s[i] != 0; i++ {
		node ^= uint32(s[i])
		if uint64(node) >= uint64(len(m.units)) {
			return
		}
		unit := m.units[node]
		if unit&(1<<31|0xFF) != uint32(s[i]) {
			return
		}
		node ^= offset(unit)
		if unit>>8&1 == 0 {
			continue
		}
		if uint64(node) >= uint64(len(m.units)) {
			return
		}
		offset := int(m.units[node] &^ (1 << 31))
		if offset > len(m.texts) {
			return
		}
		if short == 0 {
			short, shortAt = i+1, offset
		}
		long, longAt = i+1, offset
	}
	return
}

func (m *CharsMap) text(offset int) string {
	text, _, _ := strings.Cut(m.texts[offset:], "\x00")
	return text
}

// Next returns what SentencePiece makes of the start of s, which must not be empty, and how many bytes of s it
// replaces: the longest replacement, or an unchanged character.
func (m *CharsMap) Next(s string) (string, int) {
	if m != nil {
		if _, _, n, offset := m.find(s); n > 0 {
			return m.text(offset), n
		}
	}
	_, n := utf8.DecodeRuneInString(s)
	return s[:n], n
}

// replaceAll is the normalizer Precompiled of Hugging Face tokenizers. It takes each grapheme of less than six bytes as
// a whole, and others by character, and replaces the whole by the replacement of its shortest prefix in the map.
func (m *CharsMap) replaceAll(s string) string {
	var out strings.Builder
	whole := func(part string) bool {
		n, offset, _, _ := m.find(part)
		if n > 0 {
			out.WriteString(m.text(offset))
		}
		return n > 0
	}
	for state := -1; s != ""; {
		var grapheme string
		grapheme, s, _, state = uniseg.FirstGraphemeClusterInString(s, state)
		if len(grapheme) < 6 && whole(grapheme) {
			continue
		}
		for _, r := range grapheme {
			if !whole(string(r)) {
				out.WriteRune(r)
			}
		}
	}
	return out.String()
}

// parsePrecompiled reads the normalizer Precompiled.
func parsePrecompiled(raw json.RawMessage) (Normalizer, error) {
	var n struct {
		Map string `json:"precompiled_charsmap"`
	}
	if err := json.Unmarshal(raw, &n); err != nil {
		return nil, fmt.Errorf("normalizer Precompiled: %w", err)
	}
	data, err := base64.StdEncoding.DecodeString(n.Map)
	if err != nil {
		return nil, fmt.Errorf("normalizer Precompiled: %w", err)
	}
	m, err := NewCharsMap(data)
	if m == nil || err != nil {
		return nil, err
	}
	return m.replaceAll, nil
}
