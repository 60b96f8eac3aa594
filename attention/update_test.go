package attention_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/quire/quire/attention"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/tokenqueue"
)

// updateCase is a case of the kernel that also stores what is new; Cache is the digest of its cache afterwards.
type updateCase struct {
	pallasCase
	Alone   bool
	Sinks   bool
	Cache   string
	KVDType string `json:"kv_dtype"`
}

// The plain form of Attend gives and stores what the kernels do that store, on a cache laid out for them and on others.
func TestGoldensOfTPUKernelThatUpdates(t *testing.T) {
	var golden struct {
		Keep  int
		Cases []updateCase
	}
	testenv.ReadGolden(t, "paged_attention_update", &golden)
	for i, c := range golden.Cases {
		for _, backend := range []compute.Backend{testenv.XLA(t), testenv.Go(t)} {
			kinds := []string{"packed", "flat", "heads"}
			if c.KVDType != "" { // others have scales
				kinds = kinds[:1]
			}
			for _, kind := range kinds {
				t.Run(fmt.Sprintf("%s/%s/%s", c.Name, backend.Name(), kind), func(t *testing.T) {
					// The fast tests have every second case, every fourth in all forms.
					if i%4 > 0 && (kind != "packed" || i%2 > 0) || backend.Name() != "xla" {
						testenv.Slow(t)
					}
					c.check(t, backend, golden.Keep, kind)
				})
			}
		}
	}
}

