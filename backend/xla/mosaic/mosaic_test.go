package mosaic_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"pgregory.net/rapid"

	"github.com/quire/quire/backend/xla/mosaic"
)

var llama = mosaic.Config{Heads: 32, KVHeads: 8, HeadDim: 128, PageSize: 16, DType: "bfloat16", KVDType: "bfloat16",
	Scale: 0.08838834764831845}

func request(c mosaic.Config, s mosaic.Sizes) mosaic.Request {
	return mosaic.Request{Kernel: mosaic.RaggedPagedAttention, Config: c, Sizes: s}
}

// update is a request for the kernel that also stores.
func update(c mosaic.Config, s mosaic.Sizes) mosaic.Request {
	return mosaic.Request{Kernel: mosaic.PagedAttentionUpdate, Config: c, Sizes: s}
}

func open(t testing.TB, dir string) *mosaic.Store {
	t.Helper()
	s, err := mosaic.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// body returns what a call's configuration holds, decoded.
func body(t testing.TB, c *mosaic.Call) []byte {
	t.Helper()
	var config struct {
		Call struct {
			Body   string
			Format int  `json:"serialization_format"`
			Layout bool `json:"needs_layout_passes"`
		} `json:"custom_call_config"`
	}
	if err := json.Unmarshal([]byte(c.BackendConfig), &config); err != nil {
		t.Fatal(err)
	}
	raw, err := base64.StdEncoding.DecodeString(config.Call.Body)
	if err != nil || config.Call.Format != 1 || !config.Call.Layout {
		t.Fatalf("the configuration is not as libtpu wants it: %.200s (%v)", c.BackendConfig, err)
	}
	return raw
}

// Embedded payloads have what the common models need; Parse has held each to the digests of bodies that were lowered
// for certain sizes.
func TestEmbedded(t *testing.T) {
	s := open(t, "")
	for _, heads := range [][2]int{{32, 8}, {64, 8}, {40, 8}, {24, 8}, {16, 8}, {16, 4}, {8, 2}, {4, 1}, {32, 4},
		{16, 2}, {8, 1}, {20, 4}, {10, 2}, {5, 1}, {8, 4},
		{12, 4}, {6, 2}, {3, 1}, {28, 4}, {14, 2}, {7, 1}, {12, 2}, {6, 1}, {32, 32}, {40, 40}} {
		for _, page := range []int{16, 32, 64, 128} {
			c := llama
			c.Heads, c.KVHeads, c.PageSize = heads[0], heads[1], page
			r := request(c, mosaic.Sizes{Pages: 1000, Seqs: 64, PagesPerSeq: 128, Tokens: 64})
			if page >= 64 {
				r.Kernel = mosaic.PagedAttentionUpdate
			}
			r.OneTokenPerSeq = true
			decode, err := s.Find(r)
			if err != nil {
				t.Errorf("%v: %v", c, err)
				continue
			}
			r.OneTokenPerSeq = false
			prefill, err := s.Find(r)
			if err != nil || decode.Payload.Blocks.Queries >= prefill.Payload.Blocks.Queries {
				t.Errorf("%v: decode and prefill have blocks of %v and %v queries (%v)", c, decode.Payload.Blocks,
					prefill.Payload.Blocks, err)
			}
			if page >= 64 && (decode.Payload.Form != mosaic.FormDecode || prefill.Payload.Form != mosaic.FormMixed) {
				t.Errorf("%v: decode and prefill have forms %q and %q", c, decode.Payload.Form, prefill.Payload.Form)
			}
		}
	}
}

// The kernel for a head dim of 64 gives its cache back in the memory that it got, and takes the page table in one axis.
func TestEmbeddedForHeadDim64(t *testing.T) {
	s := open(t, "")
	for _, heads := range [][2]int{{32, 8}, {16, 4}, {8, 2}, {4, 1}, {32, 32}, {32, 4}, {9, 3}, {15, 5}, {14, 2}} {
		for _, page := range []int{16, 32, 64, 128} {
			c := mosaic.Config{Heads: heads[0], KVHeads: heads[1], HeadDim: 64, PageSize: page, DType: "bfloat16",
				KVDType: "bfloat16", Scale: 0.125}
			call, err := s.Find(mosaic.Request{Kernel: mosaic.PagedAttentionUpdate, Config: c,
				Sizes: mosaic.Sizes{Pages: 70000, Seqs: 96, PagesPerSeq: 512, Tokens: 128}})
			if err != nil {
				t.Errorf("%v: %v", c, err)
				continue
			}
			cache := shapes.Make(dtypes.BFloat16, 70000, page, (heads[1]+1)/2, 2, 128)
			if !call.Operands[10].Shape.Equal(cache) || !call.Results[1].Shape.Equal(cache) ||
				!call.Operands[2].Shape.Equal(shapes.Make(dtypes.Int32, 96*512)) {
				t.Errorf("%v: operands are %v, results %v", c, call.Operands, call.Results)
			}
			if len(call.Payload.Aliases) != 2 || call.Payload.Aliases[1] != [2]int{10, 1} {
				t.Errorf("%v: aliases are %v", c, call.Payload.Aliases)
			}
			if _, err := call.Payload.Call(mosaic.Sizes{Pages: 100, Seqs: 9000, PagesPerSeq: 20,
				Tokens: 16}); err == nil || !strings.Contains(err.Error(), "too large") {
				t.Errorf("9,000 sequences give %v", err)
			}
		}
	}
}

// gpt-oss has sinks in all layers and a window in every second one. Its kernel takes the sinks of each KV head behind
// the cache, and is another than that of a model without sinks.
func TestEmbeddedWithSinks(t *testing.T) {
	s := open(t, "")
	for _, heads := range [][2]int{{64, 8}, {32, 4}, {16, 2}, {8, 1}, {4, 1}, {2, 1}} {
		for _, window := range []int{0, 128} {
			for _, page := range []int{16, 32, 64, 128} {
				c := mosaic.Config{Heads: heads[0], KVHeads: heads[1], HeadDim: 64, PageSize: page, DType: "bfloat16",
					KVDType: "bfloat16", Scale: 0.125, Window: window, Sinks: true}
				call, err := s.Find(mosaic.Request{Kernel: mosaic.PagedAttentionUpdate, Config: c,
					Sizes: mosaic.Sizes{Pages: 7000, Seqs: 96, PagesPerSeq: 512, Tokens: 128}})
				if err != nil {
					t.Errorf("%v: %v", c, err)
					continue
				}
				want := shapes.Make(dtypes.Float32, heads[1], heads[0]/heads[1], 128)
				if len(call.Operands) != 12 || !call.Operands[11].Shape.Equal(want) {
					t.Errorf("%v: operands are %v, want %v at last", c, call.Operands, want)
				}
			}
		}
	}
	c := mosaic.Config{Heads: 32, KVHeads: 8, HeadDim: 64, PageSize: 16, DType: "bfloat16", KVDType: "bfloat16",
		Scale: 0.125, Sinks: true}
	_, err := s.Find(mosaic.Request{Kernel: mosaic.PagedAttentionUpdate, Config: c,
		Sizes: mosaic.Sizes{Pages: 100, Seqs: 16, PagesPerSeq: 32, Tokens: 16}})
	var none *mosaic.NoKernelError
	if !errors.As(err, &none) || !strings.HasSuffix(strings.Split(none.Remedy, "`")[1], " --sinks") {
		t.Errorf("a kernel without sinks serves a model with them: %v", err)
	}
}

// Layers with windows, soft caps and heads of 256 have the kernel that stores for both default page sizes, whole and on
// 16 devices.
func TestEmbeddedWithWindows(t *testing.T) {
	s := open(t, "")
	for name, c := range map[string]struct {
		heads   [][2]int
		headDim int
		windows []int
		scale   float64
		softCap float64
	}{
		"Gemma 2 9B":      {[][2]int{{16, 8}, {1, 1}}, 256, []int{0, 4096}, 1. / 16, 50},
		"Gemma 2 27B":     {[][2]int{{32, 16}, {2, 1}}, 128, []int{0, 4096}, 1. / 12, 50},
		"Gemma 3 1B":      {[][2]int{{4, 1}, {1, 1}}, 256, []int{0, 512}, 1. / 16, 0},
		"Gemma 3 4B":      {[][2]int{{8, 4}, {1, 1}}, 256, []int{0, 1024}, 1. / 16, 0},
		"Gemma 3 27B":     {[][2]int{{32, 16}, {2, 1}}, 128, []int{0, 1024}, math.Pow(168, -0.5), 0},
		"Mistral 7B v0.1": {[][2]int{{32, 8}, {2, 1}}, 128, []int{4096}, llama.Scale, 0},
		"Ministral 8B":    {[][2]int{{32, 8}, {2, 1}}, 128, []int{0, 32768}, llama.Scale, 0},
	} {
		for _, heads := range c.heads {
			for _, window := range c.windows {
				for _, page := range []int{64, 128} {
					r := update(mosaic.Config{Heads: heads[0], KVHeads: heads[1], HeadDim: c.headDim, PageSize: page,
						DType: "bfloat16", KVDType: "bfloat16", Scale: c.scale, Window: window, SoftCap: c.softCap},
						mosaic.Sizes{Pages: 1000, Seqs: 64, PagesPerSeq: 128, Tokens: 64})
					for oneToken, form := range map[bool]string{true: mosaic.FormDecode, false: mosaic.FormMixed} {
						r.OneTokenPerSeq = oneToken
						if call, err := s.Find(r); err != nil || call.Payload.Form != form {
							t.Errorf("%s: %v", name, err)
						}
					}
				}
			}
		}
	}
}

func TestCall(t *testing.T) {
	call, err := open(t, "").Find(request(llama, mosaic.Sizes{Pages: 5000, Seqs: 48, PagesPerSeq: 100, Tokens: 200}))
	if err != nil {
		t.Fatal(err)
	}
	i32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	bf16 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.BFloat16, dims...) }
	want := []mosaic.Tensor{
		{Name: "kv_lens", Shape: i32(48)}, {Name: "page_indices", Shape: i32(48, 100)},
		{Name: "cu_q_lens", Shape: i32(49)}, {Name: "zero", Shape: i32(2)},
		{Name: "num_seqs", Shape: i32(1)}, {Name: "q", Shape: bf16(200, 32, 128)},
		{Name: "kv_pages", Shape: bf16(5000, 16, 16, 128)},
	}
	if len(call.Operands) != len(want) || len(call.Results) != 1 || !call.Results[0].Shape.Equal(bf16(200, 32, 128)) {
		t.Fatalf("operands %v, results %v", call.Operands, call.Results)
	}
	for i, w := range want {
		if got := call.Operands[i]; got.Name != w.Name || !got.Shape.Equal(w.Shape) {
			t.Errorf("operand %d is %s %s, want %s %s", i, got.Name, got.Shape, w.Name, w.Shape)
		}
	}
	if raw := body(t, call); !bytes.HasPrefix(raw, []byte("ML\xefR")) {
		t.Errorf("the body does not begin like MLIR bytecode: %q", raw[:8])
	}
	few, err := open(t, "").Find(request(llama, mosaic.Sizes{Pages: 5000, Seqs: 48, PagesPerSeq: 3, Tokens: 200}))
	if err != nil || !few.Operands[1].Shape.Equal(i32(48, few.Payload.Blocks.Pages)) {
		t.Errorf("a page table of 3 columns is not widened to a block: %v (%v)", few, err)
	}
}

