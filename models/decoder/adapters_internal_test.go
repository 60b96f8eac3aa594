package decoder

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
	"github.com/quire/quire/models/arch"
)

// randomAdapter writes an adapter in bfloat16 of projections of a llama, and opens it.
func randomAdapter(t testing.TB, cfg *models.Config, rank int, alpha float64, parts ...arch.Part) *adapter.Adapter {
	t.Helper()
	var modules []string
	header, offset := map[string]any{}, 0
	add := func(name string, dims ...int) {
		end := offset + 2*dims[0]*dims[1]
		header[name] = map[string]any{"dtype": "BF16", "shape": dims, "data_offsets": []int{offset, end}}
		offset = end
	}
	for tensor := range cfg.Tensors() {
		if !slices.Contains(parts, tensor.Part) {
			continue
		}
		module := tensor.Name[:len(tensor.Name)-len(".weight")]
		modules = append(modules, module)
		add("base_model.model."+module+".lora_A.weight", rank, tensor.Shape[1])
		add("base_model.model."+module+".lora_B.weight", tensor.Shape[0], rank)
	}
	text, _ := json.Marshal(header)
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(text))), text...)
	r := rand.New(rand.NewPCG(1, uint64(rank)))
	for range offset / 2 {
		file = binary.LittleEndian.AppendUint16(file, uint16(0x3b00|r.IntN(256)|r.IntN(2)<<15))
	}
	config, _ := json.Marshal(map[string]any{"peft_type": "LORA", "r": rank, "lora_alpha": alpha,
		"target_modules": modules})
	dir := t.TempDir()
	for name, data := range map[string][]byte{adapter.ConfigFile: config, adapter.WeightsFile: file} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	a, err := adapter.Open(dir, cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = a.Close() })
	return a
}

// projections are what adapters usually change.
var projections = []arch.Part{arch.Q, arch.K, arch.V, arch.O, arch.Gate, arch.Up, arch.Down}

// slotsFor makes arrays of zeros with the elements that the device would have.
func slotsFor(arrays []AdapterArray) (flats []any) {
	for _, a := range arrays {
		slice := reflect.SliceOf(a.Shape.DType.GoType())
		flats = append(flats, reflect.MakeSlice(slice, a.Shape.Size(), a.Shape.Size()).Interface())
	}
	return flats
}

func putAll(t testing.TB, backend compute.Backend, arrays []AdapterArray, flats []any, slot int, a *adapter.Adapter) {
	t.Helper()
	for i, one := range arrays {
		if err := one.Put(backend, flats[i], slot, a); err != nil {
			t.Fatal(err)
		}
	}
}

// BenchmarkAdapter opens an adapter of rank 16 of SmolLM2 in bfloat16, and puts it into a slot, on one thread.
func BenchmarkAdapter(b *testing.B) {
	cfg, backend := testenv.SmolLM2(b).Config, testenv.XLA(b)
	for _, alpha := range []float64{16, 24} {
		a := randomAdapter(b, &cfg, 16, alpha, projections...)
		b.Run("open", func(b *testing.B) {
			for b.Loop() {
				again, err := adapter.Open(a.Place, &cfg)
				if err != nil {
					b.Fatal(err)
				}
				_ = again.Close()
			}
		})
		arrays := AdapterArrays(cfg, Storage{Backend: backend, DType: dtypes.BFloat16}, 2, a.Rank, a.Adapts)
		flats := slotsFor(arrays)
		b.Run(fmt.Sprint("put, scale ", alpha/16), func(b *testing.B) {
			for i := 0; b.Loop(); i++ {
				putAll(b, backend, arrays, flats, i%2, a)
			}
		})
	}
}
