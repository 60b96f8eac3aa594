// Package triton keeps the kernels that a program for NVIDIA GPUs calls, as Triton's IR, from which XLA:GPU compiles
// them for the GPU at hand.
//
// scripts/kernels/gpu lowers them from Python, one for each shape of its blocks. Everything else that a kernel depends
// on, heads, pages, strides, scale, is an argument of it there, and a constant in its place in a [Call]: a program's
// sizes are fixed, and the compiler makes of them what it can.
package triton

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"sync"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/klauspost/compress/zstd"
)

// Target is the custom call that XLA:GPU compiles such kernels from.
const Target = "__gpu$xla.gpu.triton"

// RaggedPagedAttention is the composite that [Attention] stands for.
const RaggedPagedAttention = "ragged_paged_attention"

// Kernel is one for a shape of its blocks.
type Kernel struct {
	Name  string `json:"kernel"` // "attend" or "combine"
	Form  string `json:"form"`   // of attend: "decode", one token a block, or "prefill"
	DType string `json:"dtype"`  // of queries and cache, by its name in Triton: "bf16"
	// Blocks of M queries (of one token, the heads of a group) and N tokens of context, of head dim D, a power of two.
	M int `json:"m"`
	N int `json:"n"`
	D int `json:"d"`
	// Split says that it leaves sums for parts of the context, which combine makes results of.
	Split bool `json:"split"`
	// Cap says that it has a soft cap.
	Cap bool `json:"cap"`
	// Warps of 32 threads, and stages of its pipeline of loads.
	Warps  int    `json:"warps"`
	Stages int    `json:"stages"`
	Triton string `json:"triton"` // the version that lowered it

	ir string
}

//go:embed kernels.zst
var packed []byte

// Embedded returns all kernels.
var Embedded = sync.OnceValues(func() ([]*Kernel, error) {
	d, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	text, err := d.DecodeAll(packed, nil)
	if err != nil {
		return nil, fmt.Errorf("triton: the embedded kernels: %w", err)
	}
	return parse(string(text))
})

// parse reads kernels: a line of JSON, then the IR up to an empty line.
func parse(text string) ([]*Kernel, error) {
	var kernels []*Kernel
	for part := range strings.SplitSeq(strings.TrimSpace(text), "\n\n") {
		header, ir, ok := strings.Cut(part, "\n")
		k := &Kernel{ir: ir + "\n"}
		if err := json.Unmarshal([]byte(header), k); err != nil {
			return nil, fmt.Errorf("triton: the header of kernel %d, %.100q: %w", len(kernels), header, err)
		}
		if !ok || !strings.Contains(ir, opening) {
			return nil, fmt.Errorf("triton: kernel %d, %.100q, has no IR", len(kernels), header)
		}
		kernels = append(kernels, k)
	}
	return kernels, nil
}

// Attention is what ragged paged attention is asked for.
type Attention struct {
	Heads, KVHeads, HeadDim int
	PageSize                int
	DType                   dtypes.DType // of queries, cache and results
	Scale                   float64
	Window                  int     // tokens seen, 0 for all
	SoftCap                 float64 // 0 for none
	Tokens                  int     // T
	Rows, PagesPerSeq       int     // of the page table
}

// String names what a kernel depends on.
func (a Attention) String() string {
	s := fmt.Sprintf("%d heads, %d KV heads, head_dim %d, pages of %d tokens, %s, scale %.6g", a.Heads, a.KVHeads,
		a.HeadDim, a.PageSize, a.DType, a.Scale)
	if a.Window > 0 {
		s += fmt.Sprintf(", window %d", a.Window)
	}
	if a.SoftCap > 0 {
		s += fmt.Sprintf(", soft cap %g", a.SoftCap)
	}
	return s + fmt.Sprintf("; %d tokens, page table %d x %d", a.Tokens, a.Rows, a.PagesPerSeq)
}

// NoKernelError says that there is no kernel for a request.
type NoKernelError struct{ Reason string }

// Error implements error.
func (e *NoKernelError) Error() string { return "triton: no kernel: " + e.Reason }

// Call is a kernel with its sizes.
type Call struct {
	Kernel  *Kernel
	IR      string
	Grid    [3]int
	Results []shapes.Shape
}

// A context is attended to in parts by blocks of their own, so that a few long ones take all of the GPU: of partTokens,
// or more where there would be more than maxParts. They depend on the longest sequence that there may be only, for the
// sake of equal bytes.
const (
	partTokens = 1024
	maxParts   = 16
	partAlign  = 128 // a multiple of all N
)

// parts returns how many parts of a context of at most length tokens there are, and their tokens.
func parts(length int) (n, tokens int) {
	n = min(max(ceilDiv(length, partTokens), 1), maxParts)
	tokens = ceilDiv(ceilDiv(length, n), partAlign) * partAlign
	return max(ceilDiv(length, tokens), 1), tokens
}