// The kernel that stores takes a table of one axis, and gives queries and cache back in their memory.
func TestCallThatStores(t *testing.T) {
	c := llama
	c.PageSize = 64
	sizes := mosaic.Sizes{Pages: 5000, Seqs: 48, PagesPerSeq: 100, Tokens: 200}
	call, err := open(t, "").Find(update(c, sizes))
	if err != nil {
		t.Fatal(err)
	}
	i32 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	bf16 := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.BFloat16, dims...) }
	q, cache := bf16(8, 200, 2, 2, 128), bf16(5000, 64, 8, 2, 128)
	want := []mosaic.Tensor{
		{Name: "kv_lens", Shape: i32(48)}, {Name: "page_indices", Shape: i32(4800)},
		{Name: "cu_q_lens", Shape: i32(49)}, {Name: "distribution", Shape: i32(3)}, {Name: "zeros", Shape: i32(3)},
		{Name: "minus_ones", Shape: i32(4)}, {Name: "minus_ones", Shape: i32(6)}, {Name: "q", Shape: q},
		{Name: "kv", Shape: bf16(200, 8, 2, 128)}, {Name: "cache", Shape: cache},
	}
	if fmt.Sprint(call.Operands) != fmt.Sprint(want) || len(call.Results) != 2 || !call.Results[0].Shape.Equal(q) ||
		!call.Results[1].Shape.Equal(cache) || fmt.Sprint(call.Payload.Aliases) != "[[7 0] [9 1]]" {
		t.Errorf("operands %v, results %v, aliases %v", call.Operands, call.Results, call.Payload.Aliases)
	}
	c.Window = 77
	var none *mosaic.NoKernelError
	if _, err := open(t, "").Find(update(c, sizes)); !errors.As(err, &none) || !none.Unknown {
		t.Errorf("a window of 77 gives %v", err)
	}
}

