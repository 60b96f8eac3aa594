// Package mosaic keeps the kernels that a TPU program calls: bodies of Mosaic kernels, lowered by scripts/kernels from
// published Pallas kernels, with their sizes left open.
//
// A [Payload] is such a body for one [Config], with the positions of the numbers of pages, sequences, pages per
// sequence and tokens in its bytecode. [Payload.Call] fills them in and returns the operands that the call then takes.
// libtpu does not check a body against the operands of its call, so everything that a body depends on is part of the
// key, and [Store.Find] refuses a body that does not match.
//
// A payload file is the header, a line of JSON, followed by the body, MLIR bytecode. A file may hold several.
package mosaic

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// RaggedPagedAttention is the kernel that attends to a paged cache, named like the composite that it stands for.
const RaggedPagedAttention = "ragged_paged_attention"

// PagedAttentionUpdate is the kernel that writes new keys and values into a paged cache and attends to it, named like
// its composite.
const PagedAttentionUpdate = "paged_attention_update"

// Config is what a kernel is made for. All of it is fixed in the body.
type Config struct {
	Heads    int `json:"heads"`
	KVHeads  int `json:"kv_heads"`
	HeadDim  int `json:"head_dim"`
	PageSize int `json:"page_size"`
	// DType is the dtype of queries and results, KVDType the dtype of the cache; by their names in NumPy: "bfloat16".
	DType   string `json:"dtype"`
	KVDType string `json:"kv_dtype"`
	// Scale multiplies q.k. It is compared as float32, as which the kernel holds it.
	Scale   float64 `json:"scale"`
	Window  int     `json:"window"`
	SoftCap float64 `json:"soft_cap"`
	// Sinks reports whether each head has a score of its own, of a value of zeros: an operand more.
	Sinks bool `json:"sinks,omitempty"`
}

// same reports whether a kernel made for c does what o asks for.
func (c Config) same(o Config) bool {
	sameFloat := func(a, b float64) bool { return float32(a) == float32(b) }
	scales := sameFloat(c.Scale, o.Scale) && sameFloat(c.SoftCap, o.SoftCap)
	c.Scale, c.SoftCap, o.Scale, o.SoftCap = 0, 0, 0, 0
	return scales && c == o
}

// String shows what differs between models: heads, page and options.
func (c Config) String() string {
	s := fmt.Sprintf("%d heads, %d KV heads, head_dim %d, pages of %d tokens, %s", c.Heads, c.KVHeads, c.HeadDim,
		c.PageSize, c.DType)
	if c.KVDType != c.DType {
		s += ", cache in " + c.KVDType
	}
	s += fmt.Sprintf(", scale %.6g", c.Scale)
	if c.Window > 0 {
		s += fmt.Sprintf(", window %d", c.Window)
	}
	if c.SoftCap > 0 {
		s += fmt.Sprintf(", soft cap %g", c.SoftCap)
	}
	if c.Sinks {
		s += ", sinks"
	}
	return s
}

// Sizes are what a payload leaves open.
type Sizes struct {
	Pages       int // P, of the cache
	Seqs        int // S, rows of the page table
	PagesPerSeq int // PP, its columns
	Tokens      int // T, queries
}

// Payload is a kernel as it is kept.
type Payload struct {
	Kernel string `json:"kernel"`
	// Source is the Python module that the kernel was lowered from. Versions are the versions of the packages that
	// lowered it, such as jax and jaxlib, and under mosaic the version of the bytecode's dialect: libtpu 0.0.42 and
	// later take 11.
	Source   string            `json:"source"`
	Versions map[string]string `json:"versions"`
	Config   Config            `json:"config"`
	// Form is FormDecode or FormMixed, or "" for a body that has both.
	Form   string `json:"form,omitempty"`
	Blocks Blocks `json:"blocks"`

	Format        int                        `json:"format"`
	Operands      []operand                  `json:"operands"`
	Results       []operand                  `json:"results"`
	Aliases       [][2]int                   `json:"aliases,omitempty"` // operand and result that are the same memory
	Largest       int                        `json:"largest"`
	BackendConfig map[string]json.RawMessage `json:"backend_config"`
	Patches       []patch                    `json:"patches"`
	Checks        []check                    `json:"checks"`
	BodyBytes     int                        `json:"body_bytes"`
	BodySHA256    string                     `json:"body_sha256"`

	body []byte
}

