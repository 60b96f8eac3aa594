// Package llama is the decoder of the Llama family: Llama 2 to 3.2, Mistral, Qwen2, Qwen3, SmolLM2 and SmolLM3 differ by what
// [models.Config] says and by nothing else.
//
// It builds graphs and knows no files: [Arrays] names the arrays it wants and which tensors of a checkpoint make them.
package llama

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/models"
)

// Array is one array of the model on the device.
type Array struct {
	// Name is the array's; "layers.3.qkv.weight" for instance.
	Name string
	// Shape is [out, in] for a matrix, [out] for a bias or a norm.
	Shape []int
	// Sources are the checkpoint's tensors, by their Hugging Face names, stacked on the first axis to make it.
	Sources []string
}

// Size is the number of elements.
func (p Array) Size() int {
	n := 1
	for _, d := range p.Shape {
		n *= d
	}
	return n
}

// Arrays lists the arrays of a model, in the order that programs take them. Projections that read the same input are one
// array: q, k and v; gate and up.
func Arrays(cfg models.Config) []Array {
	var list []Array
	add := func(name string, shape []int, sources ...string) {
		list = append(list, Array{Name: name, Shape: shape, Sources: sources})
	}
	hidden, head := cfg.HiddenSize, cfg.HeadDim
	add("embed", []int{cfg.VocabSize, hidden}, "model.embed_tokens.weight")
	for i := range cfg.NumLayers {
		to, from := fmt.Sprintf("layers.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		linear := func(name string, bias bool, out, in int, sources ...string) {
			full := make([]string, len(sources))
			for j, s := range sources {
				full[j] = from + s + ".weight"
			}
			add(to+name+".weight", []int{out, in}, full...)
			if bias {
				biases := make([]string, len(sources))
				for j, s := range sources {
					biases[j] = from + s + ".bias"
				}
				add(to+name+".bias", []int{out}, biases...)
			}
		}
		add(to+"attention_norm", []int{hidden}, from+"input_layernorm.weight")
		linear("qkv", cfg.QKVBias, (cfg.NumHeads+2*cfg.NumKVHeads)*head, hidden, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		if cfg.QKNorm {
			add(to+"q_norm", []int{head}, from+"self_attn.q_norm.weight")
			add(to+"k_norm", []int{head}, from+"self_attn.k_norm.weight")
		}
		linear("o", cfg.OBias, hidden, cfg.NumHeads*head, "self_attn.o_proj")
		add(to+"mlp_norm", []int{hidden}, from+"post_attention_layernorm.weight")
		linear("gate_up", cfg.MLPBias, 2*cfg.IntermediateSize, hidden, "mlp.gate_proj", "mlp.up_proj")
		linear("down", cfg.MLPBias, hidden, cfg.IntermediateSize, "mlp.down_proj")
	}
	add("norm", []int{hidden}, "model.norm.weight")
	if !cfg.TieEmbeddings {
		add("lm_head", []int{cfg.VocabSize, hidden}, "lm_head.weight")
	}
	return list
}

// Weights holds the arrays of a model as graph nodes, by name.
type Weights map[string]*graph.Node

// NewWeights names nodes in the order of [Arrays].
func NewWeights(params []Array, nodes []*graph.Node) Weights {
	w := make(Weights, len(params))
	for i, p := range params {
		w[p.Name] = nodes[i]
	}
	return w
}

func (w Weights) get(name string) *graph.Node {
	n, ok := w[name]
	if !ok {
		panic(fmt.Errorf("llama: the model has no array %q", name))
	}
	return n
}

// Read returns an array's values in the dtype asked for, as a flat slice: its sources, one behind the other.
func (p Array) Read(from *models.Checkpoint, dtype dtypes.DType) (any, error) {
	if len(p.Sources) == 1 {
		return from.Read(p.Sources[0], dtype)
	}
	all := reflect.MakeSlice(reflect.SliceOf(dtype.GoType()), 0, p.Size())
	for _, source := range p.Sources {
		flat, err := from.Read(source, dtype)
		if err != nil {
			return nil, err
		}
		all = reflect.AppendSlice(all, reflect.ValueOf(flat))
		from.Release(source)
	}
	if all.Len() != p.Size() {
		return nil, fmt.Errorf("%s has %d values, %v are needed", p.Name, all.Len(), p.Shape)
	}
	return all.Interface(), nil
}
