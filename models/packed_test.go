package models

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/safetensors"
)

const quantizedModels = "../testdata/quantized"

func quantizedGoldens(t *testing.T) (goldens map[string]map[string]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(quantizedModels, "goldens.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &goldens); err != nil || len(goldens) < 10 {
		t.Fatal(len(goldens), err)
	}
	return goldens
}

// Matrices of quantized checkpoints are what the libraries that define the formats decode, bit for bit: as floats,
// and in the blocks that they are kept in.
func TestQuantizedAreAsDefined(t *testing.T) {
	for name, tensors := range quantizedGoldens(t) {
		t.Run(name, func(t *testing.T) {
			c := openTest(t, filepath.Join(quantizedModels, name))
			if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
				t.Fatalf("warnings %v, error %v", warnings, err)
			}
			if !strings.HasPrefix(c.Quantization(), c.scheme.Method+", ") {
				t.Errorf("it is said to be %q", c.Quantization())
			}
			stored := int64(0)
			for _, tensor := range c.Names() {
				stored += c.tensors[tensor].packed.bytes()
				want, rest := tensors[tensor], []string(nil)
				if want == "" { // q, k and v, or gate and up, of a matrix that holds them
					if want, rest = together(tensors, tensor); rest == nil {
						continue
					}
				}
				if got := hashOfFloats(t, c, append([]string{tensor}, rest...)); got != want {
					t.Errorf("%s differs from what %s makes of it", tensor, c.Encoding(tensor))
				}
			}
			if stored == 0 || stored > c.StoredBytes() {
				t.Errorf("%d bytes of %d are quantized", stored, c.StoredBytes())
			}
		})
	}
}

// together finds the matrix that a tensor is the first part of, and the other parts.
func together(tensors map[string]string, tensor string) (want string, rest []string) {
	for _, parts := range [][]string{{"self_attn.qkv_proj", "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"},
		{"mlp.gate_up_proj", "mlp.gate_proj", "mlp.up_proj"}} {
		whole, ok := tensors[strings.Replace(tensor, parts[1], parts[0], 1)]
		if !ok || !strings.Contains(tensor, parts[1]) {
			continue
		}
		for _, part := range parts[2:] {
			rest = append(rest, strings.Replace(tensor, parts[1], part, 1))
		}
		return whole, rest
	}
	return "", nil
}

