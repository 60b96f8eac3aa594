// Package reuse finds completions that exist already, so that nothing is generated twice. It names completions by
// everything that their bytes depend on, notes these names with each part of an output, and looks them up: in outputs
// of other jobs, and among the rows of the same job.
package reuse

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/ops/sampling"
)

// Key names the completions of a request, but for their generations: equal keys mean equal bytes. It is a digest over
// the [Basis], the tokens of the prompt, the parameters, and for sampled completions the id and the seed.
type Key [16]byte

// Basis is what the completions of all rows of a job depend on. Its JSON is kept with the keys, so that a difference
// can be named.
type Basis struct {
	OutputVersion int    `json:"output_version"`
	Model         string `json:"model_fingerprint"`
	Arithmetic    string `json:"arithmetic"`
	Backend       string `json:"backend"`
	Kernels       string `json:"kernels"`
	Weights       string `json:"weights"`
	DType         string `json:"dtype,omitempty"`
	KVDType       string `json:"kv_dtype,omitempty"`
	TP            string `json:"tp,omitempty"`
	EP            string `json:"ep,omitempty"`
	Layers        string `json:"layers,omitempty"`
	Adapters      string `json:"adapters,omitempty"` // digests, by the names that requests have
	// Without these if completions do not depend on them.
	KV            string `json:"kv,omitempty"`
	MaxSeqs       int    `json:"max_seqs,omitempty"`
	PageSize      int    `json:"page_size,omitempty"`
	PrefillTokens int    `json:"prefill_tokens,omitempty"`
	Runtime       string `json:"runtime,omitempty"`
}

// BasisOf returns the basis of a job that was started.
func BasisOf(job *jobstate.Description) Basis {
	text := func(name string) string {
		if v, there := job.Settings[name]; there {
			return fmt.Sprint(v)
		}
		return ""
	}
	b := Basis{OutputVersion: job.OutputVersion, Model: job.Model, Arithmetic: job.Arithmetic,
		Backend: text("backend"), Kernels: text("kernels"), Weights: text("weights"),
		DType: job.Settled.DType, KVDType: job.Settled.KVDType,
		TP: text("tp"), EP: text("ep"), Layers: text("layers"), Adapters: text("adapters")}
	if job.SizesMatter() {
		b.KV, b.MaxSeqs, b.PageSize = text("kv"), job.Settled.MaxSeqs, job.Settled.PageSize
		b.PrefillTokens, b.Runtime = job.Settled.PrefillTokens, job.Runtime
	}
	return b
}

// Differences lists how two bases differ, by the names in job.json.
func (b Basis) Differences(was Basis) (all []string) {
	now, before := reflect.ValueOf(b), reflect.ValueOf(was)
	for i := range now.NumField() {
		if x, y := now.Field(i).Interface(), before.Field(i).Interface(); x != y {
			name, _, _ := strings.Cut(now.Type().Field(i).Tag.Get("json"), ",")
			all = append(all, fmt.Sprintf("%s is %.40s, was %.40s", name, orNothing(fmt.Sprint(x)),
				orNothing(fmt.Sprint(y))))
		}
	}
	return all
}

func orNothing(text string) string {
	if text == "" || text == "0" {
		return "not given"
	}
	return text
}

// over is b, with the values of was for what only an engine finds.
func (b Basis) over(was Basis) Basis {
	b.Arithmetic = cmp.Or(b.Arithmetic, was.Arithmetic)
	b.DType, b.KVDType = cmp.Or(b.DType, was.DType), cmp.Or(b.KVDType, was.KVDType)
	b.KV, b.MaxSeqs, b.PageSize, b.PrefillTokens, b.Runtime = was.KV, was.MaxSeqs, was.PageSize, was.PrefillTokens,
		was.Runtime
	return b
}

func (b Basis) digest() [sha256.Size]byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // texts and numbers
	}
	return sha256.Sum256(text)
}

// Keys names the completions of one request. The parts are short digests that state what differs between two rows.
type Keys struct {
	Key
	Greedy             bool // all generations are equal, and id and seed do not matter
	ID                 uint64
	Prompt, Parameters uint32
	Extras             Extras // what the request asks for alongside the tokens
}

// Named is a request's completions by their names.
type Named struct {
	Keys
	First, N int // generations
}

// Has reports whether a generation is of the request.
func (n *Named) Has(generation int) bool { return generation >= n.First && generation < n.First+n.N }

// Namer names the completions of a job's requests. One goroutine uses it.
type Namer struct {
	basis       [sha256.Size]byte
	maxModelLen int
	columns     Extras // what columns of the job ask for
	scratch     []byte
}

// NewNamer returns what names the completions of a job whose engine has sequences of maxModelLen tokens and whose
// output has these columns on request, with values of these forms.
func NewNamer(basis Basis, maxModelLen int, columns []string, forms Forms) *Namer {
	n := &Namer{basis: basis.digest(), maxModelLen: maxModelLen, columns: extrasOfColumns(columns)}
	n.columns.Forms = forms
	return n
}