// Forms of a kernel that has a body for each: for sequences of one query, and for sequences of any number.
const (
	FormDecode = "decode"
	FormMixed  = "mixed"
)

// Blocks are a kernel's block sizes: queries and pages handled at once. VMEMLimit is in bytes, 0 for 16 MiB.
type Blocks struct {
	Queries   int `json:"queries"`
	Pages     int `json:"pages"`
	VMEMLimit int `json:"vmem_limit"`
}

type operand struct {
	Name  string `json:"name"`
	DType string `json:"dtype"`
	Dims  []dim  `json:"dims"`
}

// dim is a number, or a size left open plus a number.
type dim struct {
	symbol string
	plus   int
}

// patch is the position of a size in the body.
type patch struct {
	At       int    `json:"at"`
	Encoding string `json:"encoding"`
	Symbol   string `json:"symbol"`
	Times    int    `json:"times,omitempty"` // 0 is 1
	Plus     int    `json:"plus"`
}

// check is the digest of the body filled in for certain sizes, which the script found equal to the body lowered for
// them.
type check struct {
	Sizes  map[string]int `json:"sizes"`
	SHA256 string         `json:"sha256"`
}

// ErrFormat is wrapped by the errors of [Parse].
var ErrFormat = errors.New("mosaic: not a payload")

const (
	format    = 1
	maxHeader = 1 << 20
	maxBody   = 64 << 20
)

// Symbols of sizes in a payload; blocks is T in blocks of queries, rounded up, and entries the size of the page table,
// S*PP.
const (
	symbolPages, symbolSeqs, symbolPagesPerSeq, symbolTokens, symbolBlocks, symbolEntries = "P", "S", "PP", "T", "Q",
		"N"
)

// UnmarshalJSON reads 128, "S" or "S+1".
func (d *dim) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &d.plus); err == nil {
		return nil
	}
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return err
	}
	symbol, plus, found := strings.Cut(text, "+")
	switch symbol {
	case symbolPages, symbolSeqs, symbolPagesPerSeq, symbolTokens, symbolEntries:
	default:
		return fmt.Errorf("%q is not a size", text)
	}
	d.symbol = symbol
	if found {
		n, err := strconv.Atoi(plus)
		if err != nil || n < 0 {
			return fmt.Errorf("%q is not a size", text)
		}
		d.plus = n
	}
	return nil
}

// Parse reads payloads, one after another. Its errors wrap [ErrFormat].
func Parse(data []byte) ([]*Payload, error) {
	var all []*Payload
	for len(data) > 0 {
		p, rest, err := parseOne(data)
		if err != nil {
			return nil, fmt.Errorf("%w: payload %d: %w", ErrFormat, len(all), err)
		}
		all, data = append(all, p), rest
	}
	return all, nil
}

func parseOne(data []byte) (*Payload, []byte, error) {
	end := bytes.IndexByte(data[:min(len(data), maxHeader)], '\n')
	if end < 0 {
		return nil, nil, errors.New("it has no header line")
	}
	p := &Payload{}
	if err := json.Unmarshal(data[:end], p); err != nil {
		return nil, nil, fmt.Errorf("header: %w", err)
	}
	rest := data[end+1:]
	switch {
	case p.Format != format:
		return nil, nil, fmt.Errorf("it is of format %d, this program reads format %d: capture it again", p.Format,
			format)
	case p.BodyBytes < 1 || p.BodyBytes > maxBody || p.BodyBytes > len(rest):
		return nil, nil, fmt.Errorf("%d bytes follow the header, its body has %d", len(rest), p.BodyBytes)
	}
	p.body = rest[:p.BodyBytes:p.BodyBytes]
	if err := p.validate(); err != nil {
		return nil, nil, err
	}
	return p, rest[p.BodyBytes:], nil
}

