package attention_test

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
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

// pallasCase is what JAX's TPU kernel, interpreted, computed for one batch; scripts/kernels/goldens.py writes it.
type pallasCase struct {
	Name     string
	Heads    int
	KVHeads  int     `json:"kv_heads"`
	HeadDim  int     `json:"head_dim"`
	PageSize int     `json:"page_size"`
	Pages    int     `json:"pages"`
	PerSeq   int     `json:"per_seq"`
	Slots    int     `json:"slots"`
	Tokens   int     `json:"tokens"`
	DType    string  `json:"dtype"`
	Scale    float64 `json:"scale"`
	Window   int     `json:"window"`
	SoftCap  float64 `json:"soft_cap"`
	Seqs     [][2]int
	Table    [][]int32 `json:"page_table"`
	Want     string
}

// pallasValues are the inputs, numbers that bfloat16 holds exactly.
func pallasValues(n int, seed uint32) []float32 {
	out := make([]float32, n)
	for i := range out {
		x := uint32(i)*2654435761 + seed*40503 + 12345
		x ^= x >> 16
		x *= 2246822519
		x ^= x >> 13
		x *= 3266489917
		out[i] = float32(x>>24)/128 - 1
	}
	return out
}

// The plain form, and the kernels of XLA:CPU, give what the kernel gives that runs on a TPU.
func TestGoldensOfTPUKernel(t *testing.T) {
	var golden struct {
		Keep  int
		Cases []pallasCase
	}
	testenv.ReadGolden(t, "ragged_paged_attention", &golden)
	for _, c := range golden.Cases {
		decode := !slices.ContainsFunc(c.Seqs, func(s [2]int) bool { return s[1] != 1 }) && len(c.Seqs) <= c.Slots
		for _, backend := range []compute.Backend{testenv.XLA(t), testenv.Go(t)} {
			for _, oneToken := range []bool{false, true}[:map[bool]int{false: 1, true: 2}[decode]] {
				for _, flat := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s/%s/decode=%v/flat=%v", c.Name, backend.Name(), oneToken, flat),
						func(t *testing.T) {
							c.check(t, backend, golden.Keep, oneToken, flat)
						})
				}
			}
		}
	}
}

func (c pallasCase) check(t *testing.T, backend compute.Backend, keep int, oneToken, flat bool) {
	dtype, tolerance := dtypes.Float32, 3e-6
	if c.DType == "bfloat16" {
		dtype, tolerance = dtypes.BFloat16, 1.6e-2
	}
	if oneToken {
		c.Tokens = c.Slots
	}
	layout := attention.PagedLayout(c.Pages, c.PageSize, c.KVHeads, c.HeadDim, dtype)
	layout.Flat = flat
	opts := attention.Options{Scale: c.Scale, Window: c.Window, SoftCap: c.SoftCap, OneTokenPerSeq: oneToken}
	none := func(n int) []int32 { return slices.Repeat([]int32{-1}, n) }
	slots, lens, cu, pages := none(c.Slots), make([]int32, c.Slots), make([]int32, c.Slots+1), none(c.Slots*c.PerSeq)
	dests, seqs, positions := make([]int32, c.Tokens), none(c.Tokens), none(c.Tokens)
	at := 0
	for i, s := range c.Seqs {
		slots[i], lens[i] = int32(i), int32(s[0])
		copy(pages[i*c.PerSeq:], c.Table[i][:(s[0]+c.PageSize-1)/c.PageSize])
		for pos := s[0] - s[1]; pos < s[0]; pos++ {
			seqs[at], positions[at] = int32(i), int32(pos)
			at++
		}
		cu[i+1] = int32(at)
	}
	for i := len(c.Seqs); i <= c.Slots; i++ {
		cu[i] = int32(at)
	}
	q := pallasValues(48*c.Heads*c.HeadDim, 1)[:c.Tokens*c.Heads*c.HeadDim]
	for i := range q {
		q[i] *= 4
	}
	cache := pallasValues(c.Pages*c.PageSize*2*c.KVHeads*c.HeadDim, 2)
	out, err := ExecOnce(backend, func(in []*Node) *Node {
		info := tokenqueue.PageBatchInfo{SlotIDs: in[2], PageIndices: in[3], SeqLens: in[4], CuQLens: in[5],
			NumSeqs:       in[6],
			NewTokenDests: in[7], TokenSeqs: in[8], PosIDs: in[9], PageSize: c.PageSize}
		return ConvertDType(layout.RaggedPagedAttention(ConvertDType(in[0], dtype), ConvertDType(in[1], dtype), info,
			opts), dtypes.Float32)
	}, tensors.FromFlatDataAndDimensions(q, c.Tokens, c.Heads, c.HeadDim),
		tensors.FromFlatDataAndDimensions(cache, layout.Shape().Dimensions...),
		slots, tensors.FromFlatDataAndDimensions(pages, c.Slots, c.PerSeq), lens, cu, int32(len(c.Seqs)), dests, seqs,
		positions)
	if err != nil {
		t.Fatal(err)
	}
	got := tensors.MustCopyFlatData[float32](out)
	raw, err := base64.StdEncoding.DecodeString(c.Want)
	if err != nil {
		t.Fatal(err)
	}
	if want := at * c.Heads * c.HeadDim / keep * 4; len(raw) != want {
		t.Fatalf("the golden has %d bytes, want %d", len(raw), want)
	}
	for i := range len(raw) / 4 {
		want := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])))
		if d := math.Abs(float64(got[i*keep]) - want); !(d <= tolerance) {
			t.Fatalf("token %d of %d, number %d: got %g, want %g", i*keep/c.Heads/c.HeadDim, at,
				i*keep%(c.Heads*c.HeadDim), got[i*keep], want)
		}
	}
	for i := at * c.Heads * c.HeadDim; i < len(got); i++ {
		if got[i] != 0 {
			t.Fatalf("row %d is padding, but not 0", i/c.Heads/c.HeadDim)
		}
	}
}
