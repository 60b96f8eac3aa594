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

// RaggedPagedAttention and LatentAttention are the composites that [Attention] stands for.
const (
	RaggedPagedAttention = "ragged_paged_attention"
	LatentAttention      = "latent_attention"
)

// Kernel is one for a shape of its blocks.
type Kernel struct {
	Name  string `json:"kernel"` // "attend" or "combine"
	Form  string `json:"form"`   // of attend: "decode", one token a block, "prefill", or "latent"
	DType string `json:"dtype"`  // of queries and cache, by its name in Triton: "bf16"
	// Blocks of M queries (of one token, the heads of a group) and N tokens of context, of head dim D, a power of two.
	M int `json:"m"`
	N int `json:"n"`
	D int `json:"d"`
	// Rest, if not 0, reports that values are their keys, which have up to Rest numbers after D.
	Rest int `json:"rest"`
	// Split reports whether it leaves sums for parts of the context, which combine makes results of.
	Split bool `json:"split"`
	// Cap reports whether it has a soft cap, Sink that it takes attention sinks.
	Cap  bool `json:"cap"`
	Sink bool `json:"sink"`
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
	Latent                  bool         // values are their keys, of one KV head
	DType                   dtypes.DType // of queries, cache and results
	Scale                   float64
	Window                  int     // tokens seen, 0 for all
	SoftCap                 float64 // 0 for none
	Sinks                   bool    // each head has a score of a value of zeros
	Tokens                  int     // T
	Rows, PagesPerSeq       int     // of the page table
}

// String names what a kernel depends on.
func (a Attention) String() string {
	kv := fmt.Sprintf("%d KV heads, head_dim %d", a.KVHeads, a.HeadDim)
	if a.Latent {
		kv = fmt.Sprintf("latents and turned keys of %d", a.HeadDim)
	}
	s := fmt.Sprintf("%d heads, %s, pages of %d tokens, %s, scale %.6g", a.Heads, kv, a.PageSize, a.DType, a.Scale)
	if a.Window > 0 {
		s += fmt.Sprintf(", window %d", a.Window)
	}
	if a.SoftCap > 0 {
		s += fmt.Sprintf(", soft cap %g", a.SoftCap)
	}
	if a.Sinks {
		s += ", sinks"
	}
	return s + fmt.Sprintf("; %d tokens, page table %d x %d", a.Tokens, a.Rows, a.PagesPerSeq)
}

// NoKernelError reports that there is no kernel for a request.
type NoKernelError struct{ Reason string }

// Error implements error.
func (e *NoKernelError) Error() string { return "triton: no kernel: " + e.Reason }

// Call is a kernel with its sizes. If its kernel has sinks, f32[H], they are the last of its operands.
type Call struct {
	Kernel  *Kernel
	IR      string
	Grid    [3]int
	Results []shapes.Shape
}

// A context is attended to in parts, each by a block of its own, so that a few long contexts use all of the GPU. A part
// has partTokens, or more if there would be more than maxParts. Parts depend only on the longest possible sequence, so
// that the bytes do not depend on the actual lengths.
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
// D], or [P, page_size, 1, D] of latents, page table i32[rows, pages a sequence], and the row and the position of each
// token, i32[T], -1 for padding. If there is a second one, it takes the first's three results, then rows and positions.
// One of them has the sinks, so that they count once. The last one's result is [T, H, D]; rows of padding are 0.
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
	want := a.first()
	k := find(kernels, want)
	if err := a.refusal(k); err != nil {
		return nil, err
	}
	// Query heads, tokens and parts of the context of a block.
	group, queries, numParts, part := a.Heads/a.KVHeads, 1, 1, everything
	if a.Latent {
		for group = min(a.Heads, k.M); a.Heads%group != 0; group-- {
		}
	}
	if a.isDecode() {
		numParts, part = a.parts()
	} else {
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
	first := Call{Kernel: k, Grid: [3]int{ceilDiv(a.Tokens, queries), a.Heads / group, numParts}}
	result := shapes.Make(a.DType, a.Tokens, a.Heads, a.HeadDim)
	if !k.Split {
		first.Results = []shapes.Shape{result}
		first.IR, err = k.fill(values)
		return []Call{first}, err
	}
	sums := shapes.Make(dtypes.Float32, a.Tokens, a.Heads, numParts)
	first.Results = []shapes.Shape{shapes.Make(dtypes.Float32, a.Tokens, a.Heads, numParts, a.HeadDim), sums, sums}
	if first.IR, err = k.fill(values); err != nil {
		return nil, err
	}
	second := Call{Kernel: find(kernels, Kernel{Name: "combine", DType: want.DType, D: a.blockDim(), Sink: a.Sinks}),
		Grid: [3]int{a.Tokens, a.Heads, 1}, Results: []shapes.Shape{result}}
	second.IR, err = second.Kernel.fill(values)
	return []Call{first, second}, err
}