// Name names the completions of a request. form states how its completions are taken apart into text, reasoning and
// calls, "" if they are not. own reports that the id and the generation matter even if it is greedy.
func (n *Namer) Name(r *engine.Request, form string, own bool) Named {
	k := Named{First: r.FirstGeneration, N: r.N}
	k.Greedy, k.ID, k.Extras = r.Sampling.Greedy() && !own, IDDigest(r.ID), n.columns.with(r)
	b := n.scratch[:0]
	for _, id := range r.Tokens {
		b = binary.LittleEndian.AppendUint32(b, uint32(id))
	}
	prompt := sha256.Sum256(b)
	b = appendParameters(b[:0], r)
	b = appendText(b, form)
	parameters := sha256.Sum256(b)
	k.Prompt = binary.LittleEndian.Uint32(prompt[:])
	k.Parameters = crc32.ChecksumIEEE(binary.AppendVarint(slices.Clone(parameters[:]), int64(r.MaxTokens)))
	most := r.MaxTokens
	if n.maxModelLen > 0 { // no completion gets longer
		most = min(most, max(0, n.maxModelLen-len(r.Tokens)))
	}
	b = append(append(append(b[:0], n.basis[:]...), prompt[:]...), parameters[:]...)
	b = binary.AppendVarint(b, int64(most))
	if !k.Greedy {
		b = binary.LittleEndian.AppendUint64(b, r.Sampling.Seed)
		b = append(b, r.ID...)
	}
	sum := sha256.Sum256(b)
	n.scratch = b
	copy(k.Key[:], sum[:])
	return k
}

// IDDigest returns a digest of a row's id.
func IDDigest(id string) uint64 {
	sum := sha256.Sum256([]byte(strings.ToValidUTF8(id, "\uFFFD")))
	return binary.LittleEndian.Uint64(sum[:])
}

// apart are the fields of a request that are no parameters of its completions: those that the key has elsewhere, what
// [Extras] has, and what changes no completion.
var apart = []string{"ID", "Tokens", "N", "FirstGeneration", "MaxTokens", "Sampling", "TopLogprobs", "ScorePrompt",
	"PromptTopLogprobs", "State", "Leaf", "Progress", "Started"}

// appendParameters appends all parameters of a request but the bound of tokens, in a form of its own for each value. A
// field that is added to requests becomes a part of the key.
func appendParameters(b []byte, r *engine.Request) []byte {
	b = appendValue(b, reflect.ValueOf(keyed(r.Sampling)))
	v := reflect.ValueOf(r).Elem()
	for i := range v.NumField() {
		if field := v.Type().Field(i); !slices.Contains(apart, field.Name) && !v.Field(i).IsZero() {
			b = appendValue(appendText(b, field.Name), v.Field(i))
		}
	}
	return b
}

// keyed are the settings of sampling that the parameters have: the seed stands next to the id. A greedy completion has
// no temperature.
func keyed(s sampling.Settings) sampling.Settings {
	if s.Seed = 0; s.Greedy() {
		s.Temperature = 0
	}
	return s
}

// DigestOf returns a digest of a value that has no interfaces, functions and channels, as text.
func DigestOf[T any](value T) string {
	sum := sha256.Sum256(appendValue(nil, reflect.ValueOf(value)))
	return hex.EncodeToString(sum[:])
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

// appendValue appends a value so that different values of a type have different bytes.
func appendValue(b []byte, v reflect.Value) []byte {
	switch v.Kind() {
	case reflect.Bool:
		if v.Bool() {
			return append(b, 1)
		}
		return append(b, 0)
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return binary.AppendVarint(b, v.Int())
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return binary.AppendUvarint(b, v.Uint())
	case reflect.Float32, reflect.Float64:
		return binary.LittleEndian.AppendUint64(b, math.Float64bits(v.Float()))
	case reflect.String:
		return appendText(b, v.String())
	case reflect.Slice, reflect.Array:
		b = binary.AppendUvarint(b, uint64(v.Len()))
		for i := range v.Len() {
			b = appendValue(b, v.Index(i))
		}
		return b
	case reflect.Map:
		entries := make([]string, 0, v.Len())
		for each := v.MapRange(); each.Next(); {
			entries = append(entries, string(appendValue(appendValue(nil, each.Key()), each.Value())))
		}
		slices.Sort(entries)
		b = binary.AppendUvarint(b, uint64(len(entries)))
		for _, e := range entries {
			b = appendText(b, e)
		}
		return b
	case reflect.Struct:
		for i := range v.NumField() {
			b = appendValue(b, v.Field(i))
		}
		return b
	case reflect.Pointer:
		if v.IsNil() {
			return append(b, 0)
		}
		return appendValue(append(b, 1), v.Elem())
	}
	// A request of a job has no context of its own, the only field that is not a value.
	panic(fmt.Sprintf("no form of %s in keys", v.Type()))
}