// Bodies for different sizes differ only where the sizes stand, and in nothing else than them.
func TestSizesAreAllThatDiffers(t *testing.T) {
	s := open(t, "")
	rapid.Check(t, func(rt *rapid.T) {
		size := func(name string) int { return rapid.IntRange(1, 2000).Draw(rt, name) }
		a := mosaic.Sizes{Pages: size("pages"), Seqs: size("seqs") % 250, PagesPerSeq: size("pages a sequence") % 900,
			Tokens: size("tokens")}
		a.Seqs, a.PagesPerSeq = a.Seqs+1, a.PagesPerSeq+16
		call, err := s.Find(request(llama, a))
		if err != nil {
			rt.Fatal(err)
		}
		again, _ := s.Find(request(llama, a))
		b := a
		b.Pages++
		other, err := s.Find(request(llama, b))
		if err != nil {
			rt.Fatal(err)
		}
		x, y := body(t, call), body(t, other)
		if !bytes.Equal(x, body(t, again)) || len(x) != len(y) {
			rt.Fatal("the body is not a function of the sizes, or its length depends on them")
		}
		differ := 0
		for i := range x {
			if x[i] != y[i] {
				differ++
			}
		}
		if differ == 0 || differ > 3 {
			rt.Fatalf("one page more changes %d bytes", differ)
		}
	})
}

