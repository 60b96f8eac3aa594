package models

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quire/quire/models/gguf"
)

// ggufFamilies maps general.architecture to the class it was converted from. Mistral models are converted as llama.
var ggufFamilies = map[string]string{
	"llama": "LlamaForCausalLM", "qwen2": "Qwen2ForCausalLM", "qwen3": "Qwen3ForCausalLM",
	"smollm3": "SmolLM3ForCausalLM",
}

// ggufKnownKeys are the keys under the architecture's prefix that ggufConfig acts on or that change nothing. Any other
// key may change what the model computes, so it is refused.
var ggufKnownKeys = []string{
	"block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
	"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
	"attention.layer_norm_rms_epsilon", "attention.sliding_window", "attention.causal",
	"rope.dimension_count", "rope.freq_base", "rope.scale_linear",
	"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned",
	"rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
	"expert_count", "expert_used_count",
}

// ggufConfig builds the config from a file's metadata and, where that is silent, from its tensors.
func ggufConfig(f *gguf.File) (Config, error) {
	m := &ggufFields{f: f}
	if n, ok := f.Int("split.count"); ok && n > 1 {
		return Config{}, unsupported("merge them with llama.cpp's gguf-split", "a GGUF model split into %d files", n)
	}
	name, _ := f.String("general.architecture")
	m.prefix = name + "."
	class, ok := ggufFamilies[name]
	if !ok {
		return Config{}, unsupported("supported are llama, qwen2, qwen3 and smollm3", "GGUF architecture %q", name)
	}
	fam := families[class]
	c := Config{Architecture: class, ModelType: fam.modelType, QKNorm: fam.qkNorm, QKVBias: fam.qkvBias}
	c.HiddenSize, c.IntermediateSize = m.required("embedding_length"), m.required("feed_forward_length")
	c.NumLayers, c.NumHeads = m.required("block_count"), m.required("attention.head_count")
	c.MaxPositions = m.required("context_length")
	if m.err != nil {
		return Config{}, m.err
	}
	if err := c.checkCounts(); err != nil {
		return Config{}, err
	}
	c.NumKVHeads = m.int("attention.head_count_kv", c.NumHeads)
	c.HeadDim = m.int("attention.key_length", c.HiddenSize/c.NumHeads)
	c.RMSNormEps = m.float("attention.layer_norm_rms_epsilon", math.NaN())
	c.RopeTheta = m.float("rope.freq_base", 1e4)

	embedding := f.Tensor("token_embd.weight")
	if embedding == nil || len(embedding.Dims) != 2 {
		return Config{}, errors.New("the matrix token_embd.weight is missing")
	}
	c.VocabSize = embedding.Dims[0]
	c.TieEmbeddings = f.Tensor("output.weight") == nil
	c.QKVBias = c.QKVBias || f.Tensor("blk.0.attn_q.bias") != nil
	c.OBias = f.Tensor("blk.0.attn_output.bias") != nil
	c.MLPBias = f.Tensor("blk.0.ffn_gate.bias") != nil

	c.NoRope = make([]bool, c.NumLayers)
	if fam.noRope { // the format has no key for it; the converter takes SmolLM3's default for granted
		for i := range c.NoRope {
			c.NoRope[i] = (i+1)%4 == 0
		}
	}
	c.SlidingWindow = make([]int, c.NumLayers)
	if window := m.int("attention.sliding_window", 0); window > 0 {
		if name != "llama" {
			return Config{}, unsupported("",
				"attention.sliding_window in a %s file, which does not say which layers have it,", name)
		}
		for i := range c.SlidingWindow {
			c.SlidingWindow[i] = window
		}
	}
	c.BOS = m.token("bos_token_id")
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if id := m.token(key); id >= 0 && !slices.Contains(c.EOS, int32(id)) {
			c.EOS = append(c.EOS, int32(id))
		}
	}
	if add, ok := f.Bool("tokenizer.ggml.add_bos_token"); ok && !add && !f.Has("tokenizer.ggml.bos_token_id") {
		c.BOS = -1
	}
	if err := errors.Join(m.rope(&c), m.refusals(&c)); err != nil {
		return Config{}, err
	}
	if m.err != nil {
		return Config{}, m.err
	}
	return c, c.check()
}

// rope reads the scaling, which is in keys for linear and yarn, and in a tensor of divisors for llama3.
func (m *ggufFields) rope(c *Config) error {
	typ := "none"
	if m.has("rope.scaling.type") {
		typ, _ = m.f.String(m.prefix + "rope.scaling.type")
	}
	factor := m.float("rope.scaling.factor", m.float("rope.scale_linear", 1))
	if typ == "none" && !m.has("rope.scaling.type") && factor != 1 {
		typ = "linear" // files from before the type had a key
	}
	switch typ {
	case "none":
	case "linear":
		if factor != 1 {
			c.RopeScaling = &RopeScaling{Type: typ, Factor: factor, AttentionFactor: 1}
		}
	case "yarn":
		c.RopeScaling = &RopeScaling{Type: typ, Factor: factor, Truncate: true,
			BetaFast: m.float("rope.scaling.yarn_beta_fast", 32), BetaSlow: m.float("rope.scaling.yarn_beta_slow", 1),
			AttentionFactor:      m.float("rope.scaling.attn_factor", 1) * yarnAttentionFactor(factor, 0, 0),
			OriginalMaxPositions: m.int("rope.scaling.original_context_length", c.MaxPositions)}
	default:
		return unsupported("none, linear and yarn are", "rope.scaling.type %q", typ)
	}
	divisors := m.f.Tensor(nameRopeFactors)
	if divisors == nil {
		return m.err
	}
	if c.RopeScaling != nil {
		return unsupported("", "%s together with rope.scaling.type %q", nameRopeFactors, typ)
	}
	if err := c.check(); err != nil { // the sizes are used below
		return err
	}
	if divisors.Type != gguf.F32 || divisors.Elements() != c.HeadDim/2 {
		return fmt.Errorf("%s is not %d elements of F32", nameRopeFactors, c.HeadDim/2)
	}
	values := make([]float32, c.HeadDim/2)
	if err := gguf.Dequantize(divisors.Type, values, divisors.Data); err != nil {
		return err
	}
	return c.recoverLlama3(values)
}

