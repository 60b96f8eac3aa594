package models

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/sentence"
)

// ggufFile is what the tests below spoil: metadata (uint32, float32, bool, string, lists) and tensors.
type ggufFile struct {
	values  map[string]any
	tensors map[string][]int     // outermost first
	types   map[string]gguf.Type // F32 if it has none
	data    map[string][]float32 // of tensors; nil for numbers that are made up
}

// tinyGGUF is a model of one layer that is fine: 2 heads of 4 over 1, hidden size 8.
func tinyGGUF() ggufFile {
	return ggufFile{
		values: map[string]any{"general.architecture": "llama", "llama.block_count": uint32(1),
			"llama.context_length":   uint32(64),
			"llama.embedding_length": uint32(8), "llama.feed_forward_length": uint32(12),
			"llama.attention.head_count":    uint32(2),
			"llama.attention.head_count_kv": uint32(1), "llama.attention.layer_norm_rms_epsilon": float32(1e-5)},
		tensors: map[string][]int{"token_embd.weight": {16, 8}, "output_norm.weight": {8},
			"blk.0.attn_norm.weight": {8},
			"blk.0.attn_q.weight":    {8, 8}, "blk.0.attn_k.weight": {4, 8}, "blk.0.attn_v.weight": {4, 8},
			"blk.0.attn_output.weight": {8, 8},
			"blk.0.ffn_norm.weight":    {8}, "blk.0.ffn_gate.weight": {12, 8}, "blk.0.ffn_up.weight": {12, 8},
			"blk.0.ffn_down.weight": {8, 12}},
	}
}

// mixture makes the model one of 3 experts.
func mixture(g ggufFile) {
	g.values["llama.expert_count"], g.values["llama.expert_used_count"] = uint32(3), uint32(2)
	g.tensors["blk.0.ffn_gate_inp.weight"] = []int{3, 8}
	for _, part := range []string{"gate", "up", "down"} {
		name := "blk.0.ffn_" + part
		g.tensors[name+"_exps.weight"] = append([]int{3}, g.tensors[name+".weight"]...)
		delete(g.tensors, name+".weight")
	}
}

func (g ggufFile) encode() []byte {
	w := &bytes.Buffer{}
	put := func(x any) { binary.Write(w, binary.LittleEndian, x) }
	str := func(s string) { put(uint64(len(s))); w.WriteString(s) }
	w.WriteString("GGUF")
	put(uint32(3))
	put(uint64(len(g.tensors)))
	put(uint64(len(g.values)))
	for _, key := range slices.Sorted(maps.Keys(g.values)) {
		str(key)
		switch v := g.values[key].(type) {
		case uint32:
			put(uint32(4))
			put(v)
		case float32:
			put(uint32(6))
			put(v)
		case bool:
			put(uint32(7))
			put(v)
		case string:
			put(uint32(8))
			str(v)
		case []string:
			put(uint32(9))
			put(uint32(8))
			put(uint64(len(v)))
			for _, s := range v {
				str(s)
			}
		case []uint32:
			put(uint32(9))
			put(uint32(4))
			put(uint64(len(v)))
			put(v)
		}
	}
	offset := uint64(0)
	for _, name := range slices.Sorted(maps.Keys(g.tensors)) {
		dims := g.tensors[name]
		str(name)
		put(uint32(len(dims)))
		elements, bytes := g.types[name].Block()
		size := uint64(bytes)
		for _, d := range slices.Backward(dims) {
			put(uint64(d))
			size *= uint64(d)
		}
		size /= uint64(elements)
		put(uint32(g.types[name]))
		put(offset)
		offset += (size + 31) / 32 * 32
	}
	w.Write(make([]byte, (32-w.Len()%32)%32))
	if g.data != nil {
		for _, name := range slices.Sorted(maps.Keys(g.tensors)) {
			put(g.data[name])
			w.Write(make([]byte, (32-w.Len()%32)%32))
		}
		return w.Bytes()
	}
	if g.types != nil { // no pair of these bytes is an infinite float16 number or a NaN
		random := rand.New(rand.NewPCG(1, 1))
		for range offset {
			w.WriteByte(byte(random.Uint32()) &^ 0x84)
		}
		return w.Bytes()
	}
	for i := range offset / 4 {
		put(float32(i))
	}
	return w.Bytes()
}