func (c updateCase) check(t *testing.T, backend compute.Backend, keep int, kind string) {
	dtype, tolerance := dtypes.Float32, 3e-6
	if c.DType == "bfloat16" {
		dtype, tolerance = dtypes.BFloat16, 1.6e-2
	}
	layout := attention.PagedLayout(c.Pages, c.PageSize, c.KVHeads, c.HeadDim, dtype)
	if c.KVDType != "" {
		layout.DType = dtypes.F8E4M3FN
	}
	switch kind {
	case "packed":
		layout.Packed = 4 / layout.Shape().DType.Size()
	case "flat":
		layout.Flat = true
	}
	none := func(n int) []int32 { return slices.Repeat([]int32{-1}, n) }
	slots, lens, cu, pages := none(c.Slots), make([]int32, c.Slots), make([]int32, c.Slots+1), none(c.Slots*c.PerSeq)
	dests, seqs, positions := none(c.Tokens), none(c.Tokens), none(c.Tokens)
	at := 0
	for i, s := range c.Seqs {
		slots[i], lens[i] = int32(i), int32(s[0])
		copy(pages[i*c.PerSeq:], c.Table[i][:(s[0]+c.PageSize-1)/c.PageSize])
		for pos := s[0] - s[1]; pos < s[0]; pos++ {
			seqs[at], positions[at] = int32(i), int32(pos)
			dests[at] = c.Table[i][pos/c.PageSize]*int32(c.PageSize) + int32(pos%c.PageSize)
			at++
		}
		cu[i+1] = int32(at)
	}
	for i := len(c.Seqs); i <= c.Slots; i++ {
		cu[i] = int32(at)
	}
	q := pallasValues(c.Tokens*c.Heads*c.HeadDim, 1)
	for i := range q {
		q[i] *= 4
	}
	width := 2 * c.HeadDim * c.KVHeads
	given := pallasValues(c.Pages*c.PageSize*width, 2)
	cache := make([]float32, layout.Shape().Size())
	token := len(cache) / (c.Pages * c.PageSize) // with the heads that only fill a register
	for i := range c.Pages * c.PageSize {
		copy(cache[i*token:], given[i*width:][:width])
	}
	old := tensors.FromFlatDataAndDimensions(cache, layout.Shape().Dimensions...)
	if layout.DType == dtypes.F8E4M3FN {
		bytes := make([]uint8, len(cache))
		for i, x := range cache {
			bytes[i] = e4m3(float64(x))
		}
		old = tensors.FromFlatDataAndDimensions(bytes, layout.Shape().Dimensions...)
	}
	kv := func(seed uint32) *tensors.Tensor {
		return tensors.FromFlatDataAndDimensions(pallasValues(c.Tokens*c.KVHeads*c.HeadDim, seed), c.Tokens, c.KVHeads,
			c.HeadDim)
	}
	opts := attention.Options{Scale: c.Scale, Window: c.Window, SoftCap: c.SoftCap, OneTokenPerSeq: c.Alone}
	sinks := pallasValues(c.Heads, 6)
	for i := range sinks {
		sinks[i] *= 4
	}
	exec, err := NewExec(backend, func(in []*Node) (*Node, *Node) {
		info := tokenqueue.PageBatchInfo{SlotIDs: in[4], PageIndices: in[5], SeqLens: in[6], CuQLens: in[7],
			NumSeqs:       in[8],
			NewTokenDests: in[9], TokenSeqs: in[10], PosIDs: in[11], PageSize: c.PageSize}
		for i := range 3 {
			in[i] = ConvertDType(in[i], dtype)
		}
		in[3] = ConvertDType(in[3], layout.Shape().DType)
		if c.Sinks {
			opts.Sinks = Const(in[0].Graph(), sinks)
		}
		out, updated := layout.Attend(in[0], in[1], in[2], in[3], info, opts)
		out = ConvertDType(out, dtypes.Float32)
		if layout.DType == dtypes.F8E4M3FN {
			return out, updated
		}
		return out, ConvertDType(updated, dtypes.Float32)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer exec.Finalize()
	results, err := exec.Exec(tensors.FromFlatDataAndDimensions(q, c.Tokens, c.Heads, c.HeadDim), kv(4), kv(5),
		old, slots, tensors.FromFlatDataAndDimensions(pages, c.Slots, c.PerSeq), lens, cu, int32(len(c.Seqs)), dests,
		seqs, positions)
	if err != nil {
		t.Fatal(err)
	}
	got := tensors.MustCopyFlatData[float32](results[0])
	raw, err := base64.StdEncoding.DecodeString(c.Want)
	if err != nil || len(raw) != at*c.Heads*c.HeadDim/keep*4 {
		t.Fatalf("the golden has %d bytes (%v)", len(raw), err)
	}
	for i := range len(raw) / 4 {
		want := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		if d := math.Abs(float64(got[i*keep]) - want); !(d <= tolerance) {
			t.Fatalf("token %d of %d: got %g, want %g", i*keep/c.Heads/c.HeadDim, at, got[i*keep], want)
		}
	}
	for i := at * c.Heads * c.HeadDim; i < len(got); i++ {
		if got[i] != 0 {
			t.Fatalf("row %d is padding, but not 0", i/c.Heads/c.HeadDim)
		}
	}
	var updated []float32
	if layout.DType == dtypes.F8E4M3FN {
		for _, b := range tensors.MustCopyFlatData[uint8](results[1]) {
			updated = append(updated, float32(fromE4M3(b)))
		}
	} else {
		updated = tensors.MustCopyFlatData[float32](results[1])
	}
	var stored bytes.Buffer
	for i, x := range updated {
		if i%token < width {
			_ = binary.Write(&stored, binary.LittleEndian, x)
		} else if x != 0 {
			t.Fatal("a head that only fills a register is not 0")
		}
	}
	if sum := sha256.Sum256(stored.Bytes()); hex.EncodeToString(sum[:]) != c.Cache {
		t.Error("the cache is another than the kernel's")
	}
}

// New caches take memory as it is written, page by page, whatever their size is: each has a part that fills no page of
// 2 MiB.
func TestNewCachesTakeNoMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the resident memory is read from /proc")
	}
	resident := func() int64 {
		text, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		var size, pages int64
		if _, err := fmt.Sscan(string(text), &size, &pages); err != nil {
			t.Fatal(err)
		}
		return pages * int64(os.Getpagesize())
	}
	const caches = 48
	l := attention.Layout{Paged: true, Pages: 240, PageSize: 16, KVHeads: 4, HeadDim: 64, DType: dtypes.Float32}
	exec, err := NewExec(testenv.XLA(t), func(in *Node) []*Node { return l.New(in.Graph(), caches) })
	if err != nil {
		t.Fatal(err)
	}
	var took int64
	for range 2 { // the first compiles
		before := resident()
		made, err := exec.Exec(int32(0))
		if err != nil {
			t.Fatal(err)
		}
		took = resident() - before
		for _, cache := range made {
			cache.FinalizeAll()
		}
	}
	if most := int64(caches) << 19; took > most {
		t.Errorf("%d caches of %d KiB take %d KiB before they are written, want at most %d", caches,
			l.Shape().Memory()>>10, took>>10, most>>10)
	}
}
