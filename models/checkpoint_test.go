package models

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/models/arch"
)

const tinyModels = "../testdata/models"

func openTest(t *testing.T, ref string) *Checkpoint {
	t.Helper()
	c, err := Open(ref)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func TestTinyModelsAreWhole(t *testing.T) {
	dirs, err := filepath.Glob(filepath.Join(tinyModels, "*"))
	if err != nil || len(dirs) < 10 {
		t.Fatalf("tiny models are missing: %v, %v", dirs, err)
	}
	prints := map[string]string{}
	for _, dir := range dirs {
		t.Run(filepath.Base(dir), func(t *testing.T) {
			c := openTest(t, dir)
			warnings, err := c.Validate()
			if err != nil || len(warnings) > 0 {
				t.Fatalf("warnings %v, error %v", warnings, err)
			}
			var elements int64
			for _, name := range c.Names() {
				flat, err := c.Read(name, dtypes.Float32)
				if err != nil {
					t.Fatal(err)
				}
				elements += int64(len(flat.([]float32)))
			}
			if elements != c.NumParameters() {
				t.Errorf("read %d elements, NumParameters is %d", elements, c.NumParameters())
			}
			size := int64(4)
			if c.Config.DType == dtypes.BFloat16 {
				size = 2
			}
			if c.StoredBytes() != size*elements {
				t.Errorf("stored bytes are %d for %d elements of %s", c.StoredBytes(), elements, c.Config.DType)
			}
			if other, twice := prints[c.FingerPrint()]; twice {
				t.Errorf("fingerprint equals that of %s", other)
			}
			prints[c.FingerPrint()] = dir
		})
	}
}

func TestShardsReadAsOne(t *testing.T) {
	whole, sharded := openTest(t, filepath.Join(tinyModels, "llama3")),
		openTest(t, filepath.Join(tinyModels, "llama3-sharded"))
	sameTensors(t, sharded, whole, dtypes.Float32)
	// The same weights in bfloat16: rounding f32 as we read gives the file's bits.
	sameTensors(t, openTest(t, filepath.Join(tinyModels, "llama3-bf16")), whole, dtypes.BFloat16)
}

// The experts of gpt-oss as they are published, in MXFP4, are the numbers that transformers decodes.
func TestMXFP4(t *testing.T) {
	c := openTest(t, "testdata/gpt-oss-mxfp4")
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	floats := openTest(t, filepath.Join(tinyModels, "gpt-oss"))
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		sameTensors(t, c, floats, dtype)
	}
	for _, name := range []string{"up_proj.weight", "down_proj.weight"} { // rows and columns, as devices have them
		name = "model.layers.1.mlp.experts.2." + name
		for _, f := range []func(c *Checkpoint) (any, error){
			func(c *Checkpoint) (any, error) { return c.ReadRows(name, dtypes.Float32, Span{3, 9}) },
			func(c *Checkpoint) (any, error) {
				return c.ReadColumns(name, dtypes.BFloat16, []Span{{1, 4}, {16, 9}})
			},
		} {
			got, err := f(c)
			if err != nil {
				t.Fatal(err)
			}
			want, err := f(floats)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(rawBits(got), rawBits(want)) {
				t.Errorf("a part of %s differs", name)
			}
		}
	}
	for spec := range c.Config.Tensors() { // as blocks, whole and cut
		is := spec.Experts > 0 && len(spec.Shape) == 2
		if is != (c.Blocks(spec.Name) == blocks.MXFP4) {
			t.Errorf("%s is in blocks of %s", spec.Name, c.Blocks(spec.Name))
		}
		if !is {
			continue
		}
		want, err := floats.ReadRows(spec.Name, dtypes.Float32, Span{5, 20})
		if err != nil {
			t.Fatal(err)
		}
		for _, columns := range [][]Span{nil, {{0, 32}}} {
			if got, err := c.ReadBlocks(spec.Name, Span{5, 20}, columns); err != nil {
				t.Fatal(err)
			} else if !slices.Equal(got.Floats(), want.([]float32)) {
				t.Errorf("the blocks of %s are other numbers", spec.Name)
			}
		}
	}
	if got, want := c.StoredBytes(), floats.StoredBytes()-3*6*3*32*32*(4*32-17)/32; got != want {
		t.Errorf("stored bytes are %d, want %d", got, want)
	}
	extremes := make([]float32, 96) // nibbles 1 and 2 by the least exponent, 7 and 15 by the largest, 0 by none
	decodeMXFP4(extremes, slices.Concat(slices.Repeat([]byte{0x21}, 16), slices.Repeat([]byte{0xf7}, 16),
		make([]byte, 16)), []byte{0, 254, 255})
	if extremes[0] != 0x1p-128 || extremes[1] != 0x1p-127 || extremes[32] != float32(math.Inf(1)) ||
		extremes[33] != float32(math.Inf(-1)) || extremes[64] == extremes[64] {
		t.Errorf("numbers are %g, %g, %g, %g and %g", extremes[0], extremes[1], extremes[32], extremes[33],
			extremes[64])
	}
}

