// Package llama is the decoder of the Llama family: Llama 2 to 3.2, Mistral, Qwen2, Qwen3, SmolLM2 and SmolLM3 differ by what
// [models.Config] says and by nothing else.
//
// It builds graphs and knows no files: [Arrays] names the arrays it wants and which tensors of a checkpoint make them.
package llama

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/linear"
	"github.com/quire/quire/models"
)

// Storage says how the arrays of a model are held.
type Storage struct {
	// Backend is where: its kernels may want matrices packed. nil holds all as a checkpoint does.
	Backend compute.Backend
	// DType is of the arrays and of activations: Float32, BFloat16 or Float16.
	DType dtypes.DType
	// Int8 holds matrices as 8-bit numbers, each row with a scale.
	Int8 bool
}

// Array is one array of the model on the device.
type Array struct {
	// Name is the array's; "layers.3.qkv.weight" for instance.
	Name string
	// Shape is [out] of a bias or a norm. Matrices [out, in] are as package linear holds them.
	Shape shapes.Shape
	// Sources are the checkpoint's tensors, by their Hugging Face names, stacked on the first axis to make it.
	Sources []string

	part   part
	format linear.Format // of the matrix
	read   dtypes.DType  // what the sources are read as
}

// Matrix returns how the array holds a matrix; ok is false for other arrays.
func (a Array) Matrix() (f linear.Format, ok bool) { return a.format, a.part == matrix }

// part is what of its sources an array holds.
type part int

const (
	vector part = iota
	matrix
	scales
)

// Arrays lists the arrays of a model, in the order that programs take them. Projections that read the same input are one
// array: q, k and v; gate and up.
func Arrays(cfg models.Config, s Storage) []Array {
	var list []Array
	addVector := func(name string, size int, sources ...string) {
		list = append(list, Array{Name: name, Shape: shapes.Make(s.DType, size), Sources: sources, read: s.DType})
	}
	addMatrix := func(name string, gateUp bool, out, in int, sources ...string) {
		dtype := s.DType
		if s.Int8 {
			dtype = dtypes.Int8
		}
		a := Array{Name: name, Sources: sources, part: matrix, read: s.DType, format: linear.NewFormat(s.Backend, dtype, out, in, gateUp)}
		a.Shape = a.format.Shape()
		if s.Int8 {
			a.read = dtypes.Float32
		}
		list = append(list, a)
		if s.Int8 {
			a.Name, a.part, a.Shape = name+scalesSuffix, scales, a.format.ScalesShape()
			list = append(list, a)
		}
	}
	hidden, head := cfg.HiddenSize, cfg.HeadDim
	addMatrix("embed", false, cfg.VocabSize, hidden, "model.embed_tokens.weight")
	for i := range cfg.NumLayers {
		to, from := fmt.Sprintf("layers.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		layer := func(name string, bias bool, out, in int, sources ...string) {
			full := func(suffix string) []string {
				names := make([]string, len(sources))
				for j, s := range sources {
					names[j] = from + s + suffix
				}
				return names
			}
			addMatrix(to+name+".weight", name == "gate_up", out, in, full(".weight")...)
			if bias {
				addVector(to+name+".bias", out, full(".bias")...)
			}
		}
		addVector(to+"attention_norm", hidden, from+"input_layernorm.weight")
		layer("qkv", cfg.QKVBias, (cfg.NumHeads+2*cfg.NumKVHeads)*head, hidden, "self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")
		if cfg.QKNorm {
			addVector(to+"q_norm", head, from+"self_attn.q_norm.weight")
			addVector(to+"k_norm", head, from+"self_attn.k_norm.weight")
		}
		layer("o", cfg.OBias, hidden, cfg.NumHeads*head, "self_attn.o_proj")
		addVector(to+"mlp_norm", hidden, from+"post_attention_layernorm.weight")
		layer("gate_up", cfg.MLPBias, 2*cfg.IntermediateSize, hidden, "mlp.gate_proj", "mlp.up_proj")
		layer("down", cfg.MLPBias, hidden, cfg.IntermediateSize, "mlp.down_proj")
	}
	addVector("norm", hidden, "model.norm.weight")
	if !cfg.TieEmbeddings {
		addMatrix("lm_head", false, cfg.VocabSize, hidden, "lm_head.weight")
	}
	return list
}

const scalesSuffix = ".scales"

// Weights holds the arrays of a model as graph nodes, by name.
type Weights struct {
	nodes    map[string]*graph.Node
	matrices map[string]linear.Format
	dtype    dtypes.DType // of activations
}

// NewWeights names nodes in the order of [Arrays].
func NewWeights(arrays []Array, nodes []*graph.Node) Weights {
	w := Weights{nodes: make(map[string]*graph.Node, len(arrays)), matrices: map[string]linear.Format{}}
	for i, a := range arrays {
		w.nodes[a.Name] = nodes[i]
		switch a.part {
		case matrix:
			w.matrices[a.Name] = a.format
		case vector:
			w.dtype = a.Shape.DType
		}
	}
	return w
}

func (w Weights) get(name string) *graph.Node {
	n, ok := w.nodes[name]
	if !ok {
		panic(fmt.Errorf("llama: the model has no array %q", name))
	}
	return n
}

func (w Weights) matrix(name string) linear.Weight {
	return linear.Weight{Format: w.matrices[name], Data: w.get(name), Scales: w.nodes[name+scalesSuffix]}
}
