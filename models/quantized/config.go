package quantized

import (
	"encoding/json"
	"fmt"

	"github.com/quire/quire/models/arch"
)

// Suffixes of the names of tensors that several methods have.
const (
	weight      = "weight"
	weightScale = "weight_scale"
	inputScale  = "input_scale"
	qweight     = "qweight"
	qzeros      = "qzeros"
	scales      = "scales"
	groupIndex  = "g_idx"
)

// reader reads the matrices of one checkpoint.
type reader interface {
	// matrix makes the matrix of a module from its parts, by their suffixes. It returns nil if the weight is not
	// quantized.
	matrix(module Module, parts map[string]Tensor) (*Matrix, error)
	// text describes how the config quantizes weights. asks lists what else it rounds, and to what, which is not done.
	text() string
	asks() []string
	// planned returns how the config stores a module's weight, as far as it can be kept so.
	planned(module Module) *planned
}

// Module is the name of a module: as files have it, and as [arch.Config] does.
type Module struct{ Stored, Name string }

// Tensor is one of the tensors that make a matrix.
type Tensor struct {
	DType string // as safetensors names it
	Shape []int  // outermost first
	Data  []byte
}

// isFloat reports whether a tensor's numbers are floats of 16 or 32 bits.
func (t Tensor) isFloat() bool { return t.DType == "F32" || t.DType == "BF16" || t.DType == "F16" }

// config reads typed keys and keeps the first error. A key that is null counts as absent.
type config struct {
	fields map[string]json.RawMessage
	err    error
}

func (c *config) has(key string) bool {
	v, ok := c.fields[key]
	return ok && string(v) != "null"
}

func (c *config) decode(key string, to any) {
	if !c.has(key) {
		return
	}
	if err := json.Unmarshal(c.fields[key], to); err != nil && c.err == nil {
		c.err = fmt.Errorf("%s is not of the expected type: %w", key, err)
	}
}

func (c *config) str(key, absent string) string     { c.decode(key, &absent); return absent }
func (c *config) num(key string, absent int) int    { c.decode(key, &absent); return absent }
func (c *config) flag(key string, absent bool) bool { c.decode(key, &absent); return absent }
func (c *config) list(key string) (values []string) { c.decode(key, &values); return values }
func (c *config) first(absent int, keys ...string) int {
	for _, key := range keys {
		if c.has(key) {
			return c.num(key, absent)
		}
	}
	return absent
}

// need returns a part that a module must have.
func need(parts map[string]Tensor, suffix, dtype string, dims int) (Tensor, error) {
	t, ok := parts[suffix]
	switch {
	case !ok:
		return t, fmt.Errorf("%s is missing", suffix)
	case dtype == "" && !t.isFloat():
		return t, arch.Unsupported("F32, BF16 and F16 are", "%s of dtype %s", suffix, t.DType)
	case dtype != "" && t.DType != dtype:
		return t, arch.Unsupported(dtype+" is", "%s of dtype %s", suffix, t.DType)
	case dims > 0 && len(t.Shape) != dims:
		return t, fmt.Errorf("%s has shape %v, not one of %d dimensions", suffix, t.Shape, dims)
	}
	return t, nil
}
