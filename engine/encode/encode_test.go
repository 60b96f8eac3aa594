package encode_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/sentence"
)

// golden is what transformers makes of a row.
type golden struct {
	IDs                         []int32
	Mean, CLS, Last, Max, Dense []float32
	Products                    []float32 // of the dense layers' matrices alone
}

// of returns the vector of a pooling.
func (g golden) of(p sentence.Pooling) []float32 {
	if g.Dense != nil && p == sentence.Mean {
		return g.Dense
	}
	return map[sentence.Pooling][]float32{sentence.Mean: g.Mean, sentence.CLS: g.CLS, sentence.Last: g.Last,
		sentence.Max: g.Max}[p]
}

func encoderPath(name string) string { return testenv.Path("testdata", "encoders", name) }

func readGoldens(t *testing.T, name string) (list []golden) {
	t.Helper()
	f, err := os.Open(filepath.Join(encoderPath(name), "vectors.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err == nil {
		err = json.NewDecoder(z).Decode(&list)
	}
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func open(t *testing.T, name string) *models.Checkpoint {
	t.Helper()
	model, err := models.Open(encoderPath(name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = model.Close() })
	return model
}

func newEncoder(t *testing.T, cfg encode.Config) *encode.Encoder {
	t.Helper()
	if cfg.Backend == nil {
		cfg.Backend = testenv.XLA(t)
	}
	e, err := encode.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// vectors returns the vectors of rows, in their order.
func vectors(t *testing.T, e *encode.Encoder, rows [][]int32) [][]float32 {
	t.Helper()
	var list [][]float32
	for c, err := range e.Run(t.Context(), requestsOf(rows)) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		list = append(list, c.Vector)
	}
	if len(list) != len(rows) {
		t.Fatalf("%d vectors of %d rows", len(list), len(rows))
	}
	return list
}

func requestsOf(rows [][]int32) iter.Seq[*engine.Request] {
	return func(yield func(*engine.Request) bool) {
		for _, row := range rows {
			if !yield(&engine.Request{Tokens: row}) {
				return
			}
		}
	}
}

func idsOf(goldens []golden) (rows [][]int32) {
	for _, g := range goldens {
		rows = append(rows, g.IDs)
	}
	return rows
}

// apart is the largest difference of two vectors' numbers.
func apart(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	most := 0.0
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

// names are the tiny checkpoints, with the ways to pool that are tested.
var names = map[string][]sentence.Pooling{"bert": sentence.Poolings, "roberta": {sentence.Mean},
	"xlm-roberta": {sentence.CLS}, "mpnet": {sentence.Mean}, "distilbert": {sentence.Mean}, "modernbert": {sentence.CLS,
		sentence.Mean}, "nomic-bert": {sentence.Mean}, "gte": {sentence.CLS}, "gte-ntk": {sentence.CLS},
	"embedding-gemma": {sentence.Mean}, "qwen3-embedding": {sentence.Last}}

// wide is the config of an encoder in float32 that takes rows of all lengths that the model does.
func wide(m *models.Checkpoint) encode.Config {
	return encode.Config{Model: m, DType: dtypes.Float32, MaxModelLen: m.Config.MaxPositions, StepTokens: 128}
}

// Each family has the hidden states of transformers, with the kernels and with ordinary operations.
func TestVectorsEqualTransformers(t *testing.T) {
	for name, poolings := range names {
		t.Run(name, func(t *testing.T) {
			model, goldens := open(t, name), readGoldens(t, name)
			backends := map[string]compute.Backend{"kernels": testenv.XLA(t)}
			if !testing.Short() || name == "mpnet" || name == "modernbert" || name == "qwen3-embedding" {
				backends["plain"] = testenv.XLAWithoutKernels(t)
			}
			for kind, backend := range backends {
				for _, p := range poolings {
					cfg := wide(model)
					cfg.Backend, cfg.Pooling = backend, p
					for i, v := range vectors(t, newEncoder(t, cfg), idsOf(goldens)) {
						if d := apart(v, goldens[i].of(p)); !(d < 2e-5) {
							t.Errorf("%s, %s, %d tokens: %g apart from transformers", kind, p, len(goldens[i].IDs), d)
						}
					}
				}
			}
		})
	}
}

// GGUF files of encoders, made by llama.cpp's converter, have the hidden states of their checkpoints, but for what F16
// rounds.
func TestGGUFLikeFolder(t *testing.T) {
	for _, name := range []string{"bert", "nomic-bert", "embedding-gemma"} {
		model, goldens := open(t, name+".gguf"), readGoldens(t, name)
		if s := model.Sentence; s.Pooling != sentence.Mean || !s.Stated || s.Normalize {
			t.Errorf("%s: its settings are read as %+v", name, s)
		}
		cfg := wide(model)
		cfg.MaxModelLen = 80
		for i, v := range vectors(t, newEncoder(t, cfg), idsOf(goldens)) {
			want := goldens[i].Mean
			if goldens[i].Products != nil {
				want = goldens[i].Products
			}
			if d := apart(v, want); !(d < 5e-3) {
				t.Errorf("%s, %d tokens: %g apart from transformers", name, len(goldens[i].IDs), d)
			}
		}
	}
}

// What the configs of the families say matters: without it, vectors are others.
func TestFeaturesMatter(t *testing.T) {
	layers := func(change func(l *arch.Layer)) func(c *models.Config) {
		return func(c *models.Config) {
			for i := range c.Layers {
				change(&c.Layers[i])
			}
		}
	}
	causal := layers(func(l *arch.Layer) { l.Ahead = 0 })
	for _, c := range []struct {
		name, feature string
		change        func(c *models.Config)
	}{
		{"bert", "attention both ways", causal},
		{"bert", "positions", func(c *models.Config) { c.Encoder.Positions = 0 }},
		{"bert", "types", func(c *models.Config) { c.Encoder.Types = 0 }},
		{"bert", "norm of embeddings", func(c *models.Config) { c.Encoder.EmbeddingNorm = false }},
		{"bert", "norms of sums", layers(func(l *arch.Layer) { l.MLPNorm = arch.Norms{} })},
		{"bert", "exact gelu", layers(func(l *arch.Layer) { l.Activation = arch.SiLU })},
		{"roberta", "the first position", func(c *models.Config) { c.Encoder.FirstPosition = 0 }},
		{"mpnet", "biases by distance", func(c *models.Config) { c.Encoder.Buckets = 0 }},
		{"modernbert", "windows", layers(func(l *arch.Layer) { l.Window, l.Ahead = 0, arch.AllAhead })},
		{"modernbert", "windows after a token", layers(func(l *arch.Layer) {
			if l.Window > 0 {
				l.Ahead = 0
			}
		})},
		{"modernbert", "local rope", layers(func(l *arch.Layer) { l.Rope = arch.FullRope })},
		{"nomic-bert", "rope", layers(func(l *arch.Layer) { l.Rope = arch.NoRope })},
		{"gte", "the bias of the last matrix", layers(func(l *arch.Layer) { l.DownBias = false })},
		{"gte-ntk", "ntk", func(c *models.Config) { c.Ropes[0].Scaling = nil }},
		{"embedding-gemma", "attention both ways", causal},
		{"embedding-gemma", "dense layers", func(c *models.Config) { c.Dense = nil }},
	} {
		if testing.Short() && c.name != "mpnet" && c.name != "modernbert" {
			continue
		}
		t.Run(c.name+"/"+c.feature, func(t *testing.T) {
			model, goldens := open(t, c.name), readGoldens(t, c.name)
			c.change(&model.Config)
			cfg := wide(model)
			cfg.Pooling = sentence.Mean
			most := 0.0
			for i, v := range vectors(t, newEncoder(t, cfg), idsOf(goldens)) {
				most = max(most, apart(v, goldens[i].of(sentence.Mean)))
			}
			if most < 1e-3 {
				t.Error("it makes no difference")
			}
		})
	}
}

// randomRows are rows of a model, of several lengths.
func randomRows(model *models.Checkpoint, n int) (rows [][]int32) {
	rng := rand.New(rand.NewPCG(3, 4))
	for i := range n {
		row := make([]int32, 1+rng.IntN(1+rng.IntN(min(80, model.Config.MaxPositions))))
		for k := range row {
			row[k] = int32(3 + (7*i+k*k)%(model.Config.VocabSize-3))
		}
		rows = append(rows, row)
	}
	return rows
}

// A row has the same bytes alone and beside others, in any order, in steps of any size, and with ordinary operations
// too.
func TestSameBytes(t *testing.T) {
	for _, c := range []struct {
		name    string
		backend compute.Backend
	}{{"modernbert", testenv.XLA(t)}, {"mpnet", testenv.XLA(t)}, {"qwen3-embedding", testenv.XLA(t)},
		{"bert", testenv.XLAWithoutKernels(t)}} {
		t.Run(c.name, func(t *testing.T) {
			model, rng := open(t, c.name), rand.New(rand.NewPCG(3, 4))
			rows := randomRows(model, 150)
			cfg := wide(model)
			cfg.Backend = c.backend
			first := vectors(t, newEncoder(t, cfg), rows)
			cfg.StepTokens = 400
			large := newEncoder(t, cfg)
			order := rng.Perm(len(rows))
			var mixed [][]int32
			for _, i := range order {
				mixed = append(mixed, rows[i])
			}
			for k, v := range vectors(t, large, mixed) {
				if !slices.Equal(v, first[order[k]]) {
					t.Fatalf("row %d of %d tokens has another vector in another order and larger steps", order[k],
						len(mixed[k]))
				}
			}
			for i := range 5 {
				if !slices.Equal(vectors(t, large, rows[i:i+1])[0], first[i]) {
					t.Errorf("row %d has another vector alone", i)
				}
			}
		})
	}
}

// Weights in 16 bits, in bytes and in blocks give vectors near those of float32, and a row's bytes do not depend on the
// others.
func TestFormsOfWeights(t *testing.T) {
	model := open(t, "bert")
	var rows [][]int32
	for n := range 12 {
		row := []int32{3}
		for k := range 5 * n {
			row = append(row, int32(3+(k*k+n)%60))
		}
		rows = append(rows, row)
	}
	exact := vectors(t, newEncoder(t, wide(model)), rows)
	for name, change := range map[string]func(c *encode.Config){
		"bf16": func(c *encode.Config) { c.DType = dtypes.BFloat16 },
		"f16":  func(c *encode.Config) { c.DType = dtypes.Float16 },
		"int8": func(c *encode.Config) { c.Weights = "int8" },
		"q8_0": func(c *encode.Config) { c.Weights = "q8_0" },
	} {
		cfg := wide(model)
		change(&cfg)
		e := newEncoder(t, cfg)
		got := vectors(t, e, rows)
		for i := range rows {
			a, b, product := 0.0, 0.0, 0.0
			for k, x := range exact[i] {
				y := got[i][k]
				a, b, product = a+float64(x)*float64(x), b+float64(y)*float64(y), product+float64(x)*float64(y)
			}
			if cosine := product / math.Sqrt(a*b); !(cosine > 0.999) {
				t.Errorf("%s: row %d has a cosine of %g with float32", name, i, cosine)
			}
			if !slices.Equal(vectors(t, e, rows[i:i+1])[0], got[i]) {
				t.Errorf("%s: row %d has other bytes alone", name, i)
			}
		}
	}
}

// Quire's backend in Go computes the same.
func TestGoBackend(t *testing.T) {
	model, goldens := open(t, "bert"), readGoldens(t, "bert")
	cfg := wide(model)
	cfg.Backend, cfg.StepTokens = testenv.Go(t), 80
	for i, v := range vectors(t, newEncoder(t, cfg), idsOf(goldens)) {
		if d := apart(v, goldens[i].Mean); !(d < 2e-5) {
			t.Errorf("%d tokens: %g apart from transformers", len(goldens[i].IDs), d)
		}
	}
}

// A request that can't be run is an answer of its own, at its place.
func TestRefusedRequests(t *testing.T) {
	model := open(t, "bert")
	e := newEncoder(t, wide(model))
	long := slices.Repeat([]int32{5}, model.Config.MaxPositions+1)
	rows := [][]int32{{3, 4}, nil, {5}, long, {3, int32(model.Config.VocabSize)}, {-1}, {6, 7, 8}}
	want := []error{nil, engine.ErrEmptyPrompt, nil, engine.ErrPromptTooLong, engine.ErrInvalidRequest,
		engine.ErrInvalidRequest, nil}
	i := 0
	for c, err := range e.Run(t.Context(), requestsOf(rows)) {
		if err != nil {
			t.Fatal(err)
		}
		if !errors.Is(c.Err, want[i]) || (c.Vector == nil) != (want[i] != nil) {
			t.Errorf("row %d: %v, want %v", i, c.Err, want[i])
		}
		if check := wide(model).Check(c.Request); !errors.Is(check, want[i]) {
			t.Errorf("row %d: Check returns %v, want %v", i, check, want[i])
		}
		i++
	}
	if i != len(rows) {
		t.Errorf("%d answers of %d", i, len(rows))
	}
}

// A source that waits for the completions of its earlier requests gets them: steps need not be full.
func TestSourceMayWait(t *testing.T) {
	e, done := newEncoder(t, wide(open(t, "bert"))), make(chan bool)
	requests := func(yield func(*engine.Request) bool) {
		for range 3 {
			if !yield(&engine.Request{Tokens: []int32{3, 4, 5}}) {
				return
			}
			<-done
		}
	}
	n := 0
	for c, err := range e.Run(t.Context(), requests) {
		if err != nil || c.Err != nil {
			t.Fatal(err, c.Err)
		}
		n++
		done <- true
	}
	if n != 3 {
		t.Errorf("%d completions of 3", n)
	}
}

// A run that its caller stops, or whose context ends, ends.
func TestRunStops(t *testing.T) {
	e := newEncoder(t, wide(open(t, "bert")))
	rows := slices.Repeat([][]int32{{3, 4, 5}}, 1000)
	for range e.Run(t.Context(), requestsOf(rows)) {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var last error
	for _, err := range e.Run(ctx, requestsOf(rows)) {
		last = err
	}
	if !errors.Is(last, context.Canceled) {
		t.Errorf("the run ended with %v", last)
	}
	if got := vectors(t, e, rows[:3]); len(got) != 3 {
		t.Error("a run after these has other results")
	}
}

// What only encodes generates no text, and what an encoder lacks is refused, both by name.
func TestRefusedModels(t *testing.T) {
	for name, want := range map[string]string{"bert": "BertModel only encodes",
		"embedding-gemma": "Gemma3TextModel only encodes", "qwen3-embedding": "Qwen3Model only encodes"} {
		_, err := engine.New(t.Context(), engine.Config{Model: open(t, name), Backend: testenv.XLA(t)})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	mamba, err := models.Open(testenv.Path("testdata", "models", "granite4"))
	if err != nil {
		t.Fatal(err)
	}
	defer mamba.Close()
	_, err = encode.New(t.Context(), encode.Config{Model: mamba, Backend: testenv.XLA(t)})
	if err == nil || !strings.Contains(err.Error(), "which is no attention, in an encoder") {
		t.Errorf("granite4: %v", err)
	}
}
