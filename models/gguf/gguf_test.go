package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// types.gguf comes from scripts/oracle/gguf_goldens.py: written and decoded by the Python gguf package.
const typesFile = "../testdata/types.gguf"

func TestDequantizeLikeGGML(t *testing.T) {
	f, err := Open(typesFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for typ := range codecs {
		t.Run(typ.String(), func(t *testing.T) {
			x, want := f.Tensor(typ.String()), f.Tensor(typ.String()+".expected")
			if x == nil || want == nil {
				t.Fatal("the golden file has no such tensor")
			}
			if x.Type != typ {
				t.Fatalf("type is %s", x.Type)
			}
			if !slices.Equal(x.Dims, []int{1, 512}) {
				t.Fatalf("dims are %v", x.Dims)
			}
			got := make([]float32, x.Elements())
			if err := Dequantize(typ, got, x.Data); err != nil {
				t.Fatal(err)
			}
			for i, g := range got {
				w := binary.LittleEndian.Uint32(want.Data[4*i:])
				if math.Float32bits(g) != w && !(g == 0 && w<<1 == 0) {
					t.Fatalf("element %d is %v, the gguf package has %v", i, g, math.Float32frombits(w))
				}
			}
		})
	}
}

func TestDequantizeRefusesWrongSizes(t *testing.T) {
	for _, c := range []struct {
		typ      Type
		dst, src int
	}{{Q4_0, 31, 18}, {Q4_0, 32, 17}, {Q4_0, 32, 19}, {Q6_K, 32, 210}, {Q2_K, 128, 84}, {24, 256, 256}, {99, 1, 1}} {
		if err := Dequantize(c.typ, make([]float32, c.dst), make([]byte, c.src)); err == nil {
			t.Errorf("%s: %d elements from %d bytes was accepted", c.typ, c.dst, c.src)
		}
	}
}

func TestMetadata(t *testing.T) {
	f, err := Open(typesFile, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for key, want := range map[string]int64{"v.u8": 250, "v.i8": -6, "v.u16": 65000, "v.i16": -30000,
		"v.u32": 4_000_000_000,
		"v.i32": -2_000_000_000, "v.i64": -1 << 62} {
		if got, ok := f.Int(key); !ok || got != want {
			t.Errorf("%s is %d, %v; want %d", key, got, ok, want)
		}
		if got, ok := f.Float(key); !ok || got != float64(want) {
			t.Errorf("%s as float is %v, %v", key, got, ok)
		}
	}
	if x, ok := f.Float("v.f32"); !ok || x != float64(float32(0.1)) {
		t.Errorf("v.f32 is %v, %v", x, ok)
	}
	if x, ok := f.Float("v.f64"); !ok || x != 0.1 {
		t.Errorf("v.f64 is %v, %v", x, ok)
	}
	if b, ok := f.Bool("v.bool"); !ok || !b {
		t.Errorf("v.bool is %v, %v", b, ok)
	}
	if s, ok := f.String("v.string"); !ok || s != "naïve ☕" {
		t.Errorf("v.string is %q, %v", s, ok)
	}
	if l, ok := f.Strings("v.strings"); !ok || !slices.Equal(l, []string{"a", "", "ß"}) {
		t.Errorf("v.strings is %q, %v", l, ok)
	}
	if l, ok := f.Ints("v.ints"); !ok || !slices.Equal(l, []int64{1, -2, 3}) {
		t.Errorf("v.ints is %v, %v", l, ok)
	}
	if l, ok := f.Floats("v.floats"); !ok || !slices.Equal(l, []float64{0.5, -1.5}) {
		t.Errorf("v.floats is %v, %v", l, ok)
	}
	// Wrong types are refused, not converted.
	if _, ok := f.Int("v.u64"); ok {
		t.Error("2^63 was taken for an int64")
	}
	if _, ok := f.Int("v.string"); ok {
		t.Error("a string was taken for an integer")
	}
	if _, ok := f.Strings("v.ints"); ok {
		t.Error("integers were taken for strings")
	}
	if _, ok := f.String("v.strings"); ok {
		t.Error("an array was taken for a string")
	}
	if _, ok := f.Int("absent"); ok {
		t.Error("an absent key was found")
	}
}

// writer makes GGUF bytes for the tests of damaged files.
type writer struct{ bytes.Buffer }

func (w *writer) u32(x uint32) { w.Write(binary.LittleEndian.AppendUint32(nil, x)) }
func (w *writer) u64(x uint64) { w.Write(binary.LittleEndian.AppendUint64(nil, x)) }
func (w *writer) str(s string) { w.u64(uint64(len(s))); w.WriteString(s) }
func (w *writer) head(version uint32, tensors, values uint64) {
	w.WriteString(magic)
	w.u32(version)
	w.u64(tensors)
	w.u64(values)
}
func (w *writer) value(key string, typ valueType, x uint32) { w.str(key); w.u32(uint32(typ)); w.u32(x) }
func (w *writer) tensor(name string, typ Type, offset uint64, dims ...uint64) {
	w.str(name)
	w.u32(uint32(len(dims)))
	for _, d := range dims {
		w.u64(d)
	}
	w.u32(uint32(typ))
	w.u64(offset)
}
func (w *writer) data(n int) { w.Write(make([]byte, (32-w.Len()%32)%32+n)) }

func build(f func(w *writer)) []byte {
	w := &writer{}
	f(w)
	return w.Bytes()
}

// badFiles maps a damaged file to words of the error it must give.
var badFiles = map[string]struct {
	data []byte
	want string
}{
	"empty":             {nil, "not a GGUF file"},
	"other file":        {[]byte("PK\x03\x04 something else"), "not a GGUF file"},
	"only magic":        {[]byte(magic), "truncated"},
	"version 1":         {build(func(w *writer) { w.head(1, 0, 0) }), "version 1 is not supported"},
	"big-endian":        {build(func(w *writer) { w.head(3<<24, 0, 0) }), "big-endian"},
	"counts huge":       {build(func(w *writer) { w.head(3, 1<<60, 1<<60) }), "more than 65536 are not read"},
	"value count lies":  {build(func(w *writer) { w.head(3, 5, 5) }), "metadata entry 0"},
	"tensor count lies": {build(func(w *writer) { w.head(3, 5, 0) }), "tensor entry 0"},
	"string length lies": {build(func(w *writer) { w.head(3, 0, 1); w.str("k"); w.u32(8); w.u64(1 << 63) }),
		`metadata key "k"`},
	"array count lies": {build(func(w *writer) { w.head(3, 0, 1); w.str("k"); w.u32(9); w.u32(11); w.u64(1 << 61) }),
		`metadata key "k"`},
	"string array count lies": {build(func(w *writer) {
		w.head(3, 0, 1)
		w.str("k")
		w.u32(9)
		w.u32(8)
		w.u64(1 << 61)
		w.str("x")
	}),
		`metadata key "k"`},
	"nested array": {build(func(w *writer) {
		w.head(3, 0, 1)
		w.str("k")
		w.u32(9)
		w.u32(9)
		w.u64(1)
		w.u32(4)
		w.u64(0)
	}), "type 9"},
	"unknown value": {build(func(w *writer) { w.head(3, 0, 1); w.value("k", 13, 0) }), `"k" has a value of type 13`},
	"key twice": {build(func(w *writer) { w.head(3, 0, 2); w.value("k", 4, 1); w.value("k", 4, 2) }),
		`"k" appears twice`},
	"alignment 0":  {build(func(w *writer) { w.head(3, 0, 1); w.value("general.alignment", 4, 0) }), "power of two"},
	"alignment 48": {build(func(w *writer) { w.head(3, 0, 1); w.value("general.alignment", 4, 48) }), "power of two"},
	"no dims":      {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0) }), `"t" has 0 dimensions`},
	"five dims": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0, 1, 1, 1, 1, 1) }),
		`"t" has 5 dimensions`},
	"zero dim": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0, 4, 0) }), "dimension of 0"},
	"elements overflow": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0, 1<<32, 1<<32) }),
		`tensor "t" has dimensions`},
	"bytes overflow": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0, 1<<62) }), `tensor "t"`},
	"offset overflow": {build(func(w *writer) {
		w.head(3, 1, 0)
		w.tensor("t", F32, math.MaxUint64-31, 64)
		w.data(256)
	}), "beyond the end"},
	"offset misaligned": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 4, 8); w.data(64) }),
		"alignment"},
	"data missing": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", F32, 0, 8); w.data(31) }),
		`"t" needs 32 bytes`},
	"unsupported type": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", 35, 0, 256); w.data(66) }),
		`"t" has type TQ2_0, which is not supported`},
	"unknown type": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", 77, 0, 256); w.data(66) }),
		"type number 77"},
	"row not blocks": {build(func(w *writer) { w.head(3, 1, 0); w.tensor("t", Q4_0, 0, 16, 2); w.data(18) }),
		"rows of 16 elements"},
	"tensor twice": {build(func(w *writer) {
		w.head(3, 2, 0)
		w.tensor("t", F32, 0, 8)
		w.tensor("t", F32, 32, 8)
		w.data(64)
	}),
		`"t" appears twice`},
}

