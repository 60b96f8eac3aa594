package arch

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/gguf"
)

// RopeFactors is the tensor of GGUF files that holds the llama3 rope scaling.
const RopeFactors = "rope_freqs.weight"

// RopeTensors are all tensors that scale a rotary embedding.
var RopeTensors = []string{RopeFactors, RopeFactorsLong, RopeFactorsShort}

// Tensors of GGUF files with the divisors of longrope.
const (
	RopeFactorsLong  = "rope_factors_long.weight"
	RopeFactorsShort = "rope_factors_short.weight"
)

// knownKeys are the keys below the architecture's name that ReadMetadata acts on or that change nothing. Any other key
// may change what the model computes, so it is refused, unless the decoder knows it.
var knownKeys = []string{
	"block_count", "context_length", "embedding_length", "feed_forward_length", "vocab_size",
	"attention.head_count", "attention.head_count_kv", "attention.key_length", "attention.value_length",
	"attention.layer_norm_rms_epsilon", "attention.causal",
	"rope.dimension_count", "rope.freq_base", "rope.scale_linear",
	"rope.scaling.type", "rope.scaling.factor", "rope.scaling.original_context_length", "rope.scaling.finetuned",
	"rope.scaling.attn_factor", "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
	"expert_count", "expert_used_count", "expert_feed_forward_length", "pooling_type",
}

// ReadMetadata builds the config of a GGUF file of one of decoders, and also returns the decoder. It reads the file's
// metadata or, if a key is missing, its tensors.
func ReadMetadata(decoders []Decoder, f *gguf.File) (Config, Decoder, error) {
	name, _ := f.String("general.architecture")
	experts, _ := f.Int(name + ".expert_count")
	index := -1
	for i, d := range decoders {
		if name != "" && d.GGUF.Architecture == name && (index < 0 || d.GGUF.Experts == (experts > 0)) {
			index = i
		}
	}
	if index < 0 {
		return Config{}, Decoder{}, Unsupported(supported(decoders,
			func(d Decoder) string { return d.GGUF.Architecture }), "GGUF architecture %q", name)
	}
	d, m := decoders[index], &Metadata{File: f, prefix: name + ".", ownSizes: decoders[index].GGUF.OwnSizes}
	c := Config{Architecture: d.Class, ModelType: d.ModelType, Names: d.Names, Norm: d.Norm,
		Stored: Stored{Interleaved: d.GGUF.Interleaved}, Generation: ggufGeneration(f)}
	if err := m.sizes(&c); err != nil {
		return Config{}, Decoder{}, err
	}
	c.SetLayers(c.LlamaLayer())
	if err := errors.Join(m.rope(&c), m.sizesOfLayers(&c), d.Metadata(m, &c), m.answers(&c),
		m.refusals(&c, d)); err != nil {
		return Config{}, Decoder{}, err
	}
	if m.err != nil {
		return Config{}, Decoder{}, m.err
	}
	m.nameQKV(&c)
	return c, d, c.finish()
}

// sizes reads what all decoders have.
func (m *Metadata) sizes(c *Config) error {
	width := "feed_forward_length"
	if !m.Has(width) && m.Has("expert_feed_forward_length") { // no layer without experts
		width = "expert_feed_forward_length"
	}
	c.HiddenSize, c.IntermediateSize = m.required("embedding_length"), m.required(width)
	c.NumLayers, c.NumHeads = m.required("block_count"), m.required("attention.head_count")
	c.MaxPositions = m.required("context_length")
	if m.err != nil {
		return m.err
	}
	if err := checkCounts(c); err != nil {
		return err
	}
	c.NumKVHeads = m.kvHeads(c.NumHeads)
	c.HeadDim = m.Int("attention.key_length", c.HiddenSize/c.NumHeads)
	c.RMSNormEps = m.Float("attention.layer_norm_rms_epsilon", math.NaN())
	c.Ropes = []Rope{{Theta: m.Float("rope.freq_base", 1e4)}}
	if n := m.Int("rope.dimension_count", c.HeadDim); n != c.HeadDim {
		c.Ropes[FullRope].Dims = n
	}

	embedding := m.File.Tensor("token_embd.weight")
	if embedding == nil || len(embedding.Dims) != 2 {
		return errors.New("the matrix token_embd.weight is missing")
	}
	c.VocabSize = embedding.Dims[0]
	c.TieEmbeddings = m.File.Tensor("output.weight") == nil
	c.BOS = m.token("bos_token_id")
	for _, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if id := m.token(key); id >= 0 && !slices.Contains(c.EOS, int32(id)) {
			c.EOS = append(c.EOS, int32(id))
		}
	}
	if c.EOS == nil { // as llama.cpp finds them
		for _, text := range ends {
			m.EndsAt(c, text)
		}
	}
	if add, ok := m.File.Bool("tokenizer.ggml.add_bos_token"); ok && !add &&
		!m.File.Has("tokenizer.ggml.bos_token_id") {
		c.BOS = -1
	}
	return nil
}

