// Package quantized decodes the quantized matrices of safetensors checkpoints, as the quantization_config of a
// config.json describes them.
//
// A number is scale * (quant - zero point) in float32, rounded once. Compressed-tensors, AutoAWQ, GPTQModel and
// transformers compute the same if scales are float32. The package does not open files: it gets the tensors of a
// module as bytes.
package quantized

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quire/quire/models/arch"
)

// method is a value of quant_method: the suffixes of the tensors that such checkpoints have for a module in addition
// to weight and bias, and a parser of their config.
type method struct {
	suffixes []string
	parse    func(c *config) (reader, error)
}

// methods are the supported ones. To add a format, add an entry and a file.
var methods = map[string]method{
	"awq":                {[]string{qweight, qzeros, scales}, parseAWQ},
	"compressed-tensors": {compressedSuffixes, parseCompressed},
	"fbgemm_fp8":         {[]string{weightScale, inputScale, "input_scale_ub"}, parseFBGEMM},
	"fp8":                {fp8Suffixes, parseFP8},
	"gptq":               {[]string{qweight, qzeros, scales, groupIndex}, parseGPTQ},
}

// The suffixes of tensors that several methods share.
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
	// matrix returns the matrix of a module, made from its parts by their suffixes; nil if its weight is not
	// quantized.
	matrix(module Module, parts map[string]Tensor) (*Matrix, error)
	// text describes the weights according to the config. asks describes what else the config wants rounded and to
	// what, which is not done.
	text() string
	asks() []string
	// planned returns how the config wants a module's weight stored, as far as it can be kept so.
	planned(module Module) *planned
}

// Module is the name of a module, in files and in [arch.Config].
type Module struct{ Stored, Name string }

// Tensor is one of the tensors that make up a matrix.
type Tensor struct {
	DType string // as safetensors names it
	Shape []int  // outermost first
	Data  []byte
}

// Scheme is a parsed quantization_config.
type Scheme struct {
	Method   string
	suffixes []string
	reader   reader
}

// Parse parses a quantization_config; nil is the config of a model that is not quantized. An error of something
// unsupported wraps [arch.UnsupportedError].
func Parse(text json.RawMessage) (*Scheme, error) {
	if len(text) == 0 {
		return nil, nil
	}
	c := &config{}
	if err := json.Unmarshal(text, &c.fields); err != nil {
		return nil, fmt.Errorf("quantization_config is not a JSON object: %w", err)
	}
	name := c.str("quant_method", "")
	m, ok := methods[name]
	if !ok && c.err == nil {
		return nil, arch.Unsupported(strings.Join(slices.Sorted(maps.Keys(methods)), ", ")+
			" are; else use the unquantized model or a GGUF file", "quantization_config (quant_method %q)", name)
	}
	if c.err != nil {
		return nil, c.err
	}
	r, err := m.parse(c)
	if err := errors.Join(c.err, err); err != nil {
		return nil, fmt.Errorf("quantization_config of %s: %w", name, err)
	}
	return &Scheme{Method: name, suffixes: m.suffixes, reader: r}, nil
}

// String describes the scheme in one line.
func (s *Scheme) String() string {
	text := s.Method + ", " + s.reader.text()
	if asks := s.reader.asks(); len(asks) > 0 {
		text += "; not done: rounding of " + strings.Join(asks, ", of ")
	}
	return text
}

// Part reports whether a tensor is a part of a matrix, or one that the config has a use for. It returns the module
// that it belongs to, and the rest of its name.
func (s *Scheme) Part(name string) (module, suffix string, ok bool) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return "", "", false
	}
	module, suffix = name[:at], name[at+1:]
	return module, suffix, suffix == weight || slices.Contains(s.suffixes, suffix)
}

// Small reports whether [Scheme.Matrix] reads the data of tensors with this suffix.
func (s *Scheme) Small(suffix string) bool {
	return suffix == groupIndex || suffix == "weight_g_idx" || suffix == "weight_shape"
}

// Matrix makes the weight of a module from its parts; nil if it has none, or one that is not quantized.
func (s *Scheme) Matrix(module Module, parts map[string]Tensor) (*Matrix, error) {
	m, err := s.reader.matrix(module, parts)
	if m == nil || err != nil {
		return nil, err
	}
	if m.Out < 1 || m.In < 1 {
		return nil, fmt.Errorf("it is a matrix [%d, %d]", m.Out, m.In)
	}
	m.settle()
	return m, nil
}

// isFloat reports whether a tensor's numbers are floats of 16 or 32 bits.
func (t Tensor) isFloat() bool { return t.DType == "F32" || t.DType == "BF16" || t.DType == "F16" }

// config reads typed keys and keeps the first error. null counts as absent.
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
