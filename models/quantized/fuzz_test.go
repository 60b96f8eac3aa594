package quantized

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/safetensors"
)

// For any config and file, a matrix is read whole or rejected, and its blocks equal its floats.
func FuzzMatrix(f *testing.F) {
	for name, config := range map[string]string{
		"awq":            `{"quant_method": "awq", "group_size": 64}`,
		"gptq-order":     `{"quant_method": "gptq", "group_size": 128, "desc_act": true}`,
		"fp8-block":      `{"quant_method": "fp8", "weight_block_size": [128, 128]}`,
		"ct-w4a16-order": groupConfig(`"num_bits": 4, "strategy": "group", "group_size": 32`),
		"ct-w8a8-asym":   groupConfig(`"num_bits": 8, "strategy": "channel", "symmetric": false`),
	} {
		data, err := os.ReadFile(filepath.Join("..", "..", "testdata", "quantized", name, "model.safetensors"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add([]byte(config), data)
	}
	f.Fuzz(func(t *testing.T, config, data []byte) {
		scheme, err := Parse(config)
		if err != nil || scheme == nil {
			return
		}
		file, err := safetensors.Parse("fuzz", data)
		if err != nil {
			return
		}
		modules := map[string]map[string]Tensor{}
		for _, x := range file.Tensors() {
			module, suffix, ok := scheme.Part(x.Name)
			if !ok {
				continue
			}
			if modules[module] == nil {
				modules[module] = map[string]Tensor{}
			}
			modules[module][suffix] = Tensor{x.DType, x.Dims, x.Data}
		}
		for name, parts := range modules {
			m, err := scheme.Matrix(Module{name, name}, parts)
			if err == nil && m != nil {
				checkMatrix(t, m)
			}
		}
	})
}

func groupConfig(weights string) string {
	return `{"quant_method": "compressed-tensors", "config_groups": {"g": {"targets": ["re:.*"], "weights": {` +
		weights + `}}}}`
}

func checkMatrix(t *testing.T, m *Matrix) {
	t.Helper()
	x := make([]float32, m.Out*m.In)
	m.Floats(x, 0)
	if !m.Format.Is() {
		return
	}
	rows := blocks.NewRows(m.Format, m.Out, m.In)
	if m.Rows(rows, 0) != nil {
		return // what is not a number
	}
	for i, y := range rows.Floats() {
		if y != x[i] {
			t.Fatalf("number %d is %g, and %g in %s", i, x[i], y, m.Format)
		}
	}
}