// rope reads the scaling of FullRope, which is in keys for linear and yarn, and in a tensor of divisors for llama3.
func (m *Metadata) rope(c *Config) error {
	typ := "none"
	if m.Has("rope.scaling.type") {
		typ, _ = m.File.String(m.prefix + "rope.scaling.type")
	}
	factor := m.Float("rope.scaling.factor", m.Float("rope.scale_linear", 1))
	if typ == "none" && !m.Has("rope.scaling.type") && factor != 1 {
		typ = "linear" // files from before the type had a key
	}
	var scaling *RopeScaling
	switch typ {
	case "none":
	case "linear":
		if factor != 1 {
			scaling = &RopeScaling{Type: typ, Factor: factor, AttentionFactor: 1}
		}
	case "yarn":
		scaling = &RopeScaling{Type: typ, Factor: factor, Truncate: true,
			BetaFast: m.Float("rope.scaling.yarn_beta_fast", 32), BetaSlow: m.Float("rope.scaling.yarn_beta_slow", 1),
			AttentionFactor:      m.Float("rope.scaling.attn_factor", 1) * yarnAttentionFactor(factor, 0, 0),
			OriginalMaxPositions: m.Int("rope.scaling.original_context_length", c.MaxPositions)}
	default:
		return Unsupported("none, linear and yarn are", "rope.scaling.type %q", typ)
	}
	c.Ropes[FullRope].Scaling = scaling
	divisors := m.File.Tensor(RopeFactors)
	if divisors == nil {
		return m.err
	}
	if scaling != nil {
		return Unsupported("", "%s together with rope.scaling.type %q", RopeFactors, typ)
	}
	if err := checkConfig(c); err != nil { // the sizes are used below
		return err
	}
	if divisors.Type != gguf.F32 || divisors.Elements() != c.HeadDim/2 {
		return fmt.Errorf("%s is not %d elements of F32", RopeFactors, c.HeadDim/2)
	}
	values := make([]float32, c.HeadDim/2)
	if err := gguf.Dequantize(divisors.Type, values, divisors.Data); err != nil {
		return err
	}
	if still := slices.Index(values, stillDivisor); still > 0 {
		return recoverShare(c, values, still)
	}
	return recoverLlama3(c, values)
}

// stillDivisor is the divisor of pairs of numbers that are not turned.
const stillDivisor = 1e30

// recoverShare finds the share of a head that is turned: the divisors of its pairs are ones, and all others stay.
func recoverShare(c *Config, divisors []float32, still int) error {
	for i, d := range divisors {
		if i < still && d != 1 || i >= still && d != stillDivisor {
			return Unsupported("", "%s with the divisor %g between others", RopeFactors, d)
		}
	}
	c.Ropes[FullRope].Share = float64(still) / float64(len(divisors))
	return nil
}

// recoverLlama3 finds the llama3 scaling that gives these divisors of the frequencies. The factors for low and high
// frequencies and the original context are the same in every Llama 3.1, 3.2 and 3.3; only the factor differs.
func recoverLlama3(c *Config, divisors []float32) error {
	factor := float64(divisors[len(divisors)-1])
	base, _ := c.RopeFrequencies(FullRope)
	scaling := &RopeScaling{Type: "llama3", Factor: factor, LowFreqFactor: 1, HighFreqFactor: 4,
		AttentionFactor: 1, OriginalMaxPositions: 8192}
	c.Ropes[FullRope].Scaling = scaling
	want, _ := c.RopeFrequencies(FullRope)
	for i, d := range divisors {
		if !(math.Abs(float64(base[i]/d)-float64(want[i])) <= 1e-5*float64(want[i])) {
			return Unsupported("only those of Llama 3.1 to 3.3 are", "%s with divisors of another rope scaling",
				RopeFactors)
		}
	}
	return nil
}

// refusals lists what the metadata asks for beyond what is understood.
func (m *Metadata) refusals(c *Config, d Decoder) error {
	var errs []error
	for _, key := range m.File.Keys() {
		if short, ok := strings.CutPrefix(key, m.prefix); ok && !slices.Contains(knownKeys, short) &&
			!slices.Contains(d.GGUF.Keys, short) {
			errs = append(errs, Unsupported("", "GGUF key %q", key))
		}
	}
	if n := m.Int("expert_count", 0); n > 0 && !d.GGUF.Experts {
		errs = append(errs, Unsupported("", "a mixture of %d experts", n))
	}
	errs = append(errs, m.headRefusals(c, d)...)
	if causal, ok := m.File.Bool(m.prefix + "attention.causal"); ok && !causal && c.Generates() == nil {
		errs = append(errs, Unsupported("", "attention that is not causal"))
	}
	return errors.Join(errs...)
}

