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
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

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
		if err := one.Put(backend, 0, flats[i], slot, a); err != nil {
			t.Fatal(err)
		}
	}
}

// A slot has what an adapter's numbers, read as float32 and then rounded, make of zeros, whatever was in it before.
func TestAdaptersInSlots(t *testing.T) {
	for _, c := range []struct{ family, wide, adapter string }{{"llama3", "llama3-wide", "llama3"},
		{"llama3", "llama3-head", "llama3-stable"}, {"llama3", "", "llama3-head"}, {"phi3", "", "phi3"},
		{"glm4", "", "glm4"}, {"starcoder2", "", "starcoder2"}} {
		cfg := testenv.Model(t, c.family).Config
		open := func(name string) *adapter.Adapter {
			a, err := adapter.Open(testenv.Path("testdata", "adapters", name), &cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = a.Close() })
			return a
		}
		list := []*adapter.Adapter{open(c.adapter)}
		if c.wide != "" { // it was in the slot before
			list = append(list, open(c.wide))
		}
		if c.family == "llama3" {
			list = append(list, randomAdapter(t, &cfg, 3, 3, arch.Q, arch.V, arch.Down),
				randomAdapter(t, &cfg, 16, 40, projections...))
		}
		adapts := func(tensor string) bool {
			return slices.ContainsFunc(list, func(a *adapter.Adapter) bool { return a.Adapts(tensor) })
		}
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16} {
			for _, loop := range []bool{false, true} {
				for _, backend := range []compute.Backend{testenv.XLA(t), testenv.XLAWithoutKernels(t)} {
					s := Storage{Backend: backend, DType: dtype, LayerLoop: loop}
					inOneSlot(t, backend, AdapterArrays(cfg, s, 2, 16, adapts), list)
				}
			}
		}
	}
}

// inOneSlot puts adapters into one slot, one after the other.
func inOneSlot(t *testing.T, backend compute.Backend, arrays []AdapterArray, list []*adapter.Adapter) {
	t.Helper()
	flats := slotsFor(arrays)
	for _, a := range slices.Backward(list) {
		putAll(t, backend, arrays, flats, 1, a)
		for i, want := range slowly(t, backend, arrays, a) {
			if !reflect.DeepEqual(flats[i], want) {
				t.Errorf("%s: %s %s differs", a.Place, arrays[i].Name, arrays[i].Shape)
			}
		}
	}
}

// slowly are arrays with an adapter in slot 1.
func slowly(t *testing.T, backend compute.Backend, arrays []AdapterArray, from *adapter.Adapter) []any {
	t.Helper()
	flats := slotsFor(arrays)
	for i, a := range arrays {
		size, in := a.format.Shape().Size(), a.format.In
		for turn, sources := range a.turns {
			first, column := (turn*a.slots+1)*size, 0
			to := reflect.ValueOf(flats[i]).Slice(first, first+size)
			rows := make([]float32, a.format.Out*in)
			for part, s := range sources {
				low, ok, err := from.Read(s.name)
				if err != nil {
					t.Fatal(err)
				}
				for k := range low.Rank {
					for at := 0; ok && !a.up && at < len(low.A)/low.Rank; at++ {
						if a.embeds {
							rows[at*in+k] = low.A[k*a.format.Out+at]
						} else {
							rows[(part*a.rank+k)*in+at] = low.A[k*in+at]
						}
					}
					for at := 0; ok && a.up && at < len(low.B)/low.Rank; at++ {
						if b := low.Scale * low.B[at*low.Rank+k]; a.embeds {
							rows[at*in+k] = b
						} else {
							rows[(part*a.rank+k)*in+column+at] = b
						}
					}
				}
				column += s.rows
			}
			if err := a.format.Pack(backend, to.Interface(), rounded(rows, a.format.DType), 0); err != nil {
				t.Fatal(err)
			}
		}
	}
	return flats
}

func rounded(x []float32, dtype dtypes.DType) any {
	switch dtype {
	case dtypes.BFloat16:
		out := make([]bfloat16.BFloat16, len(x))
		models.ToBFloat16(out, x)
		return out
	case dtypes.Float16:
		out := make([]float16.Float16, len(x))
		models.ToFloat16(out, x)
		return out
	}
	return x
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