func TestRefusals(t *testing.T) {
	s := open(t, "")
	ok := mosaic.Sizes{Pages: 100, Seqs: 16, PagesPerSeq: 32, Tokens: 16}
	for _, c := range []struct {
		name  string
		edit  func(*mosaic.Request)
		wants string
	}{
		{"heads", func(r *mosaic.Request) { r.Config.Heads = 33 },
			"sample kernels capture --heads 33 --kv-heads 8 --head-dim 128 --page-size 16"},
		{"KV heads", func(r *mosaic.Request) { r.Config.KVHeads = 16 }, "no payload was captured"},
		{"head_dim", func(r *mosaic.Request) { r.Config.HeadDim = 64 }, "head_dim 64"},
		{"page size", func(r *mosaic.Request) { r.Config.PageSize = 8 }, "--page-size 8"},
		{"dtype", func(r *mosaic.Request) { r.Config.DType = "float32" }, "--dtype float32 --kv-dtype bfloat16"},
		{"cache dtype", func(r *mosaic.Request) { r.Config.KVDType = "float16" }, "--kv-dtype float16"},
		{"scale", func(r *mosaic.Request) { r.Config.Scale = 0.0884 }, "--scale 0.0884"},
		{"window", func(r *mosaic.Request) { r.Config.Window = 5000 }, "--window 5000"},
		{"soft cap", func(r *mosaic.Request) { r.Config.SoftCap = 50 }, "--soft-cap 50"},
		{"kernel", func(r *mosaic.Request) { r.Kernel = "matmul" }, "no kernel matmul"},
		{"SMEM", func(r *mosaic.Request) { r.Sizes.Seqs, r.Sizes.PagesPerSeq = 256, 1000 },
			"1027 KiB of 1024 KiB of SMEM"},
		{"pages", func(r *mosaic.Request) { r.Sizes.Pages = 1 << 20 }, "1048576 pages"},
		{"no tokens", func(r *mosaic.Request) { r.Sizes.Tokens = 0 }, "0 tokens"},
	} {
		r := request(llama, ok)
		c.edit(&r)
		call, err := s.Find(r)
		var none *mosaic.NoKernelError
		if !errors.As(err, &none) || call != nil || !strings.Contains(err.Error(), c.wants) || none.Remedy == "" {
			t.Errorf("%s: got %v, want %q", c.name, err, c.wants)
		}
	}
	r := request(llama, ok)
	r.Config.Scale = float64(float32(r.Config.Scale))
	if _, err := s.Find(r); err != nil {
		t.Errorf("the scale as float32 is refused: %v", err)
	}
}