// Calls returns the kernels to call one after the other. The first takes queries [T, H, D], cache [P, page_size, 2*KVH,
// D], page table i32[rows, pages a sequence], and the row and the position of each token, i32[T], -1 for padding. If
// there is a second one, it takes the first's three results, then rows and positions. The last one's result is [T, H,
// D]; rows of padding are 0.
//
// Without a kernel for the request the error is a [*NoKernelError].
func (a Attention) Calls() ([]Call, error) {
	kernels, err := Embedded()
	if err != nil {
		return nil, err
	}
	if a.KVHeads < 1 || a.Heads%a.KVHeads != 0 || a.HeadDim < 1 || a.PageSize < 1 || a.Tokens < 1 || a.Rows < 1 ||
		a.PagesPerSeq < 1 {
		return nil, fmt.Errorf("triton: attention can't be of %s", a)
	}
	group := a.Heads / a.KVHeads
	want := Kernel{Name: "attend", Form: "prefill", DType: dtypeNames[a.DType], D: max(powerOfTwo(a.HeadDim), 16),
		Cap: a.SoftCap > 0}
	numParts, part := 1, everything
	// As many tokens as sequences: no sequence has many, and each gets a block.
	if a.Tokens <= a.Rows && group <= 16 {
		want.Form = "decode"
		numParts, part = parts(a.PagesPerSeq * a.PageSize)
		want.Split = numParts > 1
	}
	k := find(kernels, want)
	switch {
	case want.DType == "":
		return nil, &NoKernelError{fmt.Sprintf("kernels take float32, bfloat16 and float16, not %s", a.DType)}
	case k == nil:
		return nil, &NoKernelError{fmt.Sprintf("kernels take a head_dim of at most 256, not %d", a.HeadDim)}
	case powerOfTwo(group) > k.M:
		return nil, &NoKernelError{fmt.Sprintf("kernels take %d query heads for a KV head in %s, not %d", k.M, a.DType,
			group)}
	}
	queries := 1
	if want.Form == "prefill" {
		queries = k.M / powerOfTwo(group)
	}
	window := a.Window
	if window == 0 {
		window = everything
	}
	values := []value{
		{"tokens", a.Tokens}, {"heads", a.Heads}, {"kv_heads", a.KVHeads}, {"group", group},
		{"group_rows", powerOfTwo(group)}, {"queries", queries},
		{"head_dim", a.HeadDim}, {"page_size", a.PageSize}, {"pages_per_seq", a.PagesPerSeq}, {"window", window},
		{"chunk", part}, {"splits", numParts},
		{"scale", a.Scale}, {"soft_cap", a.SoftCap},
	}
	first := Call{Kernel: k, Grid: [3]int{ceilDiv(a.Tokens, queries), a.KVHeads, numParts}}
	result := shapes.Make(a.DType, a.Tokens, a.Heads, a.HeadDim)
	if !want.Split {
		first.Results = []shapes.Shape{result}
		first.IR, err = k.fill(values)
		return []Call{first}, err
	}
	sums := shapes.Make(dtypes.Float32, a.Tokens, a.Heads, numParts)
	first.Results = []shapes.Shape{shapes.Make(dtypes.Float32, a.Tokens, a.Heads, numParts, a.HeadDim), sums, sums}
	if first.IR, err = k.fill(values); err != nil {
		return nil, err
	}
	second := Call{Kernel: find(kernels, Kernel{Name: "combine", DType: want.DType, D: want.D}),
		Grid: [3]int{a.Tokens, a.Heads, 1}, Results: []shapes.Shape{result}}
	second.IR, err = second.Kernel.fill(values)
	return []Call{first, second}, err
}

// everything is more tokens than there are, and less than half of what 32 bits hold, as kernels add to it.
const everything = 1 << 29

var dtypeNames = map[dtypes.DType]string{dtypes.BFloat16: "bf16", dtypes.Float16: "fp16", dtypes.Float32: "fp32"}

func find(kernels []*Kernel, want Kernel) *Kernel {
	for _, k := range kernels {
		if k.Name == want.Name && k.Form == want.Form && k.DType == want.DType && k.D == want.D &&
			k.Split == want.Split && k.Cap == want.Cap {
			return k
		}
	}
	return nil
}

// value is what an argument of a kernel is to be, an int or a float64.
type value struct {
	name string
	is   any
}

// opening ends the line that begins a kernel.
const opening = "attributes {noinline = false} {\n"

// fill puts constants in the place of the arguments that are no pointers.
func (k *Kernel) fill(values []value) (string, error) {
	head, body, _ := strings.Cut(k.ir, opening)
	var constants strings.Builder
	for _, v := range values {
		var ok bool
		switch x := v.is.(type) {
		case int:
			head, ok = cut(head, ", %"+v.name+": i32")
			if ok {
				fmt.Fprintf(&constants, "    %%%s = arith.constant %d : i32\n", v.name, x)
			}
		case float64:
			head, ok = cut(head, ", %"+v.name+": f32")
			if ok {
				fmt.Fprintf(&constants, "    %%%s = arith.constant %s : f32\n", v.name,
					strconv.FormatFloat(float64(float32(x)), 'e', 9, 64))
			}
		}
	}
	if strings.Contains(head, ": i32,") || strings.Contains(head, ": i32)") || strings.Contains(head, ": f32") {
		return "", fmt.Errorf("triton: kernel %s has arguments that nothing is known of: %s", k.Name, head)
	}
	return head + opening + constants.String() + body, nil
}

func cut(s, part string) (string, bool) {
	before, after, ok := strings.Cut(s, part)
	return before + after, ok
}

// powerOfTwo is the least one that is not less than n.
func powerOfTwo(n int) int { return 1 << bits.Len(uint(n-1)) }

func ceilDiv(n, by int) int { return (n + by - 1) / by }