func (g ggufFile) write(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	write(t, path, g.encode())
	return path
}

// Tokens whose texts end completions do so if the file names none.
func TestGGUFEnds(t *testing.T) {
	for _, c := range []struct {
		named any
		want  []int32
	}{{nil, []int32{2, 1}}, {uint32(3), []int32{3}}, {uint32(1<<32 - 1), []int32{2, 1}}} {
		g := tinyGGUF()
		tokens := make([]string, 16)
		copy(tokens, []string{"a", "</s>", "<|im_end|>", "b"})
		g.values["tokenizer.ggml.tokens"] = tokens
		if c.named != nil {
			g.values["tokenizer.ggml.eos_token_id"] = c.named
		}
		if got := openTest(t, g.write(t)).Config.EOS; !slices.Equal(got, c.want) {
			t.Errorf("%v is named: completions end at %v, want %v", c.named, got, c.want)
		}
	}
}

func TestGGUFDefaults(t *testing.T) {
	c := openTest(t, tinyGGUF().write(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	cfg := c.Config
	if cfg.VocabSize != 16 || !cfg.TieEmbeddings || cfg.Ropes[0].Theta != 1e4 || cfg.BOS != -1 || cfg.EOS != nil ||
		cfg.HeadDim != 4 ||
		cfg.DType != dtypes.Float32 || c.TokenizerSource() != "" {
		t.Errorf("config is %+v", cfg)
	}
	// Heads of 4 rows are stored 0, 2, 1, 3.
	stored := c.tensors["model.layers.0.self_attn.q_proj.weight"].data
	flat, err := c.Read("model.layers.0.self_attn.q_proj.weight", dtypes.Float32)
	if err != nil {
		t.Fatal(err)
	}
	for row, from := range []int{0, 2, 1, 3, 4, 6, 5, 7} {
		want := math.Float32frombits(binary.LittleEndian.Uint32(stored[4*8*from:]))
		if got := flat.([]float32)[8*row]; got != want {
			t.Errorf("row %d starts with %v, want %v", row, got, want)
		}
	}
}

func TestGGUFOptions(t *testing.T) {
	g := tinyGGUF()
	g.values["llama.attention.head_count_kv"] = []uint32{1}
	g.values["llama.rope.scale_linear"] = float32(4)
	g.values["llama.attention.sliding_window"] = uint32(32)
	g.values["tokenizer.ggml.bos_token_id"] = uint32(math.MaxUint32)
	g.values["tokenizer.ggml.eos_token_id"] = uint32(3)
	g.values["tokenizer.ggml.eot_token_id"] = uint32(3)
	g.values["tokenizer.ggml.model"] = "gpt2"
	g.values["tokenizer.chat_template"] = "T"
	g.values["llama.pooling_type"] = uint32(3)
	g.tensors["output.weight"] = []int{16, 8}
	g.tensors["blk.0.attn_q.bias"], g.tensors["blk.0.attn_k.bias"], g.tensors["blk.0.attn_v.bias"] = []int{8}, []int{4},
		[]int{4}
	g.tensors["blk.0.attn_sinks.weight"] = []int{2}
	path := g.write(t)
	c := openTest(t, path)
	warnings, err := c.Validate()
	if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "blk.0.attn_sinks.weight") {
		t.Errorf("warnings %v, error %v", warnings, err)
	}
	cfg := c.Config
	if cfg.NumKVHeads != 1 || cfg.Ropes[0].Scaling == nil ||
		*cfg.Ropes[0].Scaling != (RopeScaling{Type: "linear", Factor: 4, AttentionFactor: 1}) ||
		cfg.Layers[0].Window != 32 || cfg.BOS != -1 || !slices.Equal(cfg.EOS, []int32{3}) ||
		cfg.TieEmbeddings || !cfg.Layers[0].QKVBias ||
		c.TokenizerSource() != path {
		t.Errorf("config is %+v, scaling %+v, tokenizer %q", cfg, cfg.Ropes[0].Scaling, c.TokenizerSource())
	}
	if s := c.Sentence; s.Pooling != sentence.Last || !s.Stated {
		t.Errorf("vectors are pooled as %+v", s)
	}
	dummy, err := OpenConfig(path)
	if err != nil || dummy.TokenizerSource() != path {
		t.Errorf("without its weights it has tokenizer %q (%v)", dummy.TokenizerSource(), err)
	}
	g.values["tokenizer.ggml.model"] = "none"
	if source := openTest(t, g.write(t)).TokenizerSource(); source != "" {
		t.Errorf("without a vocabulary it has tokenizer %q", source)
	}
}

func TestGGUFRefusals(t *testing.T) {
	for name, c := range map[string]struct {
		spoil       func(g ggufFile)
		want        string
		unsupported bool
	}{
		"architecture": {func(g ggufFile) { g.values["general.architecture"] = "mamba" },
			`GGUF architecture "mamba"`, true},
		"no architecture": {func(g ggufFile) { delete(g.values, "general.architecture") }, "GGUF architecture", true},
		"split": {func(g ggufFile) { g.values["split.count"] = uint32(3) }, "NAME-00001-of-00003.gguf",
			false},
		"unknown key": {func(g ggufFile) { g.values["llama.logit_scale"] = float32(2) },
			`GGUF key "llama.logit_scale"`, true},
		"rank without a head": {func(g ggufFile) { g.values["llama.pooling_type"] = uint32(4) },
			`"llama.pooling_type" is 4: 1 (mean), 2 (cls) and 3 (last) are supported, and 4 (rank) with a head`, false},
		"experts of a dense model": {func(g ggufFile) {
			g.values["llama.expert_count"], g.values["llama.expert_used_count"] = uint32(8), uint32(2)
		}, "no layer has experts", false},
		"experts of another architecture": {func(g ggufFile) {
			g.values["general.architecture"] = "qwen3"
			for key, v := range g.values {
				if rest, ok := strings.CutPrefix(key, "llama."); ok {
					g.values["qwen3."+rest] = v
				}
			}
			g.values["qwen3.expert_count"] = uint32(8)
		}, "mixture of 8 experts", true},
		"experts not chosen": {func(g ggufFile) { mixture(g); delete(g.values, "llama.expert_used_count") },
			`"llama.expert_used_count" is missing`, false},
		"a tensor for each expert": {func(g ggufFile) {
			mixture(g)
			g.tensors["blk.0.ffn_up.0.weight"] = []int{12, 8}
		}, "blk.0.ffn_up.0.weight", true},
		"experts missing": {func(g ggufFile) { mixture(g); delete(g.tensors, "blk.0.ffn_down_exps.weight") },
			"blk.0.ffn_down_exps.weight is missing", false},
		"too few experts": {func(g ggufFile) { mixture(g); g.tensors["blk.0.ffn_gate_exps.weight"] = []int{2, 12, 8} },
			"blk.0.ffn_gate_exps.weight has shape [2 12 8], but expert_count is 3", false},
		"gates and ups in one, too few": {func(g ggufFile) {
			mixture(g)
			g.tensors["blk.0.ffn_gate_up_exps.weight"] = []int{3, 20, 8}
		}, "blk.0.ffn_gate_up_exps.weight has shape [3 20 8], but the config implies [3 24 8]", false},
		"weights of shares": {func(g ggufFile) { mixture(g); g.values["llama.expert_weights_scale"] = float32(2) },
			`GGUF key "llama.expert_weights_scale"`, true},
		"partial rotary": {func(g ggufFile) { g.values["llama.rope.dimension_count"] = uint32(2) },
			"rope.dimension_count 2", true},
		"value length": {func(g ggufFile) { g.values["llama.attention.value_length"] = uint32(8) },
			"value_length 8", true},
		"not causal": {func(g ggufFile) { g.values["llama.attention.causal"] = false }, "not causal", true},
		"longrope":   {func(g ggufFile) { g.values["llama.rope.scaling.type"] = "longrope" }, `"longrope"`, true},
		"per-layer heads": {func(g ggufFile) { g.values["llama.attention.head_count_kv"] = []uint32{1, 2} },
			"differs between layers", true},
		"rope factors":     {func(g ggufFile) { g.tensors["rope_freqs.weight"] = []int{2} }, "rope_freqs.weight", true},
		"rope factor size": {func(g ggufFile) { g.tensors["rope_freqs.weight"] = []int{3} }, "not 2 elements", false},
		"missing key": {func(g ggufFile) { delete(g.values, "llama.block_count") },
			`"llama.block_count" is missing`, false},
		"missing eps": {func(g ggufFile) { delete(g.values, "llama.attention.layer_norm_rms_epsilon") }, "rms_norm_eps",
			false},
		"key of wrong type": {func(g ggufFile) { g.values["llama.block_count"] = "one" },
			`"llama.block_count" is no integer`, false},
		"layers huge": {func(g ggufFile) { g.values["llama.block_count"] = uint32(1 << 30) }, "num_hidden_layers",
			false},
		"no heads": {func(g ggufFile) { g.values["llama.attention.head_count"] = uint32(0) },
			"num_attention_heads is 0", false},
		"no embedding": {func(g ggufFile) { delete(g.tensors, "token_embd.weight") },
			"token_embd.weight is missing", false},
		"flat embedding": {func(g ggufFile) { g.tensors["token_embd.weight"] = []int{8} },
			"token_embd.weight is missing", false},
		"eos outside": {func(g ggufFile) { g.values["tokenizer.ggml.eos_token_id"] = uint32(16) },
			"eos_token_id 16", false},
		"two of one name": {func(g ggufFile) { g.tensors["model.norm.weight"] = []int{8} }, "model.norm.weight",
			false},
		"kv heads too few": {func(g ggufFile) { g.values["llama.attention.head_count_kv"] = uint32(0) },
			"num_key_value_heads is 0", false},
	} {
		t.Run(name, func(t *testing.T) {
			g := tinyGGUF()
			c.spoil(g)
			path := g.write(t)
			_, err := Open(path)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			var u *UnsupportedError
			if errors.As(err, &u) != c.unsupported || !strings.Contains(err.Error(), c.want) ||
				!strings.Contains(err.Error(), path) {
				t.Errorf("the error should say %q and name the file (unsupported feature: %v): %v", c.want,
					c.unsupported, err)
			}
		})
	}
}

// FuzzOpenGGUF: give -fuzzminimizetime=10x with -fuzz; reads run on several goroutines, whose varying coverage keeps
// the fuzzer shrinking inputs for ever.
func FuzzOpenGGUF(f *testing.F) {
	f.Add(tinyGGUF().encode())
	g := tinyGGUF()
	g.values["general.architecture"], g.values["llama.rope.scaling.type"] = "llama", "yarn"
	g.values["llama.rope.scaling.factor"] = float32(4)
	g.tensors["blk.0.attn_q.bias"], g.tensors["rope_freqs.weight"] = []int{8}, []int{2}
	f.Add(g.encode())
	g = tinyGGUF()
	mixture(g)
	f.Add(g.encode())
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := gguf.Parse("fuzz", data)
		if err != nil {
			return
		}
		c := &Checkpoint{tensors: map[string]*tensor{}}
		if err := addGGUF(c, file, "fuzz", nil); err != nil {
			return
		}
		c.finish()
		c.FingerPrint()
		if c.Config.NumLayers <= 64 {
			c.Validate()
		}
		for _, name := range c.Names() {
			if c.tensors[name].elements() > 1<<16 {
				continue
			}
			if _, err := c.Read(name, dtypes.BFloat16); err != nil {
				t.Fatal(err)
			}
		}
	})
}