// payload makes a file of one payload with a body of its own.
func payload(edit func(header map[string]any)) []byte {
	raw := []byte("ML\xefR....\x04\x00\x00.\x00\x00\x00\x00\x00\x00\x00\x00....")
	sum := sha256.Sum256(raw)
	header := map[string]any{
		"format": 1, "kernel": mosaic.RaggedPagedAttention, "source": "test", "versions": map[string]string{"jax": "0"},
		"config": map[string]any{"heads": 3, "kv_heads": 1, "head_dim": 128, "page_size": 16, "dtype": "float32",
			"kv_dtype": "float32", "scale": 1},
		"blocks": map[string]any{"queries": 8, "pages": 2}, "largest": 1 << 19,
		"operands": []any{map[string]any{"name": "x", "dtype": "int32", "dims": []any{"S+1", "PP", 4}}},
		"results":  []any{map[string]any{"name": "o", "dtype": "float32", "dims": []any{"T", "P"}}},
		"backend_config": map[string]any{"custom_call_config": map[string]any{"serialization_format": 1,
			"needs_layout_passes": true}},
		"patches": []any{map[string]any{"at": 8, "encoding": "varint", "symbol": "P", "plus": 0},
			map[string]any{"at": 12, "encoding": "int64", "symbol": "Q", "plus": 0}},
		"checks": []any{}, "body_bytes": len(raw), "body_sha256": hex.EncodeToString(sum[:]),
	}
	if edit != nil {
		edit(header)
	}
	line, err := json.Marshal(header)
	if err != nil {
		panic(err)
	}
	return append(append(line, '\n'), raw...)
}

func TestUserFolder(t *testing.T) {
	dir := t.TempDir()
	two := append(payload(nil), payload(func(h map[string]any) { h["config"].(map[string]any)["page_size"] = 32 })...)
	for name, data := range map[string][]byte{"a" + mosaic.Suffix: two, "b.part": []byte("half"), "README": nil} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	s := open(t, dir)
	c := mosaic.Config{Heads: 3, KVHeads: 1, HeadDim: 128, PageSize: 32, DType: "float32", KVDType: "float32", Scale: 1}
	call, err := s.Find(request(c, mosaic.Sizes{Pages: 5, Seqs: 6, PagesPerSeq: 7, Tokens: 17}))
	if err != nil {
		t.Fatal(err)
	}
	raw := body(t, call)
	// 5 zigzag is 10, in three bytes 10<<3|4; 17 tokens are 3 blocks of 8.
	if !bytes.Equal(raw[8:11], []byte{84, 0, 0}) || !bytes.Equal(raw[12:20], []byte{3, 0, 0, 0, 0, 0, 0, 0}) {
		t.Errorf("the body is % x", raw)
	}
	if got := fmt.Sprint(call.Operands[0].Shape.Dimensions, call.Results[0].Shape.Dimensions); got != "[7 7 4] [17 5]" {
		t.Errorf("the shapes are %s", got)
	}
	if s.Entries()[0].File == "" || s.Entries()[2].File != "" {
		t.Error("the folder's payloads do not come first")
	}
	if _, err := mosaic.Open(filepath.Join(dir, "missing")); err != nil {
		t.Errorf("a folder that is not there: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "c"+mosaic.Suffix), two[:len(two)-1], 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := mosaic.Open(dir); !errors.Is(err, mosaic.ErrFormat) ||
		!strings.Contains(err.Error(), "c"+mosaic.Suffix) {
		t.Errorf("a damaged file gives %v", err)
	}
}

// A body for sequences of one query serves no other steps, one for any sequences serves both.
func TestForms(t *testing.T) {
	with := func(form string, queries int) []byte {
		return payload(func(h map[string]any) {
			h["form"], h["blocks"] = form, map[string]any{"queries": queries, "pages": 2}
		})
	}
	decode, mixed := with(mosaic.FormDecode, 1), with(mosaic.FormMixed, 8)
	for _, c := range []struct {
		payloads         []byte
		oneToken, others string
	}{
		{decode, mosaic.FormDecode, "none"},
		{mixed, mosaic.FormMixed, mosaic.FormMixed},
		{append(slices.Clone(mixed), decode...), mosaic.FormDecode, mosaic.FormMixed},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "a"+mosaic.Suffix), c.payloads, 0o666); err != nil {
			t.Fatal(err)
		}
		for oneToken, want := range map[bool]string{true: c.oneToken, false: c.others} {
			r := request(mosaic.Config{Heads: 3, KVHeads: 1, HeadDim: 128, PageSize: 16, DType: "float32",
				KVDType: "float32", Scale: 1}, mosaic.Sizes{Pages: 5, Seqs: 6, PagesPerSeq: 7, Tokens: 17})
			r.OneTokenPerSeq = oneToken
			got := "none"
			if call, err := open(t, dir).Find(r); err == nil {
				got = call.Payload.Form
			}
			if got != want {
				t.Errorf("one token a sequence, %t: form %s, want %s", oneToken, got, want)
			}
		}
	}
}

