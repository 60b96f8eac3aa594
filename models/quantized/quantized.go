// Package quantized decodes the quantized matrices of safetensors checkpoints, as the quantization_config of a
// config.json describes them.
//
// A number is scale * (quant - zero point) in float32, rounded once, as compressed-tensors, AutoAWQ, GPTQModel and
// transformers compute it if scales are float32. The package knows no files: it gets the tensors of a module as bytes.
package quantized

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
)

// method is a value of quant_method: the suffixes of the tensors that such checkpoints have for a module in addition
// to weight and bias, and a parser of their config.
type method struct {
	suffixes []string
	parse    func(c *config) (reader, error)
}

// methods are the supported methods. A new format is an entry here, and a file of its own.
var methods = map[string]method{
	"awq":                {[]string{qweight, qzeros, scales}, parseAWQ},
	"compressed-tensors": {compressedSuffixes, parseCompressed},
	"fbgemm_fp8":         {[]string{weightScale, inputScale, "input_scale_ub"}, parseFBGEMM},
	"fp8":                {fp8Suffixes, parseFP8},
	"gptq":               {[]string{qweight, qzeros, scales, groupIndex}, parseGPTQ},
}

// Scheme is a quantization_config.
type Scheme struct {
	Method   string
	suffixes []string
	reader   reader
}

// Parse reads a quantization_config. It returns nil for a model that is not quantized. The error for what is not
// supported wraps [arch.UnsupportedError].
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
	dot := strings.LastIndexByte(name, '.')
	if dot < 0 {
		return "", "", false
	}
	module, suffix = name[:dot], name[dot+1:]
	return module, suffix, suffix == weight || slices.Contains(s.suffixes, suffix)
}

// Small reports whether tensors with this suffix are small, so that [Scheme.Matrix] reads their data.
func (s *Scheme) Small(suffix string) bool {
	return suffix == groupIndex || suffix == "weight_g_idx" || suffix == "weight_shape"
}

// Matrix makes the weight of a module from its parts. It returns nil if the module has no weight, or one that is not
// quantized.
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

// Random returns a matrix [out, in] of numbers that quants gives, each of 8 random bits, in the form that the config
// asks for; nil if it has none. Scales are of the type number if the config does not name one. The numbers lie around
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
	m.scales = grid{rows: out, columns: or(p.columns, in), number: p.number, value: func(int) float32 { return scale }}
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