// sameTensors reads both checkpoints in dtype and compares bits.
func sameTensors(t *testing.T, got, want *Checkpoint, dtype dtypes.DType) {
	t.Helper()
	if !slices.Equal(got.Names(), want.Names()) {
		t.Fatalf("names are %v, want %v", got.Names(), want.Names())
	}
	for _, name := range want.Names() {
		whole := func(shape []int) []int { // GGUF files have no axes of 1 in a convolution
			return slices.DeleteFunc(slices.Clone(shape), func(n int) bool { return n == 1 })
		}
		if !slices.Equal(whole(got.Shape(name)), whole(want.Shape(name))) {
			t.Errorf("%s has shape %v, want %v", name, got.Shape(name), want.Shape(name))
		}
		a, err := got.Read(name, dtype)
		if err != nil {
			t.Fatal(err)
		}
		b, err := want.Read(name, dtype)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(rawBits(a), rawBits(b)) {
			t.Errorf("%s differs as %s", name, dtype)
		}
	}
}

// fusedInGGUF reports that gates and ups of all experts are in one tensor of a GGUF file.
func fusedInGGUF(c *Config) {
	for i := range c.Layers {
		c.Layers[i].Experts.Fused = arch.FusedInGGUF
	}
}

// tile reports that columns after delta nets are as in GGUF files.
func tile(c *Config) {
	for i := range c.Layers {
		c.Layers[i].Delta.Tiled = c.Layers[i].Mixer == arch.Delta
	}
}

// converted makes of a folder's tensors what llama.cpp's converter does: columns by value heads in the order of its
// _LinearAttentionVReorderBase, weights of norms rounded as one is added.
func converted(folder *Checkpoint, cfg Config) {
	for want := range cfg.Tensors() {
		t, d := folder.tensors[want.Name], cfg.Layers[want.Layer].Delta
		decode := t.decode
		switch {
		case want.Part == arch.DeltaOut && d.Tiled:
			width, group := d.Values(), d.ValueHeads/d.KeyHeads
			t.native, t.unit = dtypes.InvalidDType, width
			t.decode = func(dst []float32, first int) {
				decode(dst, first)
				for ; len(dst) > 0; dst = dst[width:] {
					row, to := slices.Clone(dst[:width]), dst
					for of := range group {
						for key := range d.KeyHeads {
							to = to[copy(to, row[(key*group+of)*d.ValueDim:][:d.ValueDim]):]
						}
					}
				}
			}
		case want.Part.IsNorm() && cfg.Norm.Offset != 0:
			t.native = dtypes.InvalidDType
			t.decode = func(dst []float32, first int) {
				decode(dst, first)
				for i := range dst {
					dst[i] += float32(cfg.Norm.Offset)
					dst[i] -= float32(cfg.Norm.Offset)
				}
			}
		}
	}
}