// recoverLlama3 finds the llama3 scaling that gives these divisors of the frequencies. The factors for low and high
// frequencies and the original context are those of every Llama 3.1, 3.2 and 3.3; only the factor differs.
func (c *Config) recoverLlama3(divisors []float32) error {
	factor := float64(divisors[len(divisors)-1])
	plain := *c
	plain.RopeScaling = nil
	scaled := plain
	scaled.RopeScaling = &RopeScaling{Type: "llama3", Factor: factor, LowFreqFactor: 1, HighFreqFactor: 4,
		AttentionFactor: 1, OriginalMaxPositions: 8192}
	base, _ := plain.RopeFrequencies()
	want, _ := scaled.RopeFrequencies()
	for i, d := range divisors {
		if !(math.Abs(float64(base[i]/d)-float64(want[i])) <= 1e-5*float64(want[i])) {
			return unsupported("only those of Llama 3.1 to 3.3 are", "%s with divisors of another rope scaling",
				nameRopeFactors)
		}
	}
	c.RopeScaling = scaled.RopeScaling
	return nil
}

// refusals lists what the metadata asks for beyond what ggufConfig understands.
func (m *ggufFields) refusals(c *Config) error {
	var errs []error
	for _, key := range m.f.Keys() {
		if short, ok := strings.CutPrefix(key, m.prefix); ok && !slices.Contains(ggufKnownKeys, short) {
			errs = append(errs, unsupported("", "GGUF key %q", key))
		}
	}
	if n := m.int("expert_count", 0); n > 0 {
		errs = append(errs, unsupported("", "a mixture of %d experts", n))
	}
	if n := m.int("rope.dimension_count", c.HeadDim); n != c.HeadDim {
		errs = append(errs, unsupported("the whole head must be rotated", "rope.dimension_count %d for heads of %d", n,
			c.HeadDim))
	}
	if n := m.int("attention.value_length", c.HeadDim); n != c.HeadDim {
		errs = append(errs, unsupported("", "attention.value_length %d for keys of %d", n, c.HeadDim))
	}
	if causal, ok := m.f.Bool(m.prefix + "attention.causal"); ok && !causal {
		errs = append(errs, unsupported("", "attention that is not causal"))
	}
	return errors.Join(errs...)
}

// ggufFields reads typed metadata under a prefix. The first key of the wrong type is kept in err.
type ggufFields struct {
	f      *gguf.File
	prefix string
	err    error
}

func (m *ggufFields) has(key string) bool { return m.f.Has(m.prefix + key) }

func (m *ggufFields) fail(format string, args ...any) {
	if m.err == nil {
		m.err = fmt.Errorf(format, args...)
	}
}

// int also accepts an array whose elements are all equal: some converters write per-layer values.
func (m *ggufFields) int(key string, absent int) int {
	key = m.prefix + key
	if !m.f.Has(key) {
		return absent
	}
	n, ok := m.f.Int(key)
	if list, isList := m.f.Ints(key); isList && len(list) > 0 {
		n, ok = list[0], true
		for _, x := range list {
			if x != n {
				m.fail("%w", unsupported("one for all layers is", "%s that differs between layers", key))
				return absent
			}
		}
	}
	if !ok || n < 0 || n > math.MaxInt32 {
		m.fail("metadata key %q is no integer of a sensible size", key)
		return absent
	}
	return int(n)
}

func (m *ggufFields) required(key string) int {
	if !m.has(key) {
		m.fail("metadata key %q is missing", m.prefix+key)
	}
	return m.int(key, 0)
}

func (m *ggufFields) float(key string, absent float64) float64 {
	key = m.prefix + key
	if !m.f.Has(key) {
		return absent
	}
	x, ok := m.f.Float(key)
	if !ok {
		m.fail("metadata key %q is no number", key)
		return absent
	}
	return x
}

// token reads a token id of the tokenizer's metadata, -1 if there is none. Writers use the largest uint32 for none as
// well.
func (m *ggufFields) token(key string) int {
	key = "tokenizer.ggml." + key
	if !m.f.Has(key) {
		return -1
	}
	id, ok := m.f.Int(key)
	if !ok {
		m.fail("metadata key %q is no integer", key)
		return -1
	}
	if id < 0 || id > math.MaxInt32 {
		return -1
	}
	return int(id)
}