func TestDamagedPayloads(t *testing.T) {
	set := func(key string, value any) func(map[string]any) { return func(h map[string]any) { h[key] = value } }
	patch := func(at int, encoding, symbol string) any {
		return []any{map[string]any{"at": at, "encoding": encoding, "symbol": symbol}}
	}
	for name, data := range map[string][]byte{
		"empty line": []byte("\n"),
		"not JSON":   []byte("hello\n"),
		"no newline": []byte("{}"),
		"format":     payload(set("format", 2)),
		"body bytes": payload(set("body_bytes", 1<<40)),
		"digest":     payload(set("body_sha256", "00")),
		"operand": payload(set("operands",
			[]any{map[string]any{"name": "x", "dtype": "int32", "dims": []any{"X"}}})),
		"dtype": payload(set("results",
			[]any{map[string]any{"name": "x", "dtype": "complex", "dims": []any{1}}})),
		"size":       payload(set("results", []any{map[string]any{"name": "x", "dtype": "int32", "dims": []any{-1}}})),
		"outside":    payload(set("patches", patch(1<<20, "varint", "P"))),
		"negative":   payload(set("patches", patch(-1, "varint", "P"))),
		"no integer": payload(set("patches", patch(9, "varint", "P"))),
		"encoding":   payload(set("patches", patch(8, "utf8", "P"))),
		"check": payload(set("checks",
			[]any{map[string]any{"sizes": map[string]int{"P": 1, "Q": 1}, "sha256": "00"}})),
		"config":      payload(set("backend_config", map[string]any{})),
		"blocks":      payload(set("blocks", map[string]any{})),
		"second":      append(payload(nil), '{'),
		"no operands": payload(set("operands", []any{})),
		"form":        payload(set("form", "prefill")),
	} {
		if all, err := mosaic.Parse(data); !errors.Is(err, mosaic.ErrFormat) {
			t.Errorf("%s: got %d payloads and %v", name, len(all), err)
		}
	}
	if all, err := mosaic.Parse(payload(nil)); err != nil || len(all) != 1 {
		t.Errorf("the payload that the others are made of is refused: %v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(payload(nil))
	f.Add(append(payload(nil), payload(nil)...))
	f.Add([]byte("{\"format\":1}\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		all, err := mosaic.Parse(data)
		if err != nil {
			if !errors.Is(err, mosaic.ErrFormat) {
				t.Fatalf("%v does not wrap ErrFormat", err)
			}
			return
		}
		for _, p := range all {
			call, err := p.Call(mosaic.Sizes{Pages: 9, Seqs: 8, PagesPerSeq: 7, Tokens: 6})
			if err == nil && (len(call.Operands) == 0 || len(call.Results) == 0 ||
				!json.Valid([]byte(call.BackendConfig))) {
				t.Fatalf("%+v", call)
			}
		}
	})
}