// first is what the first kernel is to be.
func (a Attention) first() Kernel {
	k := Kernel{Name: "attend", Form: "prefill", DType: dtypeNames[a.DType], D: a.blockDim(), Cap: a.SoftCap > 0}
	if a.isDecode() {
		n, _ := a.parts()
		k.Form, k.Split = "decode", n > 1
	}
	if a.Latent {
		k.Form, k.D, k.Rest = "latent", maxHeadDim, maxRest
	}
	k.Sink = a.Sinks && !k.Split // in parts, the second kernel has the sinks
	return k
}

// isDecode reports whether a block has one token, and a part of its context. If there are no more tokens than
// sequences, no sequence has many.
func (a Attention) isDecode() bool {
	return a.Tokens <= a.Rows && (a.Latent || a.Heads/a.KVHeads <= decodeHeads)
}

func (a Attention) parts() (n, tokens int) { return parts(a.PagesPerSeq * a.PageSize) }

// blockDim is the head dim of blocks.
func (a Attention) blockDim() int { return max(powerOfTwo(a.HeadDim), 16) }

// What the kernels take.
const (
	maxHeadDim  = 512
	maxRest     = 64 // numbers of a latent and its turned key beyond maxHeadDim
	decodeHeads = 16 // query heads of a KV head in blocks of one token
)

// refusal returns why no kernel, or not k, serves the request; nil if k does.
func (a Attention) refusal(k *Kernel) error {
	group := a.Heads / a.KVHeads
	switch {
	case dtypeNames[a.DType] == "":
		return &NoKernelError{fmt.Sprintf("kernels take float32, bfloat16 and float16, not %s", a.DType)}
	case a.Latent && (a.KVHeads > 1 || a.Sinks || a.SoftCap > 0):
		return &NoKernelError{"kernels of latent attention have one KV head, no sinks and no soft cap"}
	case a.Latent && (a.HeadDim <= maxHeadDim || a.HeadDim > maxHeadDim+maxRest):
		return &NoKernelError{fmt.Sprintf("kernels of latent attention take vectors of %d to %d numbers, not %d",
			maxHeadDim+1, maxHeadDim+maxRest, a.HeadDim)}
	case !a.Latent && a.HeadDim > maxHeadDim:
		return &NoKernelError{fmt.Sprintf("kernels take a head_dim of at most %d, not %d", maxHeadDim, a.HeadDim)}
	case a.Sinks && a.SoftCap > 0:
		return &NoKernelError{"kernels take attention sinks or a soft cap, not both"}
	case !a.Latent && powerOfTwo(group) > k.M:
		return &NoKernelError{fmt.Sprintf("kernels take %d query heads for a KV head in %s, not %d", k.M, a.DType,
			group)}
	}
	return nil
}

// everything is more tokens than there are, and less than half of what 32 bits hold, as kernels add to it.
const everything = 1 << 29

var dtypeNames = map[dtypes.DType]string{dtypes.BFloat16: "bf16", dtypes.Float16: "fp16", dtypes.Float32: "fp32"}

func find(kernels []*Kernel, want Kernel) *Kernel {
	for _, k := range kernels {
		if k.Name == want.Name && k.Form == want.Form && k.DType == want.DType && k.D == want.D &&
			k.Split == want.Split && k.Cap == want.Cap && k.Sink == want.Sink && k.Rest == want.Rest {
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