// headRefusals lists what is not understood of sizes of heads. Those of latent attention are the decoder's.
func (m *Metadata) headRefusals(c *Config, d Decoder) (errs []error) {
	if m.Has("attention.kv_lora_rank") {
		return nil
	}
	keys := m.Int("attention.key_length", c.HeadDim)
	if n := m.Int("rope.dimension_count", keys); n != keys && d.Defaults.Partial == 0 {
		errs = append(errs, Unsupported("the whole head must be rotated", "rope.dimension_count %d for heads of %d", n,
			keys))
	}
	if n := m.Int("attention.value_length", keys); n != keys {
		errs = append(errs, Unsupported("", "attention.value_length %d for keys of %d", n, keys))
	}
	return errs
}

// kvHeads reads how many KV heads layers have: all the same, but none if a layer does not attend.
func (m *Metadata) kvHeads(absent int) int {
	const key = "attention.head_count_kv"
	list, _ := m.File.Ints(m.prefix + key)
	list = slices.Compact(slices.DeleteFunc(list, func(n int64) bool { return n == 0 }))
	if len(list) == 1 && list[0] > 0 && list[0] <= math.MaxInt32 {
		return int(list[0])
	}
	return m.Int(key, absent)
}

// WithoutPredictors removes the layers at the end that predict more than one token, and marks their tensors as unused.
func (m *Metadata) WithoutPredictors(c *Config) error {
	n := m.Int("nextn_predict_layers", 0)
	if n >= c.NumLayers {
		return fmt.Errorf("nextn_predict_layers is %d of %s", n, plural.Count(c.NumLayers, "layer"))
	}
	c.NumLayers -= n
	for i := range n {
		c.Stored.Unused = append(c.Stored.Unused, fmt.Sprintf("blk.%d.", c.NumLayers+i))
	}
	c.Layers = c.Layers[:c.NumLayers]
	return nil
}

// SlidingLayers reads which layers have a window: a list, or a number n that means all but every n-th layer. n is
// pattern if the key is missing.
func (m *Metadata) SlidingLayers(c *Config, pattern int) ([]bool, error) {
	const key = "attention.sliding_window_pattern"
	sliding, ok := m.File.Bools(m.prefix + key)
	if !ok {
		return AllButEvery(m.Int(key, pattern), c.NumLayers), nil
	}
	if len(sliding) != c.NumLayers {
		return nil, fmt.Errorf("metadata key %q has %s for %s", m.prefix+key, plural.Count(len(sliding), "entry"),
			plural.Count(c.NumLayers, "layer"))
	}
	return sliding, nil
}

// nameQKV names the tensors of queries, keys and values in one that llama.cpp's converter writes with --fuse-qkv.
func (m *Metadata) nameQKV(c *Config) {
	if _, always := c.Names[QKV]; always {
		return
	}
	for i, l := range c.Layers {
		if l.Mixer == Attention && m.HasTensor(fmt.Sprintf("blk.%d.attn_qkv.weight", i)) {
			c.Names = tensorNames(c).With(Names{QKV: {HF: "self_attn.qkv_proj", GGUF: "attn_qkv"}})
			return
		}
	}
}

// ends are texts of tokens that end completions if a file names none.
var ends = []string{"<|eot_id|>", "<|im_end|>", "<|end|>", "<end_of_turn>", "<|endoftext|>", "<|end_of_text|>", "</s>",
	"<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]", "<｜end▁of▁sentence｜>", "<end_of_utterance>"}

// EndsAt makes a token of the vocabulary, if it has it, end completions too.
func (m *Metadata) EndsAt(c *Config, text string) {
	texts, _ := m.File.Strings("tokenizer.ggml.tokens")
	if id := slices.Index(texts, text); id >= 0 && !slices.Contains(c.EOS, int32(id)) {
		c.EOS = append(c.EOS, int32(id))
	}
}

// token reads a token id of the tokenizer's metadata, -1 if there is none. Writers use the largest uint32 for none as
// well.
func (m *Metadata) token(key string) int {
	key = "tokenizer.ggml." + key
	if !m.File.Has(key) {
		return -1
	}
	id, ok := m.File.Int(key)
	if !ok {
		m.fail("metadata key %q is no integer", key)
		return -1
	}
	if id < 0 || id > math.MaxInt32 {
		return -1
	}
	return int(id)
}