// TestGGUFLikeFolder compares tiny checkpoints with GGUF files converted from them, in float16, by scripts/oracle.
func TestGGUFLikeFolder(t *testing.T) {
	adapt := map[string]func(c *Config){
		"llama-bias": func(c *Config) { // the converter was given llama3 scaling
			c.Ropes[0].Theta = 5e5
			c.Ropes[0].Scaling = &RopeScaling{Type: "llama3", Factor: 8, LowFreqFactor: 1, HighFreqFactor: 4,
				AttentionFactor: 1, OriginalMaxPositions: 8192}
		},
		"qwen2": func(c *Config) { // and here of yarn
			c.Ropes[0].Scaling = &RopeScaling{Type: "yarn", Factor: 4, BetaFast: 32, BetaSlow: 1, Truncate: true,
				AttentionFactor: 0.1*math.Log(4) + 1, OriginalMaxPositions: 40}
		},
		"qwen3": func(c *Config) {},
		"smollm3": func(c *Config) { // GGUF cannot state otherwise
			for i := range c.Layers {
				c.Layers[i].Rope = arch.FullRope
				if i == 3 {
					c.Layers[i].Rope = arch.NoRope
				}
			}
		},
		"olmo2": func(c *Config) {},
		"olmo3": func(c *Config) {},
		"phi3":  func(c *Config) {},
		"phi4-mini": func(c *Config) { // all the format holds, as below
			s := *c.Ropes[0].Scaling
			s.AttentionFactor = float64(float32(s.AttentionFactor))
			c.Ropes = []Rope{{Theta: c.Ropes[0].Theta, Dims: c.Ropes[0].Dims, Scaling: &s}}
		},
		"granite": func(c *Config) { c.ResidualScale = float64(float32(c.ResidualScale)) },
		"granite-moe-shared": func(c *Config) {
			c.ResidualScale = float64(float32(c.ResidualScale))
			for i := range c.Layers {
				c.Layers[i].Experts.Fused = arch.NotFused
			}
		},
		"granite4-moe": func(c *Config) {
			c.ResidualScale = float64(float32(c.ResidualScale))
			for i := range c.Layers {
				c.Layers[i].Experts.Fused = arch.NotFused
			}
		},
		"granite4": func(c *Config) { // the format has no bounds of steps
			c.ResidualScale = float64(float32(c.ResidualScale))
			for i := range c.Layers {
				c.Layers[i].Mamba.MinStep, c.Layers[i].Mamba.MaxStep = 0, 0
			}
		},
		"lfm2": func(c *Config) {},
		"qwen3-next": func(c *Config) {
			for i := range c.Layers {
				c.Layers[i].Experts.Fused = arch.NotFused
			}
		},
		"qwen35": tile,
		"qwen35-moe": func(c *Config) {
			for i := range c.Layers {
				c.Layers[i].Experts.Fused = arch.NotFused
			}
			tile(c)
		},
		"glm4":      func(c *Config) {},
		"mixtral":   func(c *Config) {},
		"qwen3-moe": func(c *Config) {},
		"olmoe":     func(c *Config) {},
		"gpt-oss": func(c *Config) {
			c.EOS = append(c.EOS, 255) // <|call|>
			for i := range c.Layers {
				c.Layers[i].Experts.Fused = arch.NotFused
			}
		},
		"ernie":    func(c *Config) {},
		"seed-oss": func(c *Config) {},
		"stablelm": func(c *Config) {},
		"starcoder2": func(c *Config) { // the format has no key for the window
			for i := range c.Layers {
				c.Layers[i].Window = 0
			}
		},
		"gemma3": func(c *Config) {
			for i := range c.Layers {
				c.Layers[i].Scale = 1 / math.Sqrt(float64(c.HeadDim))
			}
		},
		"glm4-moe": scaleOfGGUF,
		"lfm2-moe": func(c *Config) { // the format has no key for what shares are multiplied by
			for i := range c.Layers {
				c.Layers[i].Experts.Scale = min(c.Layers[i].Experts.Scale, 1)
			}
		},
		"qwen35-moe-fused": func(c *Config) {
			fusedInGGUF(c)
			tile(c)
		},
		"deepseek-v2":      scaleOfGGUF,
		"deepseek-v2-lite": yarnOfDeepSeek,
		"deepseek-v3":      yarnOfDeepSeek,
		"deepseek-v3-old": func(c *Config) { // groups came later
			yarnOfDeepSeek(c)
			for i := range c.Layers {
				if e := &c.Layers[i].Experts; e.Groups > 0 {
					e.Groups, e.ChosenGroups = 1, 1
				}
			}
		},
		"gemma4":           func(c *Config) {},
		"gemma4-large":     func(c *Config) {},
		"gemma4-moe":       fusedInGGUF,
		"llama-bias-fused": func(c *Config) {},
		"gemma2": func(c *Config) { // nor what queries are scaled by
			for i := range c.Layers {
				c.Layers[i].Scale = 1 / math.Sqrt(float64(c.HeadDim))
			}
		},
	}
	for name, change := range adapt {
		t.Run(name, func(t *testing.T) {
			folder := openTest(t, filepath.Join(tinyModels, strings.TrimSuffix(strings.TrimSuffix(name, "-old"),
				"-fused")))
			file := openTest(t, filepath.Join("testdata", name+".gguf"))
			warnings, err := file.Validate()
			if err != nil || len(warnings) > 0 {
				t.Fatalf("warnings %v, error %v", warnings, err)
			}
			for _, name := range arch.RopeTensors {
				delete(file.tensors, name)
			}
			file.finish()
			converted(folder, file.Config)
			sameTensors(t, file, folder, dtypes.Float16)
			want := folder.Config
			want.BOS, want.EOS, want.DType = 1, []int32{2, 5}, dtypes.Float16
			want.RMSNormEps = float64(float32(want.RMSNormEps)) // all the format holds
			change(&want)
			a, _ := json.Marshal(file.Config)
			b, _ := json.Marshal(want)
			if string(a) != string(b) {
				t.Errorf("config is\n%s, want\n%s", a, b)
			}
		})
	}
}

// smollm2 finds the demo model where `sample setup` puts it.
func smollm2(t testing.TB) string {
	path, err := setup.FindModel("smollm2")
	if err != nil {
		t.Fatalf("this test needs the demo model (`make test` fetches it): %v", err)
	}
	return path
}

