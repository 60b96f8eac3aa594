// Package llama is the decoder of the Llama family: Llama 2 to 3.2, Mistral, Qwen2, Qwen3, SmolLM2 and SmolLM3 differ
// by what [models.Config] says and by nothing else.
//
// It builds graphs and knows no files: [Arrays] names the arrays it wants and which tensors of a checkpoint make them.
package llama

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/collective"
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
	// LayerLoop holds the arrays of all layers as one, [layers, ...], and makes [Hidden] run them as a loop: a program
	// is smaller by the number of layers. Not every model can be: see [CheckLayerLoop].
	LayerLoop bool
}

// Array is one array of the model on the device.
type Array struct {
	// Name is the array's: "layers.3.qkv.weight" for instance, or "layers.qkv.weight" of all layers.
	Name string
	// Shape is [out] of a bias or a norm. Matrices [out, in] are as package linear holds them. Where several devices
	// run the model together, it is that of each device's array.
	Shape shapes.Shape

	part    part
	sources []source      // stacked on the first axis to make it
	format  linear.Format // of the matrix
	read    dtypes.DType  // what the sources are read as
	share   int           // of firstRow
	layers  []Array       // what a stack is made of
}

// source is a tensor of the checkpoint, [rows, width] or, with width 1, [rows].
type source struct {
	name        string // its Hugging Face name
	rows, width int
	// columns says that spans are of columns, not of rows; spans are what a device has of the tensor.
	columns bool
	spans   func(device int) []span
}

// Matrix returns how the array holds a matrix; ok is false for other arrays.
func (a Array) Matrix() (f linear.Format, ok bool) { return a.format, a.part == matrix }

// part is what of its sources an array holds.
type part int

const (
	vector part = iota
	matrix
	scales
	firstRow // the number of the first row of the vocabulary that the device has
)