func (p *Payload) validate() error {
	if digest(p.body) != p.BodySHA256 {
		return errors.New("the body is damaged: its digest is not the header's")
	}
	if p.Kernel == "" || p.Blocks.Queries < 1 || p.Blocks.Pages < 1 || p.Largest < 1 || len(p.Operands) == 0 ||
		len(p.Results) == 0 {
		return errors.New("the header lacks the kernel's name, block sizes, operands or results")
	}
	if p.Form != "" && p.Form != FormDecode && p.Form != FormMixed {
		return fmt.Errorf("its form is %q, but must be %s or %s", p.Form, FormDecode, FormMixed)
	}
	if _, ok := p.BackendConfig[customCall]; !ok {
		return fmt.Errorf("backend_config has no %s", customCall)
	}
	for _, t := range append(append([]operand(nil), p.Operands...), p.Results...) {
		if _, err := dtypeOf(t.DType); err != nil {
			return fmt.Errorf("operand %s: %w", t.Name, err)
		}
		for _, d := range t.Dims {
			if d.symbol == "" && d.plus < 1 {
				return fmt.Errorf("operand %s has a dimension of %d", t.Name, d.plus)
			}
		}
	}
	scratch := bytes.Clone(p.body)
	for _, at := range p.Patches {
		if at.Plus < -1 || at.Times < 0 {
			return fmt.Errorf("patch at %d takes a size %d times and adds %d", at.At, at.Times, at.Plus)
		}
		if err := at.write(scratch, map[string]int{at.Symbol: 2}); err != nil {
			return err
		}
	}
	for _, a := range p.Aliases {
		if a[0] < 0 || a[0] >= len(p.Operands) || a[1] < 0 || a[1] >= len(p.Results) {
			return fmt.Errorf("operand %d and result %d can't be the same memory: there are %d and %d", a[0], a[1],
				len(p.Operands), len(p.Results))
		}
	}
	for _, c := range p.Checks {
		body, err := p.fill(c.Sizes)
		if err != nil {
			return err
		}
		if digest(body) != c.SHA256 {
			return fmt.Errorf("the body filled in for %v is not the one that was checked", c.Sizes)
		}
	}
	return nil
}

// fill returns the body for sizes by symbol.
func (p *Payload) fill(sizes map[string]int) ([]byte, error) {
	body := bytes.Clone(p.body)
	sizes = maps.Clone(sizes)
	if sizes[symbolSeqs] > 0 && sizes[symbolPagesPerSeq] > math.MaxInt32/sizes[symbolSeqs] {
		return nil, fmt.Errorf("a page table of %d x %d is too large", sizes[symbolSeqs], sizes[symbolPagesPerSeq])
	}
	sizes[symbolEntries] = sizes[symbolSeqs] * sizes[symbolPagesPerSeq]
	for _, at := range p.Patches {
		if err := at.write(body, sizes); err != nil {
			return nil, err
		}
	}
	return body, nil
}

// varints are the encodings as a signed integer of MLIR's bytecode, by their bytes. They always have as many: readers
// take the long form of a small number too.
var varints = map[string]int{"varint2": 2, "varint": 3, "varint4": 4}

// write puts a size into its position in the body: as a varint, or as 8 bytes.
func (at patch) write(body []byte, sizes map[string]int) error {
	value, ok := sizes[at.Symbol]
	if !ok || value < 1 {
		return fmt.Errorf("there is no size %q to fill in", at.Symbol)
	}
	if value > math.MaxInt32 {
		return fmt.Errorf("size %s is %d, too large for the payload", at.Symbol, value)
	}
	value = value*max(at.Times, 1) + at.Plus
	width, isVarint := varints[at.Encoding]
	switch {
	case isVarint:
	case at.Encoding == "int64":
		width = 8
	default:
		return fmt.Errorf("patch at %d has the encoding %q", at.At, at.Encoding)
	}
	if at.At < 0 || at.At > len(body)-width {
		return fmt.Errorf("patch at %d is outside of the body", at.At)
	}
	place := body[at.At : at.At+width]
	if !isVarint {
		binary.LittleEndian.PutUint64(place, uint64(value))
		return nil
	}
	mark := byte(1) << (width - 1)
	if place[0]&(mark<<1-1) != mark {
		return fmt.Errorf("patch at %d: there is no integer of %d bytes in the body", at.At, width)
	}
	zigzag := uint64(value) << 1
	if value > math.MaxInt32 || zigzag>>(7*width) != 0 {
		return fmt.Errorf("size %s is %d, too large for the payload", at.Symbol, sizes[at.Symbol])
	}
	coded := zigzag<<width | uint64(mark)
	for i := range place {
		place[i] = byte(coded >> (8 * i))
	}
	return nil
}