// TestSmolLM2LikeTransformers compares every dequantized, reordered tensor with what transformers loads from the same
// file.
func TestSmolLM2LikeTransformers(t *testing.T) {
	data, err := os.ReadFile("testdata/smollm2.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]struct {
		Shape  []int
		SHA256 string
		First  []float32
	}
	if err := json.Unmarshal(data, &want); err != nil {
		t.Fatal(err)
	}
	c := openTest(t, smollm2(t))
	if warnings, err := c.Validate(); err != nil || len(warnings) > 0 {
		t.Fatalf("warnings %v, error %v", warnings, err)
	}
	if len(c.Names()) != len(want) {
		t.Errorf("%d tensors, want %d", len(c.Names()), len(want))
	}
	for name, w := range want {
		if !slices.Equal(c.Shape(name), w.Shape) {
			t.Errorf("%s has shape %v, want %v", name, c.Shape(name), w.Shape)
			continue
		}
		flat, err := c.Read(name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		x := flat.([]float32)
		sum := sha256.Sum256(unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x)))
		if hex.EncodeToString(sum[:]) != w.SHA256 {
			t.Errorf("%s differs; it starts with %v, transformers has %v", name, x[:4], w.First)
		}
	}
	cfg := c.Config
	if cfg.Architecture != "LlamaForCausalLM" || cfg.NumParameters() != 134_515_008 || !cfg.TieEmbeddings ||
		cfg.BOS != 1 ||
		!slices.Equal(cfg.EOS, []int32{2}) || cfg.Ropes[0].Theta != 1e5 || cfg.MaxPositions != 8192 ||
		cfg.HeadDim != 64 {
		t.Errorf("config is %+v", cfg)
	}
	if c.TokenizerSource() != c.tensors[arch.NameEmbedding].file {
		t.Errorf("tokenizer %q", c.TokenizerSource())
	}
}

func TestReadErrors(t *testing.T) {
	c := openTest(t, filepath.Join(tinyModels, "llama2"))
	if _, err := c.Read("nothing.weight", dtypes.Float32); !errors.Is(err, ErrNoTensor) ||
		!strings.Contains(err.Error(), "nothing.weight") {
		t.Errorf("a missing tensor gave %v", err)
	}
	if _, err := c.Read(arch.NameFinalNorm, dtypes.Int8); err == nil || !strings.Contains(err.Error(), "Int8") {
		t.Errorf("reading as int8 gave %v", err)
	}
	if c.Shape("nothing.weight") != nil || c.Encoding("nothing.weight") != "" ||
		c.Encoding(arch.NameFinalNorm) != "F32" {
		t.Error("shape or encoding of a missing tensor")
	}
	c.Release("nothing.weight")
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Errorf("closing twice gave %v", err)
	}
	if _, err := c.Read(arch.NameFinalNorm, dtypes.Float32); !errors.Is(err, ErrNoTensor) {
		t.Errorf("reading after Close gave %v", err)
	}
}

func TestValidateListsAll(t *testing.T) {
	c := openTest(t, filepath.Join(tinyModels, "llama2"))
	for i := range c.Config.Layers { // three biases a layer that are not there
		c.Config.Layers[i].QKVBias = true
	}
	c.Config.IntermediateSize = 50 // three wrong shapes a layer
	c.Config.TieEmbeddings = true  // lm_head is not needed, which is not a warning
	norm := *c.tensors[arch.NameFinalNorm]
	norm.stored, norm.decode = "F8_E4M3", nil
	c.tensors[arch.NameFinalNorm] = &norm
	c.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = &tensor{}
	c.tensors["model.extra"] = &tensor{shape: []int{3}, file: "some.safetensors"}
	c.finish()
	warnings, err := c.Validate()
	if err == nil {
		t.Fatal("the checkpoint was accepted")
	}
	for _, want := range []string{"model.layers.0.self_attn.q_proj.bias is missing (expected shape [32])",
		"model.layers.1.self_attn.v_proj.bias is missing",
		"model.layers.1.mlp.down_proj.weight has shape [32 48], but the config implies [32 50]",
		"model.norm.weight has dtype F8_E4M3"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error should say %q: %v", want, err)
		}
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "model.extra [3] in some.safetensors") {
		t.Errorf("warnings are %q", warnings)
	}
}

func BenchmarkRead(b *testing.B) {
	c, err := Open(smollm2(b))
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16} {
		b.Run(dtype.String(), func(b *testing.B) {
			b.SetBytes(c.NumParameters() * int64(dtype.Size()))
			for range b.N {
				for _, name := range c.Names() {
					if _, err := c.Read(name, dtype); err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}
