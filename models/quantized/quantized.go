// Package quantized decodes the quantized matrices of safetensors checkpoints, as the quantization_config of a
// config.json describes them.
//
// A number is scale * (quant - zero point) in float32, rounded once: what compressed-tensors, AutoAWQ, GPTQModel and
// transformers compute where scales are float32. The package knows no files: it gets the tensors of a module as bytes.
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

// method is a value of quant_method: the suffixes of the tensors that such checkpoints have of a module beside weight
// and bias, and how their config is read.
type method struct {
	suffixes []string
	parse    func(c *config) (reader, error)
}

// methods are those that are read. A format is added by an entry, with a file of its own.
var methods = map[string]method{
	"awq":                {[]string{qweight, qzeros, scales}, parseAWQ},
	"compressed-tensors": {compressedSuffixes, parseCompressed},
	"fbgemm_fp8":         {[]string{weightScale, inputScale, "input_scale_ub"}, parseFBGEMM},
	"fp8":                {fp8Suffixes, parseFP8},
	"gptq":               {[]string{qweight, qzeros, scales, groupIndex}, parseGPTQ},
}

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
	// matrix makes the matrix of a module of its parts, by their suffixes; nil where its weight is not quantized.
	matrix(module Module, parts map[string]Tensor) (*Matrix, error)
	// text says what the config says of weights; asks what else it wants rounded, and to what, which is not done.
	text() string
	asks() []string
	// planned says how the config wants a module's weight stored, as far as it can be kept so.
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

// Scheme is what a quantization_config says.
type Scheme struct {
	Method   string
	suffixes []string
	reader   reader
}

// Parse reads a quantization_config; nil is that of a model that is not quantized. The error of what is not supported
// wraps [arch.UnsupportedError].
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

// String says it in a line.
func (s *Scheme) String() string {
	text := s.Method + ", " + s.reader.text()
	if asks := s.reader.asks(); len(asks) > 0 {
		text += "; not done: rounding of " + strings.Join(asks, ", of ")
	}
	return text
}

// Part reports whether a tensor is one of those that make a matrix, or that the config has a use for: the module it
// belongs to, and the rest of its name.
func (s *Scheme) Part(name string) (module, suffix string, ok bool) {
	at := strings.LastIndexByte(name, '.')
	if at < 0 {
		return "", "", false
	}
	module, suffix = name[:at], name[at+1:]
	return module, suffix, suffix == weight || slices.Contains(s.suffixes, suffix)
}

// Small are the suffixes of tensors whose data [Scheme.Matrix] reads.
func (s *Scheme) Small(suffix string) bool {
	return suffix == groupIndex || suffix == "weight_g_idx" || suffix == "weight_shape"
}

// Matrix makes the weight of a module of its parts; nil where it has none, or one that is not quantized.
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

// isFloat says that a tensor's numbers are floats of 16 or 32 bits.
func (t Tensor) isFloat() bool { return t.DType == "F32" || t.DType == "BF16" || t.DType == "F16" }

// config reads typed keys; the first error is kept. null counts as absent.
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
