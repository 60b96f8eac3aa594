package models

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/sentence"
)

// A GGUF file of a Qwen3 reranker, as llama.cpp's converter writes it, has the head that its folder gets: the rows of
// the output matrix for yes and no. Other heads are refused.
func TestAnswersOfGGUF(t *testing.T) {
	folder, err := Open(filepath.Join("..", "testdata", "classifiers", "qwen3-reranker"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { folder.Close() })
	if err := ScoreAnswers(folder, sentence.Answers{Yes: 7, No: 3}); err != nil {
		t.Fatal(err)
	}
	c := &folder.Config
	file := func() ggufFile {
		return ggufFile{values: map[string]any{"general.architecture": "qwen3",
			"qwen3.block_count": uint32(c.NumLayers), "qwen3.context_length": uint32(c.MaxPositions),
			"qwen3.embedding_length":    uint32(c.HiddenSize),
			"qwen3.feed_forward_length": uint32(c.IntermediateSize), "qwen3.attention.head_count": uint32(c.NumHeads),
			"qwen3.attention.head_count_kv": uint32(c.NumKVHeads), "qwen3.attention.key_length": uint32(c.HeadDim),
			"qwen3.attention.value_length": uint32(c.HeadDim), "qwen3.rope.freq_base": float32(10000),
			"qwen3.attention.layer_norm_rms_epsilon": float32(1e-6), "qwen3.pooling_type": uint32(4),
			"qwen3.classifier.output_labels": []string{"yes", "no"}},
			tensors: map[string][]int{}, types: map[string]gguf.Type{}, data: map[string][]float32{}}
	}
	whole := file()
	for tensor := range c.Tensors() {
		numbers, err := folder.Read(tensor.Name, dtypes.Float32)
		if err != nil {
			t.Fatal(err)
		}
		whole.tensors[tensor.GGUF], whole.data[tensor.GGUF] = tensor.Shape, numbers.([]float32)
	}
	if whole.tensors["cls.output.weight"] == nil {
		t.Fatalf("the head is not cls.output.weight: %v", whole.tensors)
	}
	got, err := Open(whole.write(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { got.Close() })
	if _, err := got.Validate(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Config.Classifier, c.Classifier) || !reflect.DeepEqual(got.Config.Dense, c.Dense) ||
		!reflect.DeepEqual(got.Config.Layers, c.Layers) || got.Sentence.Pooling != folder.Sentence.Pooling {
		t.Errorf("the file has %+v, %+v and %q, the folder %+v, %+v and %q", got.Config.Classifier, got.Config.Dense,
			got.Sentence.Pooling, c.Classifier, c.Dense, folder.Sentence.Pooling)
	}
	for tensor := range c.Tensors() {
		numbers, err := got.Read(tensor.Name, dtypes.Float32)
		if err != nil || !reflect.DeepEqual(numbers, any(whole.data[tensor.GGUF])) {
			t.Errorf("%s differs from the folder's: %v", tensor.Name, err)
		}
	}
	for want, spoil := range map[string]func(g ggufFile){
		`a head of a decoder with the labels ["no" "yes"] in a GGUF file`: func(g ggufFile) {
			g.values["qwen3.classifier.output_labels"] = []string{"no", "yes"}
		},
		"no tensor cls.output.weight with as many rows": func(g ggufFile) { delete(g.tensors, "cls.output.weight") },
	} {
		g := file()
		g.tensors, g.data = map[string][]int{}, whole.data
		for name, shape := range whole.tensors {
			g.tensors[name] = shape
		}
		spoil(g)
		if _, err := Open(g.write(t)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error should say %q: %v", want, err)
		}
	}
}
