package models

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/quire/quire/models/safetensors"
)

// folderWith makes a Hugging Face folder of a config that is fine and the weight file given.
func folderWith(t *testing.T, weights string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, weightsFile), data)
	write(t, filepath.Join(dir, configFile), base(nil))
	return dir
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// rawBits gives elements as bit patterns.
func rawBits(flat any) []uint32 {
	var out []uint32
	switch s := flat.(type) {
	case []float32:
		for _, x := range s {
			out = append(out, math.Float32bits(x))
		}
	case []bfloat16.BFloat16:
		for _, x := range s {
			out = append(out, uint32(x.Bits()))
		}
	case []float16.Float16:
		for _, x := range s {
			out = append(out, uint32(x.Bits()))
		}
	}
	return out
}

// TestConversionsLikeTorch reads every dtype as every other; dtypes.safetensors has what torch makes of it.
func TestConversionsLikeTorch(t *testing.T) {
	const golden = "testdata/dtypes.safetensors"
	c, err := Open(folderWith(t, golden))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f, err := safetensors.Open(golden, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	names := map[string]dtypes.DType{"f32": dtypes.Float32, "bf16": dtypes.BFloat16, "f16": dtypes.Float16}
	compared := 0
	for _, x := range f.Tensors() {
		from, to, ok := strings.Cut(x.Name, ".to.")
		if !ok {
			continue
		}
		got, err := c.Read(from, names[to])
		if err != nil {
			t.Fatal(err)
		}
		size := names[to].Size()
		for i, g := range rawBits(got) {
			var want uint32
			for b := range size {
				want |= uint32(x.Data[i*size+b]) << (8 * b)
			}
			if g != want {
				t.Fatalf("%s: element %d is %#x, torch has %#x", x.Name, i, g, want)
			}
			compared++
		}
	}
	if compared < 10_000 {
		t.Fatalf("only %d elements compared", compared)
	}
}

func TestNaNStaysNaN(t *testing.T) {
	for _, b := range []uint32{0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff} {
		x := []float32{math.Float32frombits(b)}
		var bf [1]bfloat16.BFloat16
		var h [1]float16.Float16
		ToBFloat16(bf[:], x)
		ToFloat16(h[:], x)
		if bf[0]&0x7fff <= 0x7f80 || h[0]&0x7fff <= 0x7c00 {
			t.Errorf("NaN %#x became bfloat16 %#x, float16 %#x", b, bf[0], h[0])
		}
	}
}

// TestViews checks which reads share memory with the mapping.
func TestViews(t *testing.T) {
	c, err := Open(folderWith(t, "testdata/dtypes.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first := func(flat any) unsafe.Pointer {
		switch s := flat.(type) {
		case []float32:
			return unsafe.Pointer(&s[0])
		case []bfloat16.BFloat16:
			return unsafe.Pointer(&s[0])
		case []float16.Float16:
			return unsafe.Pointer(&s[0])
		}
		t.Fatalf("unexpected %T", flat)
		return nil
	}
	native := map[string]dtypes.DType{"f32": dtypes.Float32, "bf16": dtypes.BFloat16, "f16": dtypes.Float16}
	for name := range native {
		for _, dtype := range native {
			flat, err := c.Read(name, dtype)
			if err != nil {
				t.Fatal(err)
			}
			shared := first(flat) == unsafe.Pointer(unsafe.SliceData(c.tensors[name].data))
			if shared != (dtype == native[name]) {
				t.Errorf("%s as %s: shared memory is %v", name, dtype, shared)
			}
			before := rawBits(flat)
			c.Release(name)
			for i, b := range rawBits(flat) {
				if b != before[i] {
					t.Fatalf("%s as %s changed after Release", name, dtype)
				}
			}
		}
	}
	// A copy that starts at an odd address cannot be a view, but reads the same.
	x := c.tensors["f32"]
	moved := append([]byte{0}, x.data...)[1:]
	odd := *x
	odd.data, odd.release = moved, nil
	if uintptr(unsafe.Pointer(&moved[0]))%4 == 0 || odd.view(dtypes.Float32, 0, odd.elements()) != nil {
		t.Error("misaligned data was given as a view")
	}
}

func BenchmarkNarrow(b *testing.B) {
	src := make([]float32, 1<<16)
	uniform(src, 1, 0)
	b.Run("bfloat16", func(b *testing.B) {
		dst := make([]bfloat16.BFloat16, len(src))
		b.SetBytes(int64(4 * len(src)))
		for range b.N {
			ToBFloat16(dst, src)
		}
	})
	b.Run("float16", func(b *testing.B) {
		dst := make([]float16.Float16, len(src))
		b.SetBytes(int64(4 * len(src)))
		for range b.N {
			ToFloat16(dst, src)
		}
	})
}