// customCall is the part of a call's configuration that holds the body.
const customCall = "custom_call_config"

// Call is a kernel with its sizes filled in: everything that a custom call of the target [Target] needs.
type Call struct {
	Payload *Payload
	Request Request // that it answers, if it answers one
	// BackendConfig is the call's backend_config, JSON with the body in base64.
	BackendConfig string
	// Operands and Results are their names and shapes, all row-major. The page table may have more columns than was
	// asked for.
	Operands, Results []Tensor
}

// Target is the custom call that runs a Mosaic kernel.
const Target = "tpu_custom_call"

// Tensor is an operand or a result.
type Tensor struct {
	Name  string
	Shape shapes.Shape
}

// Call fills the sizes in. The page table gets at least as many columns as the kernel reads at once: see
// [Call.Operands].
func (p *Payload) Call(s Sizes) (*Call, error) {
	for _, n := range []struct {
		what string
		n    int
	}{{"pages", s.Pages}, {"sequences", s.Seqs}, {"pages a sequence", s.PagesPerSeq}, {"tokens", s.Tokens}} {
		if n.n < 1 || n.n >= p.Largest {
			return nil, fmt.Errorf("mosaic: %d %s: the payload takes 1 to %d", n.n, n.what, p.Largest-1)
		}
	}
	s.PagesPerSeq = max(s.PagesPerSeq, p.Blocks.Pages)
	sizes := map[string]int{
		symbolPages: s.Pages, symbolSeqs: s.Seqs, symbolPagesPerSeq: s.PagesPerSeq, symbolTokens: s.Tokens,
		symbolBlocks: (s.Tokens + p.Blocks.Queries - 1) / p.Blocks.Queries,
	}
	body, err := p.fill(sizes)
	if err != nil {
		return nil, fmt.Errorf("mosaic: %w", err)
	}
	config := map[string]any{}
	for name, value := range p.BackendConfig {
		config[name] = value
	}
	inner := map[string]any{}
	if err := json.Unmarshal(p.BackendConfig[customCall], &inner); err != nil {
		return nil, fmt.Errorf("mosaic: backend_config: %w", err)
	}
	inner["body"] = base64.StdEncoding.EncodeToString(body)
	config[customCall] = inner
	text, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("mosaic: backend_config: %w", err)
	}
	sizes[symbolEntries] = s.Seqs * s.PagesPerSeq
	c := &Call{Payload: p, BackendConfig: string(text)}
	c.Operands, c.Results = tensors(p.Operands, sizes), tensors(p.Results, sizes)
	return c, nil
}

func tensors(from []operand, sizes map[string]int) []Tensor {
	all := make([]Tensor, len(from))
	for i, o := range from {
		dims := make([]int, len(o.Dims))
		for j, d := range o.Dims {
			dims[j] = sizes[d.symbol] + d.plus
		}
		dtype, _ := dtypeOf(o.DType) // checked by validate
		all[i] = Tensor{Name: o.Name, Shape: shapes.Make(dtype, dims...)}
	}
	return all
}

// names are the dtypes by their names in NumPy. 8-bit floats are passed as their bytes.
var names = map[string]dtypes.DType{
	"int32": dtypes.Int32, "float32": dtypes.Float32, "bfloat16": dtypes.BFloat16, "float16": dtypes.Float16,
	"float8_e4m3fn": dtypes.Uint8,
}

func dtypeOf(name string) (dtypes.DType, error) {
	d, ok := names[name]
	if !ok {
		return dtypes.InvalidDType, fmt.Errorf("dtype %q is not known", name)
	}
	return d, nil
}

// DTypeName returns a dtype's name in a [Config], "" for one that no kernel has. Bytes hold 8-bit floats.
func DTypeName(d dtypes.DType) string {
	if d == dtypes.F8E4M3FN {
		d = dtypes.Uint8
	}
	for name, known := range names {
		if known == d {
			return name
		}
	}
	return ""
}

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
