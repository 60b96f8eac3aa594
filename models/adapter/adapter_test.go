package adapter_test

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/adapter"
)

// tensor is a tensor of a file that a test writes.
type tensor struct {
	name, dtype string
	shape       []int
}

// safetensors is a file of zeros.
func safetensors(tensors ...tensor) []byte {
	header, offset := map[string]any{}, 0
	for _, t := range tensors {
		size := map[string]int{"F32": 4, "BF16": 2, "I8": 1}[t.dtype]
		for _, d := range t.shape {
			size *= d
		}
		header[t.name] = map[string]any{"dtype": t.dtype, "shape": t.shape,
			"data_offsets": []int{offset, offset + size}}
		offset += size
	}
	text, _ := json.Marshal(header)
	var out bytes.Buffer
	_ = binary.Write(&out, binary.LittleEndian, uint64(len(text)))
	out.Write(text)
	out.Write(make([]byte, offset))
	return out.Bytes()
}

func write(t testing.TB, config string, weights []byte) string {
	dir := t.TempDir()
	for name, data := range map[string][]byte{adapter.ConfigFile: []byte(config), adapter.WeightsFile: weights} {
		if data == nil || name == adapter.ConfigFile && config == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

const (
	plain  = `{"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj", "o_proj"]}`
	module = "base_model.model.model.layers.1.self_attn.q_proj."
)

// pair is a module's tensors that fit llama3.
func pair() []tensor {
	return []tensor{{module + "lora_A.weight", "F32", []int{4, 32}}, {module + "lora_B.weight", "F32", []int{32, 4}}}
}

func base(t testing.TB) *models.Config {
	return &testenv.Model(t, "llama3").Config
}

func TestOpen(t *testing.T) {
	a, err := adapter.Open(write(t, plain, safetensors(pair()...)), base(t))
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	const name = "model.layers.1.self_attn.q_proj.weight"
	if !slices.Equal(a.Tensors(), []string{name}) || a.Rank != 4 || len(a.Digest) != 64 {
		t.Errorf("%v, rank %d, digest %s", a.Tensors(), a.Rank, a.Digest)
	}
	low, ok, err := a.Read(name)
	if err != nil || !ok || low.Rank != 4 || low.Scale != 2 || len(low.A) != 4*32 || len(low.B) != 32*4 {
		t.Errorf("%v %v %v", low, ok, err)
	}
	if _, ok, err := a.Read("model.layers.0.self_attn.q_proj.weight"); ok || err != nil {
		t.Errorf("a matrix that is not adapted: %v %v", ok, err)
	}
}

// What is not plain LoRA of known projections, or does not fit the base, is an error that names it.
func TestRefusals(t *testing.T) {
	with := func(settings string) string { return strings.TrimSuffix(plain, "}") + ", " + settings + "}" }
	shaped := func(a, b []int) []tensor {
		list := pair()
		list[0].shape, list[1].shape = a, b
		return list
	}
	named := func(name string) []tensor { return append(pair(), tensor{name, "F32", []int{4, 32}}) }
	for name, c := range map[string]struct {
		config  string
		tensors []tensor
		want    string
	}{
		"no config":    {"", pair(), "there is no adapter_config.json"},
		"no weights":   {plain, nil, "it has no adapter_model.safetensors"},
		"no JSON":      {"{", pair(), "not the JSON object of an adapter"},
		"another kind": {`{"peft_type": "IA3"}`, pair(), `peft_type is "IA3"`},
		"DoRA":         {with(`"use_dora": true`), pair(), "has no lora_magnitude_vector, and use_dora is true"},
		"other lengths": {with(`"use_dora": true`), append(pair(), tensor{module + "lora_magnitude_vector", "F32",
			[]int{31}}), "has 32 outputs"},
		"saved modules":     {with(`"modules_to_save": ["lm_head"]`), pair(), `modules_to_save is ["lm_head"]`},
		"biases":            {with(`"bias": "lora_only"`), pair(), `bias is "lora_only"`},
		"PiSSA":             {with(`"init_lora_weights": "pissa_niter_4"`), pair(), "init_lora_weights is"},
		"rank 0":            {with(`"r": 0`), pair(), "r is 0"},
		"rank of a pattern": {with(`"rank_pattern": {"q_proj": 0.5}`), pair(), "rank_pattern gives rank 0.5"},
		"no modules":        {`{"peft_type": "LORA"}`, pair(), "target_modules names no module"},
		"lookahead":         {`{"peft_type": "LORA", "target_modules": "(?=q)"}`, pair(), "list the modules' names"},
		"another rank":      {with(`"rank_pattern": {"q_proj": 2}`), pair(), "gives its module rank 2"},
		"a missing half":    {plain, pair()[:1], "has only one of lora_A and lora_B"},
		"another width":     {plain, shaped([]int{4, 33}, []int{32, 4}), "of the base takes 32"},
		"other outputs":     {plain, shaped([]int{4, 32}, []int{31, 4}), "has 32 outputs"},
		"ranks that differ": {plain, shaped([]int{4, 32}, []int{32, 3}), "does not fit rank 4"},
		"a vector":          {plain, shaped([]int{32}, []int{32, 4}), "a matrix was expected"},
		"no such layer": {plain, named("base_model.model.model.layers.9.self_attn.q_proj.lora_A.weight"),
			"has only one of"},
		"not a target": {plain, named("base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight"),
			"leave out its module"},
		"a module left out":   {with(`"exclude_modules": ["q_proj"]`), pair(), "leave out its module"},
		"modules left out":    {with(`"exclude_modules": ".*self_attn.*"`), pair(), "leave out its module"},
		"a layer left out":    {with(`"layers_to_transform": [0]`), pair(), "leave out its module"},
		"excluded what":       {with(`"exclude_modules": 7`), pair(), "neither a list of names nor"},
		"an unknown kind":     {with(`"use_magic": true`), pair(), "use_magic is true, which Quire does not know"},
		"a mistyped rank":     {`{"peft_type": "LORA", "r": "4"}`, pair(), "r is a JSON string, which it cannot be"},
		"a list":              {"[]", pair(), "not the JSON object of an adapter"},
		"a running model's":   {plain, named(module + "lora_A.default.weight"), "save_pretrained"},
		"a matrix of lengths": {plain, named(module + "lora_magnitude_vector"), "a vector was expected"},
		"lengths": {plain, append(pair(), tensor{module + "lora_magnitude_vector", "F32", []int{32}}),
			"is of DoRA, and use_dora is not true"},
		"half of embeddings": {strings.Replace(plain, "o_proj", "embed_tokens", 1),
			named("base_model.model.model.embed_tokens.lora_embedding_A"), "has only one of"},
		"pairs of embeddings": {`{"peft_type": "LORA", "r": 4, "target_modules": ["embed_tokens"]}`, []tensor{
			{"base_model.model.model.embed_tokens.lora_A.weight", "F32", []int{4, 32}},
			{"base_model.model.model.embed_tokens.lora_B.weight", "F32", []int{256, 4}}}, "is not what adapters of"},
		"a copy of another shape": {strings.Replace(plain, "o_proj", "embed_tokens", 1),
			named("base_model.model.model.embed_tokens.base_layer.weight"), "embed_tokens.weight of the base has"},
		"a whole matrix":     {plain, named("base_model.model.lm_head.weight"), "whole parameter"},
		"a name not of PEFT": {plain, named("layers.0.lora_A.weight"), "does not begin with"},
		"an unknown tensor":  {plain, named("base_model.model.x"), "is neither"},
		"no tensors":         {plain, []tensor{}, "has no tensors"},
		"bytes":              {plain, []tensor{{module + "lora_A.weight", "I8", []int{4, 32}}}, "dtype I8"},
		"no such module": {`{"peft_type": "LORA", "r": 4, "target_modules": ["lm_tail"]}`, []tensor{
			{"base_model.model.lm_tail.lora_A.weight", "F32", []int{4, 32}},
			{"base_model.model.lm_tail.lora_B.weight", "F32", []int{256, 4}}}, "no matrix of this name"},
	} {
		t.Run(name, func(t *testing.T) {
			var weights []byte
			if c.tensors != nil {
				weights = safetensors(c.tensors...)
			}
			_, err := adapter.Open(write(t, c.config, weights), base(t))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// The digest changes with each number and each scale, and not with the place.
func TestDigest(t *testing.T) {
	digest := func(config string, weights []byte) string {
		a, err := adapter.Open(write(t, config, weights), base(t))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return a.Digest
	}
	weights := safetensors(pair()...)
	first := digest(plain, weights)
	if digest(plain, weights) != first {
		t.Error("a copy has another digest")
	}
	if digest(strings.Replace(plain, `"lora_alpha": 8`, `"lora_alpha": 9`, 1), weights) == first {
		t.Error("another scale has the same digest")
	}
	weights[len(weights)-1] ^= 1
	if digest(plain, weights) == first {
		t.Error("another number has the same digest")
	}
}

// Adapters that PEFT wrote fit the checkpoints that they were made for, also as GGUF files of these.
func TestAdaptersOfPEFT(t *testing.T) {
	folders, err := filepath.Glob(testenv.Path("testdata", "adapters", "*"))
	if err != nil || len(folders) < 5 {
		t.Fatal(folders, err)
	}
	for _, folder := range folders {
		text, err := os.ReadFile(filepath.Join(folder, adapter.ConfigFile))
		if err != nil {
			t.Fatal(err)
		}
		var config struct {
			Model string `json:"base_model_name_or_path"`
		}
		if err := json.Unmarshal(text, &config); err != nil {
			t.Fatal(err)
		}
		a, err := adapter.Open(folder, &testenv.Model(t, config.Model).Config)
		if err != nil {
			t.Error(err)
			continue
		}
		a.Close()
	}
}

// The base's own matrix in an adapter's file has the base's numbers, up to the last one.
func TestCopies(t *testing.T) {
	testCopies(t, "llama3", "llama3-head", "base_model.model.model.embed_tokens.base_layer.weight")
	testCopies(t, "llama32-tied", "llama32-tied", "base_model.model.lm_head.base_layer.weight")
}

func testCopies(t *testing.T, model, folder, name string) {
	base, err := models.Open(testenv.Path("testdata", "models", model))
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	from := testenv.Path("testdata", "adapters", folder)
	config, err := os.ReadFile(filepath.Join(from, adapter.ConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(from, adapter.WeightsFile))
	if err != nil {
		t.Fatal(err)
	}
	size := int(binary.LittleEndian.Uint64(weights))
	var header map[string]struct {
		Offsets []int `json:"data_offsets"`
	}
	if err := json.Unmarshal(weights[8:8+size], &header); err != nil {
		t.Fatal(err)
	}
	last := 8 + size + header[name].Offsets[1] - 1
	for _, changed := range []byte{0, 1} {
		weights[last] ^= changed
		a, err := adapter.Open(write(t, string(config), weights), &base.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		err = a.ForRows(base)
		if changed == 0 && err != nil || changed == 1 && (err == nil ||
			!strings.Contains(err.Error(), name+`" differs from the base's model.embed_tokens.weight`)) {
			t.Errorf("%s changed by %d: %v", folder, changed, err)
		}
	}
}

// An adapter of tied embeddings is not folded into them, which would change both products.
func TestTiedEmbeddingsAreNotMerged(t *testing.T) {
	for model, folder := range map[string]string{"gemma3": "gemma3-head", "llama32-tied": "llama32-tied"} {
		base, err := models.Open(testenv.Path("testdata", "models", model))
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		a, err := adapter.Open(testenv.Path("testdata", "adapters", folder), &base.Config)
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		if err := a.MergeInto(base); err == nil || !strings.Contains(err.Error(), "are one matrix of this base") {
			t.Errorf("%s: %v", folder, err)
		}
	}
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte(plain), []byte(nil))
	f.Add([]byte(`{"peft_type": "LORA", "target_modules": "all-linear", "rank_pattern": {"a.*": 2}}`), []byte(nil))
	f.Add([]byte(plain), safetensors(pair()...))
	config := base(f)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text, weights []byte) {
		if weights == nil {
			weights = safetensors(pair()...)
		}
		for name, data := range map[string][]byte{adapter.ConfigFile: text, adapter.WeightsFile: weights} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		a, err := adapter.Open(dir, config)
		if err != nil {
			return
		}
		defer a.Close()
		for _, name := range a.Tensors() {
			if low, ok, err := a.Read(name); err != nil || !ok || low.Rank < 1 || len(low.A)%low.Rank != 0 {
				t.Fatalf("%s: %v %v %v", name, low, ok, err)
			}
		}
	})
}

// A file of llama.cpp's converter has the numbers of the folder that it was made of, in the base's order.
func TestGGUFLikeFolder(t *testing.T) {
	for _, name := range []string{"llama3", "phi3", "glm4", "gemma3"} {
		config := &testenv.Model(t, name).Config
		var both [2]*adapter.Adapter
		for i, file := range []string{"adapters/" + name, "gguf-adapters/" + name + adapter.Extension} {
			var err error
			if both[i], err = adapter.Open(testenv.Path("testdata", file), config); err != nil {
				t.Fatal(err)
			}
			defer both[i].Close()
		}
		if !slices.Equal(both[0].Tensors(), both[1].Tensors()) {
			t.Errorf("%s: %v and %v", name, both[0].Tensors(), both[1].Tensors())
		}
		for _, tensor := range both[0].Tensors() {
			a, _, errA := both[0].Read(tensor)
			b, _, errB := both[1].Read(tensor)
			if errA != nil || errB != nil || !reflect.DeepEqual(a, b) {
				t.Errorf("%s, %s: %v %v", name, tensor, errA, errB)
			}
		}
	}
}

// A GGUF file that is no adapter of the base is an error that names what is wrong.
func TestGGUFRefusals(t *testing.T) {
	for file, want := range map[string]string{
		testenv.Path("testdata", "gguf-adapters", "phi3.gguf"):        `general.architecture is "phi3"`,
		testenv.Path("models", "testdata", "llama-bias-fused.gguf"):   `general.type is`,
		testenv.Path("testdata", "adapters", "llama3", "README.gguf"): "no such file",
	} {
		if _, err := adapter.Open(file, base(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