func TestBadFiles(t *testing.T) {
	for name, c := range badFiles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.gguf")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, nil)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error should name the file and say %q: %v", c.want, err)
			}
		})
	}
}

// TestTruncatedAnywhere cuts a real file at every place of its header and at some of its data.
func TestTruncatedAnywhere(t *testing.T) {
	whole, err := os.ReadFile(typesFile)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Parse("whole", whole)
	if err != nil {
		t.Fatal(err)
	}
	for n := 0; n < len(whole); {
		if _, err := Parse("cut", whole[:n]); err == nil {
			t.Fatalf("the first %d of %d bytes were accepted", n, len(whole))
		}
		if n < len(f.Header()) {
			n++
		} else {
			n += 997
		}
	}
}

func FuzzParse(f *testing.F) {
	if whole, err := os.ReadFile(typesFile); err == nil {
		f.Add(whole)
	}
	for _, c := range badFiles {
		f.Add(c.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		for _, key := range file.Keys() {
			file.Int(key)
			file.Float(key)
			file.Bool(key)
			file.String(key)
			file.Strings(key)
			file.Ints(key)
			file.Floats(key)
		}
		for _, x := range file.Tensors() {
			if n := x.Elements(); n <= 1<<20 {
				if err := Dequantize(x.Type, make([]float32, n), x.Data); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