// Arrays lists the arrays of a model, in the order that programs take them. Projections that read the same input are
// one array: q, k and v; gate and up. Where the backend is a group of devices, the arrays are those of one device: see
// [Partition].
func Arrays(cfg models.Config, s Storage) []Array {
	split := NewPartition(cfg, collective.Devices(s.Backend))
	var list []Array
	addVector := func(name string, size int, sources ...source) {
		list = append(list, Array{Name: name, Shape: shapes.Make(s.DType, size), sources: sources, read: s.DType})
	}
	addMatrix := func(name string, gateUp bool, out, in int, sources ...source) {
		dtype := s.DType
		if s.Int8 {
			dtype = dtypes.Int8
		}
		a := Array{Name: name, sources: sources, part: matrix, read: s.DType,
			format: linear.NewFormat(s.Backend, linear.Matrix{Out: out, In: in, GateUp: gateUp, DType: dtype})}
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
	whole := func(size int) func(int) []span { return func(int) []span { return []span{{0, 0, size}} } }
	norm := func(name string, size int) source {
		return source{name: name, rows: size, width: 1, spans: whole(size)}
	}
	words := func(name string) source {
		return source{name: name, rows: cfg.VocabSize, width: hidden,
			spans: func(d int) []span { return block(d, split.Vocab, cfg.VocabSize) }}
	}
	queries := func(d int) []span { return split.queries(d, head) }
	keys := func(d int) []span { return split.keys(d, head) }
	columns := func(d int) []span { return block(d, split.Intermediate, cfg.IntermediateSize) }

	addMatrix("embed", false, split.Vocab, hidden, words("model.embed_tokens.weight"))
	if split.Devices > 1 {
		list = append(list, Array{Name: firstRowName, Shape: shapes.Make(dtypes.Int32), part: firstRow,
			share: split.Vocab})
	}
	for i := range cfg.NumLayers {
		to, from := fmt.Sprintf("layers.%d.", i), fmt.Sprintf("model.layers.%d.", i)
		// A layer whose outputs are shared out: the rows of its tensors stand one behind the other.
		outputs := func(name string, bias bool, out int, sources ...source) {
			of := func(suffix string, width int) []source {
				list := make([]source, len(sources))
				for j, s := range sources {
					s.name, s.width = from+s.name+suffix, width
					list[j] = s
				}
				return list
			}
			addMatrix(to+name+".weight", name == "gate_up", out, hidden, of(".weight", hidden)...)
			if bias {
				addVector(to+name+".bias", out, of(".bias", 1)...)
			}
		}
		// A layer whose inputs are shared out: what the devices get of its outputs is to be added up, and then the
		// bias.
		inputs := func(name string, bias bool, in, all int, tensor string, spans func(int) []span) {
			addMatrix(to+name+".weight", false, hidden, in, source{name: from + tensor + ".weight", rows: hidden,
				width: all, columns: true, spans: spans})
			if bias {
				addVector(to+name+".bias", hidden, norm(from+tensor+".bias", hidden))
			}
		}
		addVector(to+"attention_norm", hidden, norm(from+"input_layernorm.weight", hidden))
		outputs("qkv", cfg.QKVBias, (split.Heads()+2*split.KVHeads)*head,
			source{name: "self_attn.q_proj", rows: cfg.NumHeads * head, spans: queries},
			source{name: "self_attn.k_proj", rows: cfg.NumKVHeads * head, spans: behind(split.Heads()*head, keys)},
			source{name: "self_attn.v_proj", rows: cfg.NumKVHeads * head,
				spans: behind((split.Heads()+split.KVHeads)*head, keys)})
		if cfg.QKNorm {
			addVector(to+"q_norm", head, norm(from+"self_attn.q_norm.weight", head))
			addVector(to+"k_norm", head, norm(from+"self_attn.k_norm.weight", head))
		}
		inputs("o", cfg.OBias, split.Heads()*head, cfg.NumHeads*head, "self_attn.o_proj", queries)
		addVector(to+"mlp_norm", hidden, norm(from+"post_attention_layernorm.weight", hidden))
		outputs("gate_up", cfg.MLPBias, 2*split.Intermediate,
			source{name: "mlp.gate_proj", rows: cfg.IntermediateSize, spans: columns},
			source{name: "mlp.up_proj", rows: cfg.IntermediateSize, spans: behind(split.Intermediate, columns)})
		inputs("down", cfg.MLPBias, split.Intermediate, cfg.IntermediateSize, "mlp.down_proj", columns)
	}
	addVector("norm", hidden, norm("model.norm.weight", hidden))
	if !cfg.TieEmbeddings {
		addMatrix("lm_head", false, split.Vocab, hidden, words("lm_head.weight"))
	}
	if s.LayerLoop {
		return stack(list)
	}
	return list
}

// behind moves the places of spans back.
func behind(rows int, spans func(device int) []span) func(device int) []span {
	return func(device int) []span {
		moved := spans(device)
		for i := range moved {
			moved[i].to += rows
		}
		return moved
	}
}

const firstRowName = "embed.first"

const scalesSuffix = ".scales"

// Weights holds the arrays of a model as graph nodes, by name.
type Weights struct {
	nodes    map[string]*graph.Node
	matrices map[string]linear.Format
	dtype    dtypes.DType // of activations
	stacked  bool         // the arrays of layers are [layers, ...]
	prefix   string       // before the names of one layer's arrays
}

// NewWeights names nodes in the order of [Arrays].
func NewWeights(arrays []Array, nodes []*graph.Node) Weights {
	w := Weights{nodes: make(map[string]*graph.Node, len(arrays)), matrices: map[string]linear.Format{}}
	for i, a := range arrays {
		w.nodes[a.Name] = nodes[i]
		w.stacked = w.stacked || a.layers != nil
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
	n, ok := w.nodes[w.prefix+name]
	if !ok {
		panic(fmt.Errorf("llama: the model has no array %q", w.prefix+name))
	}
	return n
}

func (w Weights) matrix(name string) linear.Weight {
	return linear.Weight{Format: w.matrices[w.prefix+name], Data: w.get(name),
		Scales: w.nodes[w.prefix+name+scalesSuffix]}
}