// hashOfFloats reads tensors in several ways, which must agree, and hashes their numbers.
func hashOfFloats(t *testing.T, c *Checkpoint, names []string) string {
	t.Helper()
	h := sha256.New()
	for _, name := range names {
		flat, err := c.Read(name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		x := flat.([]float32)
		if err := binary.Write(h, binary.LittleEndian, x); err != nil {
			t.Fatal(err)
		}
		shape := c.Shape(name)
		rows, width := shape[0], shape[1]
		some, err := c.ReadRows(name, dtypes.Float32, Span{3, rows - 8})
		if err != nil || !slices.Equal(some.([]float32), x[3*width:(rows-5)*width]) {
			t.Errorf("%s: some rows differ (%v)", name, err)
		}
		columns, err := c.ReadColumns(name, dtypes.Float32, []Span{{5, 7}})
		if err != nil || columns.([]float32)[7*2+1] != x[2*width+6] {
			t.Errorf("%s: some columns differ (%v)", name, err)
		}
		checkBlocks(t, c, name, x)
	}
	return hex.EncodeToString(h.Sum(nil))
}

// checkBlocks compares a tensor's blocks, if it has any, with its floats.
func checkBlocks(t *testing.T, c *Checkpoint, name string, x []float32) {
	t.Helper()
	format := c.Blocks(name)
	if !format.Is() {
		if c.tensors[name].packed != nil && !strings.Contains(c.Ref, "order") {
			t.Errorf("%s has no blocks", name)
		}
		return
	}
	rows, width := c.Shape(name)[0], c.Shape(name)[1]
	all, err := c.ReadBlocks(name, Span{0, rows}, nil)
	if err != nil || !slices.Equal(all.Floats(), x) {
		t.Fatalf("%s in %s differs (%v)", name, format, err)
	}
	unit := format.Unit()
	part, err := c.ReadBlocks(name, Span{1, 2}, []Span{{width - unit, unit}})
	if err != nil || !slices.Equal(part.Floats()[:unit], x[2*width-unit:2*width]) {
		t.Errorf("a part of %s in %s differs (%v)", name, format, err)
	}
}

// changed writes a copy of a quantized checkpoint with another config, and with tensors changed.
func changed(t *testing.T, name string, config func(q map[string]any), tensors func(x map[string]*rawTensor)) string {
	t.Helper()
	from, dir := filepath.Join(quantizedModels, name), t.TempDir()
	text, err := os.ReadFile(filepath.Join(from, configFile))
	if err != nil {
		t.Fatal(err)
	}
	var c map[string]any
	if err := json.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	if config != nil {
		config(c["quantization_config"].(map[string]any))
	}
	if text, err = json.Marshal(c); err != nil {
		t.Fatal(err)
	}
	f, err := safetensors.Open(filepath.Join(from, weightsFile), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	all := map[string]*rawTensor{}
	for _, x := range f.Tensors() {
		all[x.Name] = &rawTensor{x.DType, x.Dims, bytes.Clone(x.Data)}
	}
	if tensors != nil {
		tensors(all)
	}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, configFile), text, 0o644),
		os.WriteFile(filepath.Join(dir, weightsFile), writeSafetensors(all), 0o644)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// rawTensor is a tensor of a safetensors file.
type rawTensor struct {
	dtype string
	shape []int
	data  []byte
}

// writeSafetensors is a file of tensors.
func writeSafetensors(tensors map[string]*rawTensor) []byte {
	header, body := map[string]any{}, []byte(nil)
	for _, name := range slices.Sorted(maps.Keys(tensors)) {
		x := tensors[name]
		header[name] = map[string]any{"dtype": x.dtype, "shape": x.shape,
			"data_offsets": []int{len(body), len(body) + len(x.data)}}
		body = append(body, x.data...)
	}
	text, _ := json.Marshal(header) // of strings and numbers
	return slices.Concat(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text, body)
}

// What a quantized checkpoint asks for that is not supported, and what does not fit together, is an error that names
// it, the tensor and the file.
func TestQuantizedRefused(t *testing.T) {
	const q, down = "model.layers.0.self_attn.q_proj.", "model.layers.0.mlp.down_proj."
	set := func(key string, value any) func(map[string]any) { return func(c map[string]any) { c[key] = value } }
	groupOf := func(c map[string]any) map[string]any {
		return c["config_groups"].(map[string]any)["group_0"].(map[string]any)
	}
	weights := func(key string, value any) func(map[string]any) {
		return func(c map[string]any) { groupOf(c)["weights"].(map[string]any)[key] = value }
	}
	type tensors = map[string]*rawTensor
	for name, c := range map[string]struct {
		of          string
		config      func(map[string]any)
		change      func(tensors)
		unsupported bool
		want        []string
	}{
		"method":     {"gptq", set("quant_method", "quip"), nil, true, []string{`"quip"`, "awq, compressed-tensors"}},
		"no method":  {"gptq", set("quant_method", nil), nil, true, []string{`quant_method ""`}},
		"gptq bits":  {"gptq", set("bits", 3), nil, true, []string{"bits 3", "gptq"}},
		"marlin":     {"gptq", set("checkpoint_format", "marlin"), nil, true, []string{`"marlin"`}},
		"gptq group": {"gptq", set("group_size", 0), nil, false, []string{"group_size is 0"}},
		"dynamic": {"gptq", set("dynamic", map[string]any{"+:.*down.*": map[string]any{"bits": 8}}), nil, true,
			[]string{"+:.*down.*"}},
		"other type": {"gptq", set("bits", "four"), nil, false, []string{"bits is not of the expected type"}},
		"gemv":       {"awq", set("version", "gemv"), nil, true, []string{`"gemv"`}},
		"awq bits":   {"awq", set("bits", 8), nil, true, []string{"bits 8"}},
		"no zeros":   {"awq", set("zero_point", false), nil, true, []string{"zero_point"}},
		"format":     {"ct-w8a8", set("format", "marlin-24"), nil, true, []string{`"marlin-24"`}},
		"sparse": {"ct-w8a8", set("sparsity_config", map[string]any{"format": "sparse-bitmask"}), nil, true,
			[]string{"sparse-bitmask"}},
		"transform": {"ct-w8a8", set("transform_config", map[string]any{"config_groups": map[string]any{"u": 1}}), nil,
			true,
			[]string{"transform_config"}},
		"fp4": {"ct-fp8-tensor", weights("num_bits", 4), nil, true,
			[]string{"type float with num_bits 4", "group_0"}},
		"strategy": {"ct-w8a8", weights("strategy", "tensor_group"), nil, true, []string{"tensor_group"}},
		"preset": {"ct-w8a8", func(c map[string]any) {
			c["config_groups"] = map[string]any{"W8A8": []string{"Linear"}}
		}, nil, true, []string{"W8A8", "preset"}},
		"pattern": {"ct-w8a8", set("ignore", []string{"re:("}), nil, false, []string{`"re:("`}},
		"ignored": {"ct-w8a8", set("ignore", []string{"re:.*q_proj"}), nil, false,
			[]string{"ignores the module", q + "weight", weightsFile}},
		"targets": {"ct-w8a8", func(c map[string]any) { groupOf(c)["targets"] = []string{"re:.*mlp"} }, nil, false,
			[]string{"no group", "self_attn", weightsFile}},
		"e5m2": {"fp8-block", set("fmt", "e5m2"), nil, true, []string{`"e5m2"`}},
		"no scales": {"gptq", nil, func(x tensors) { delete(x, q+"scales") }, false,
			[]string{q + "qweight", weightsFile, "scales is missing"}},
		"no weight": {"gptq", nil, func(x tensors) { delete(x, q+"qweight") }, false, []string{q, "no qweight"}},
		"int64": {"gptq", nil, func(x tensors) { w := x[q+"qweight"]; w.dtype, w.shape = "I64", []int{16, 64} }, true,
			[]string{"qweight of dtype I64"}},
		"shape": {"gptq", nil, func(x tensors) { s := x[q+"scales"]; s.shape = []int{s.shape[1], s.shape[0]} }, false,
			[]string{"scales have shape [128 1]"}},
		"order": {"gptq-order", nil, func(x tensors) { x[down+"g_idx"].data[4] = 77 }, false,
			[]string{"column 1 in group 77"}},
		"uneven order": {"ct-w4a16-order", nil, func(x tensors) { clear(x[q+"weight_g_idx"].data) }, false,
			[]string{"more than 32 columns in group 0"}},
		"block": {"fp8-block", set("weight_block_size", []int{64, 64}), nil, false,
			[]string{"weight_scale_inv has shape"}},
		"unscaled": {"fp8-block", nil, func(x tensors) { delete(x, q+"weight_scale_inv") }, false,
			[]string{q + "weight", "F8_E4M3", "there is no weight_scale"}},
		"not compressed": {"ct-w8a8", nil, func(x tensors) {
			w := x[q+"weight"]
			w.dtype, w.data = "F16", append(w.data, w.data...)
		}, true, []string{q + "weight", "F16"}},
		"other shape": {"ct-w4a16", nil, func(x tensors) { x[q+"weight_shape"].data[0]++ }, false,
			[]string{"weight_shape is [129, 128]"}},
	} {
		t.Run(name, func(t *testing.T) {
			checkpoint, err := Open(changed(t, c.of, c.config, c.change))
			if err == nil {
				checkpoint.Close()
				t.Fatal("it was opened")
			}
			var unsupported *UnsupportedError
			if errors.As(err, &unsupported) != c.unsupported {
				t.Errorf("unsupported is %v: %v", !c.unsupported, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error does not say %s: %v", want, err)
				}
			}
		})
	}
}

// A number that is none has no block: the error names tensor, file and row.
func TestQuantizedNaN(t *testing.T) {
	const name = "model.layers.0.self_attn.q_proj.weight"
	for suffix, want := range map[string]string{"": "a number of row 1 ", "_scale": "a scale of row 0 "} {
		c := openTest(t, changed(t, "ct-fp8-tensor", nil, func(x map[string]*rawTensor) {
			data := x[name+suffix].data
			if suffix == "" {
				data[128] = 0xff
				return
			}
			copy(data[len(data)-2:], []byte{0xc0, 0x7f})
		}))
		_, err := c.ReadBlocks(name, Span{0, 8}, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), name+" in "+c.Ref) {
			t.Errorf("the error is %v", err)
		}
	}
}

