package arch

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quire/quire/models/gguf"
)

// Metadata reads typed metadata below the name of the architecture. Each read gives the value of a key that is absent.
// The first error, of a key of the wrong type, is kept in err.
type Metadata struct {
	File     *gguf.File
	prefix   string
	ownSizes bool // layers may differ by sizeKeys: Int returns the first layer's value
	err      error
}

// sizeKeys may differ between layers if [GGUF.OwnSizes] is set.
var sizeKeys = []string{kvHeadsKey, widthKey}

const kvHeadsKey, widthKey = "attention.head_count_kv", "feed_forward_length"

// Has reports whether the file has a key.
func (m *Metadata) Has(key string) bool { return m.File.Has(m.prefix + key) }

func (m *Metadata) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// Int also accepts an array of equal elements, because some converters write per-layer values.
func (m *Metadata) Int(key string, absent int) int {
	differ := m.ownSizes && slices.Contains(sizeKeys, key)
	key = m.prefix + key
	if !m.File.Has(key) {
		return absent
	}
	n, ok := m.File.Int(key)
	if list, isList := m.File.Ints(key); isList && len(list) > 0 {
		n, ok = list[0], true
		for _, x := range list {
			if x != n && !differ {
				m.fail("%w", Unsupported("one for all layers is", "%s that differs between layers", key))
				return absent
			}
		}
	}
	if !ok || n < 0 || n > math.MaxInt32 {
		m.fail("metadata key %q is no integer of a sensible size", key)
		return absent
	}
	return int(n)
}

func (m *Metadata) required(key string) int {
	if !m.Has(key) {
		m.fail("metadata key %q is missing", m.prefix+key)
	}
	return m.Int(key, 0)
}

func (m *Metadata) Float(key string, absent float64) float64 {
	key = m.prefix + key
	if !m.File.Has(key) {
		return absent
	}
	x, ok := m.File.Float(key)
	if !ok {
		m.fail("metadata key %q is no number", key)
		return absent
	}
	return x
}

// Bool reads a boolean key.
func (m *Metadata) Bool(key string, absent bool) bool {
	if value, ok := m.File.Bool(m.prefix + key); ok {
		return value
	}
	return absent
}

// HasTensor reports whether the file has a tensor, be it as rows of the one of queries, keys and values together.
func (m *Metadata) HasTensor(name string) bool {
	return m.File.Tensor(name) != nil || m.File.Tensor(ofQKV.Replace(name)) != nil
}

// Floats32 reads a tensor of F32; nil if there is none.
func (m *Metadata) Floats32(name string) ([]float32, error) {
	t := m.File.Tensor(name)
	if t == nil {
		return nil, nil
	}
	if t.Type != gguf.F32 || len(t.Dims) != 1 || t.Elements() > maxDimension {
		return nil, fmt.Errorf("%s is not a vector of F32", name)
	}
	values := make([]float32, t.Elements())
	return values, gguf.Dequantize(t.Type, values, t.Data)
}

// ofQKV returns the names of a tensor of queries, keys and values together, from the names of the separate tensors.
var ofQKV = strings.NewReplacer(".attn_q.", ".attn_qkv.", ".attn_k.", ".attn_qkv.", ".attn_v.", ".attn_qkv.")
