package models

import (
	"fmt"
	"regexp"

	"github.com/gomlx/compute/dtypes"
	"github.com/quire/quire/models/gguf"
)

// nameRopeFactors is the GGUF tensor that holds the llama3 rope scaling.
const nameRopeFactors = "rope_freqs.weight"

var (
	ggufLayerName = regexp.MustCompile(`^blk\.(0|[1-9][0-9]{0,3})\.([a-z_]+)\.(weight|bias)$`)

	ggufLayerNames = map[string]string{
		"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm",
		"attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj",
		"attn_output": "self_attn.o_proj",
		"attn_q_norm": "self_attn.q_norm", "attn_k_norm": "self_attn.k_norm",
		"ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj",
	}
	ggufOtherNames = map[string]string{"token_embd.weight": nameEmbedding, "output_norm.weight": nameFinalNorm,
		"output.weight": nameHead}
)

// hfName gives the Hugging Face name of a GGUF tensor, or its own where there is none; part is the layer's part, e.g.
// attn_q.
func hfName(name string) (hf, part string) {
	if hf, ok := ggufOtherNames[name]; ok {
		return hf, ""
	}
	if m := ggufLayerName.FindStringSubmatch(name); m != nil {
		if hf, ok := ggufLayerNames[m[2]]; ok {
			return "model.layers." + m[1] + "." + hf + "." + m[3], m[2]
		}
	}
	return name, ""
}

// openGGUF opens a single GGUF file.
func openGGUF(path string) (*Checkpoint, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{tensors: map[string]*tensor{}, closers: []func() error{f.Close}}
	if err := c.addGGUF(f, path); err != nil {
		c.Close()
		return nil, fmt.Errorf("GGUF file %s: %w", path, err)
	}
	return c.finish(), nil
}

func (c *Checkpoint) addGGUF(f *gguf.File, path string) error {
	var err error
	if c.Config, err = ggufConfig(f); err != nil {
		return err
	}
	// The converter interleaves the rotary halves of q and k for the architectures whose ggml graph rotates neighbours.
	interleaved := c.Config.ModelType == "llama" || c.Config.ModelType == "smollm3"
	id := identityPart{header: f.Header()}
	for i := range f.Tensors() {
		gt := &f.Tensors()[i]
		name, part := hfName(gt.Name)
		if c.tensors[name] != nil {
			return fmt.Errorf("tensors %q and another one both are %s", gt.Name, name)
		}
		blockLen, _ := gt.Type.Block()
		t := &tensor{shape: gt.Dims, file: path, stored: gt.Type.String(), data: gt.Data, unit: blockLen,
			decode: blockDecoder(gt.Type, gt.Data), release: func() { f.Release(gt) }}
		switch gt.Type {
		case gguf.F32:
			t.native = dtypes.Float32
		case gguf.F16:
			t.native = dtypes.Float16
		case gguf.BF16:
			t.native = dtypes.BFloat16
		}
		if interleaved && (part == "attn_q" || part == "attn_k") && gt.Dims[0]%c.Config.HeadDim == 0 {
			if len(gt.Dims) == 1 && blockLen > 1 {
				return fmt.Errorf("tensor %q is a bias in blocks of %s: %w", gt.Name, gt.Type,
					unsupported("", "reordering it"))
			}
			t.deinterleave(c.Config.HeadDim)
		}
		if part == "attn_v" {
			c.Config.DType = t.native // stays invalid for quantized files
		}
		c.tensors[name] = t
		id.data = append(id.data, gt.Data)
	}
	c.identity = append(c.identity, id)
	if f.Has("tokenizer.ggml.model") {
		c.tokenizer = path
	}
	c.chatTemplate, _ = f.String("tokenizer.chat_template")
	return nil
}

// deinterleave makes decode give the rows of a q or k projection (or the elements of its bias) in Hugging Face order:
// row half*d/2+i of a head with d rows, half 0 or 1, is stored as row 2*i+half.
func (t *tensor) deinterleave(headDim int) {
	stored := t.decode
	row := 1
	for _, d := range t.shape[1:] {
		row *= d
	}
	t.native, t.unit = dtypes.InvalidDType, row
	t.decode = func(dst []float32, first int) {
		for r := first / row; len(dst) > 0; r++ {
			inHead := r % headDim
			from := r - inHead + 2*(inHead%(headDim/2)) + inHead/(headDim/2)
			stored(dst[:row], from*row)
			dst = dst[row:]
		}
	}
}