// Requests of config.json other than the weights are reported.
func TestQuantizationIsSaid(t *testing.T) {
	for name, want := range map[string]string{
		"gptq-v2": "gptq, 4 bits, a scale for each output",
		"awq":     "awq, 4 bits, groups of 64",
		"ct-w8a8": "compressed-tensors, int8, a scale for each output; not done: rounding of activations to int8 " +
			"(dynamic, by token)",
		"ct-fp8-tensor": "compressed-tensors, float8, a scale for each matrix; not done: rounding of activations to " +
			"float8 (static, by tensor), of keys and values to float8 (static, by tensor)",
		"fp8-block": "fp8, scales of 128 x 128; not done: rounding of activations to float8 (dynamic)",
	} {
		if got := openTest(t, filepath.Join(quantizedModels, name)).Quantization(); got != want {
			t.Errorf("%s is %q", name, got)
		}
	}
	if got := openTest(t, filepath.Join(tinyModels, "llama3")).Quantization(); got != "" {
		t.Errorf("a model of floats is %q", got)
	}
}

// Of a quantized model that is not all here, those bytes are brought that rows are made of.
func TestQuantizedInParts(t *testing.T) {
	const name = "model.layers.0.self_attn.q_proj.weight"
	for _, model := range []string{"ct-w4a16-asym", "gptq-order", "fp8-block"} {
		brought := int64(0)
		c, err := OpenParts(filepath.Join(quantizedModels, model), func(_ string, ranges ...Range) error {
			for _, r := range ranges {
				brought += r.To - r.From
			}
			return nil
		}, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		whole := openTest(t, filepath.Join(quantizedModels, model))
		brought = 0
		some, err := c.ReadRows(name, dtypes.Float32, Span{8, 8})
		if err != nil {
			t.Fatal(err)
		}
		all, _ := whole.Read(name, dtypes.Float32)
		if !slices.Equal(some.([]float32), all.([]float32)[8*128:16*128]) {
			t.Errorf("%s: rows differ", model)
		}
		stored := whole.tensors[name].packed.bytes()
		if brought == 0 || brought > stored || model != "gptq-order" && brought > stored/4 {
			t.Errorf("%s: %d of %d bytes were brought", model, brought, stored)
		}
	}
}

// Random weights of a quantized checkpoint's config have the forms of the checkpoint itself, so that a plan is right.
func TestQuantizedDummies(t *testing.T) {
	for name := range quantizedGoldens(t) {
		dir := filepath.Join(quantizedModels, name)
		c, dummy := openTest(t, dir), func() *Checkpoint {
			d, err := OpenConfig(dir)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}()
		if c.Quantization() != dummy.Quantization() {
			t.Errorf("%s is %q, with random weights %q", name, c.Quantization(), dummy.Quantization())
		}
		for _, tensor := range c.Names() {
			want, got := c.Blocks(tensor), dummy.Blocks(tensor)
			ordered := strings.HasSuffix(name, "order") && !got.Is() // the config does not state which
			if want != got && name != "fp8-ue8m0" && !ordered {
				t.Errorf("%s of %s is in %v, with random weights in %v", tensor, name, want, got)
			}
			if !got.Is() {
				continue
			}
			x, err := dummy.Read(tensor, dtypes.Float32)
			if err != nil {
				t.Fatal(err)
			}
			checkBlocks(t, dummy, tensor, x.([]float32))
			sum := 0.0
			for _, v := range x.([]float32) {
				sum += math.Pow(float64(v), 2)
			}
			if std := math.Sqrt(sum / float64(len(x.([]float32)))); std < 0.01 || std > 0.4 {
				t.Errorf("%s of %s has a standard deviation of %g", tensor, name, std)
			}
		}
	}
}

// Rows of a quantized matrix that a file has in another order are put in place, as floats and in blocks.
func TestQuantizedRowsReordered(t *testing.T) {
	const name = "model.layers.0.self_attn.q_proj.weight"
	for _, model := range []string{"gptq-asym", "awq", "fp8-block"} {
		c := openTest(t, filepath.Join(quantizedModels, model))
		flat, err := c.Read(name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		x := flat.([]float32)
		floats := &tensor{shape: c.Shape(name), unit: 1, blockLen: 1, group: 1,
			decode: func(dst []float32, first int) { copy(dst, x[first:]) }}
		floats.deinterleave(32, 16)
		c.tensors[name].deinterleave(32, 16)
		want, err := floats.read(dtypes.Float32, 0, len(x))
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Read(name, dtypes.Float32)
		if err != nil || !slices.Equal(got.([]float32), want.([]float32)) || slices.Equal(got.([]float32), x) {
			t.Errorf("%s: rows are in another order (%v)", model, err)
		}
		checkBlocks(t, c, name, want.([]float32))
	}
}
