package models

import (
	"errors"
	"maps"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/quantized"
	"github.com/quire/quire/models/sentence"
)

// ErrNoTensor is wrapped by Read's error for a name that the checkpoint does not have.
var ErrNoTensor = errors.New("no such tensor")

// Checkpoint is an open model: its config and its weights. It is safe for concurrent use until Close.
type Checkpoint struct {
	Config Config
	Ref    string // as given to Open
	// Sentence is how the model's hidden states become embeddings: as the checkpoint's files say, or else the default
	// of its family.
	Sentence sentence.Settings

	gguf      bool   // the weights come from GGUF files
	tokenizer string // see TokenizerSource

	chatTemplate string   // see ChatTemplate
	stale        []string // entries of the index of shards that are wrong; ignored unless a tensor is missing
	names        []string // sorted
	tensors      map[string]*tensor
	identity     []identityPart // what FingerPrint hashes
	closers      []func() error
	layers       []*Checkpoint     // see Layers
	scheme       *quantized.Scheme // how matrices are quantized in safetensors; nil if they are not
}

// finish lists the names of a checkpoint whose tensors are set.
func (c *Checkpoint) finish() *Checkpoint {
	c.names = make([]string, 0, len(c.tensors))
	for name := range c.tensors {
		c.names = append(c.names, name)
	}
	slices.Sort(c.names)
	return c
}

// Close unmaps the weight files. Slices that Read returned must not be used afterwards. A second Close does nothing.
func (c *Checkpoint) Close() error {
	var errs []error
	for _, f := range c.closers {
		errs = append(errs, f())
	}
	c.closers, c.tensors, c.names = nil, nil, nil
	return errors.Join(errs...)
}

// Names lists the tensors, sorted. Weights have Hugging Face names; a GGUF tensor without such a name keeps its own.
func (c *Checkpoint) Names() []string { return slices.Clone(c.names) }

// Shape returns a tensor's dimensions, outermost first ([out, in] for linear weights), or nil if there is no such
// tensor.
func (c *Checkpoint) Shape(name string) []int {
	t := c.tensors[name]
	if t == nil {
		return nil
	}
	return slices.Clone(t.shape)
}

// Encoding returns how a tensor is stored, in the file's own terms (BF16, Q4_1, ...), or "" if there is no such tensor.
func (c *Checkpoint) Encoding(name string) string {
	if t := c.tensors[name]; t != nil {
		return t.stored
	}
	return ""
}

// DType returns the dtype that the model is computed in by default: the dtype that the checkpoint states or is stored
// in, bfloat16 if it is quantized, float32 if nothing states a dtype. Decoders like Gemma, whose activations exceed
// the range of float16, get bfloat16 instead of it. The result depends only on the files, not on the processor.
func (c *Checkpoint) DType() dtypes.DType {
	own := c.Config.DType
	if own == dtypes.InvalidDType {
		own = dtypes.Float32
		for _, t := range c.tensors {
			if t.blockLen > 1 {
				own = dtypes.BFloat16
			}
		}
	}
	if own == dtypes.Float16 && c.Config.Norm.Wide {
		own = dtypes.BFloat16
	}
	return own
}

// NumParameters returns the number of weights that the config implies; tied embeddings count once.
func (c *Checkpoint) NumParameters() int64 { return c.Config.NumParameters() }

// StoredBytes returns the size of all weights in the files; 0 for dummy weights.
func (c *Checkpoint) StoredBytes() int64 {
	var n int64
	for _, t := range c.tensors {
		n += t.storedBytes() + t.packed.bytes()
	}
	return n
}

// TokenizerSource returns the place of the tokenizer: a folder that has tokenizer.json, or the GGUF file; "" if there
// is none.
func (c *Checkpoint) TokenizerSource() string { return c.tokenizer }

// ChatTemplate returns the model's chat template (Jinja source), "" if it has none. If the only template is for
// conversations with tools, it returns that one.
func (c *Checkpoint) ChatTemplate() string { return c.chatTemplate }

// Release returns the memory of a tensor's mapped pages to the operating system. Views of the tensor stay valid, but
// read the file again.
func (c *Checkpoint) Release(name string) {
	if t := c.tensors[name]; t != nil && t.release != nil {
		t.release()
	}
}

// Over returns the checkpoint that has the tensors of c and, of those that c lacks, the tensors of below. Both must
// stay open as long as it is used, apart from those that are not among its [Checkpoint.Layers].
func (c *Checkpoint) Over(below *Checkpoint) *Checkpoint {
	tensors := maps.Clone(below.tensors)
	maps.Copy(tensors, c.tensors)
	over := *below
	over.Ref, over.tensors, over.layers, over.closers, over.identity = c.Ref, tensors, nil, nil, nil
	for _, layer := range append(below.Layers(), c) {
		if layer.isUsed(tensors) {
			over.layers, over.identity = append(over.layers, layer), append(over.identity, layer.identity...)
		}
	}
	if len(over.layers) == 1 {
		return over.layers[0]
	}
	return over.finish()
}

// Covers reports whether the checkpoint has all tensors of another one, so that nothing is left of that under it.
func (c *Checkpoint) Covers(below *Checkpoint) bool {
	for name := range below.tensors {
		if c.tensors[name] == nil {
			return false
		}
	}
	return true
}

// isUsed reports whether any of the checkpoint's tensors is among these.
func (c *Checkpoint) isUsed(tensors map[string]*tensor) bool {
	for name, t := range c.tensors {
		if tensors[name] == t {
			return true
		}
	}
	return false
}

// Layers returns the open checkpoints whose tensors this one has: itself, unless it was made by [Checkpoint.Over].
func (c *Checkpoint) Layers() []*Checkpoint {
	if c.layers == nil {
		return []*Checkpoint{c}
	}
	return slices.Clone(c.layers)
}

// Shares reports whether two checkpoints have the very same tensor of this name.
func (c *Checkpoint) Shares(other *Checkpoint, name string) bool {
	return c.tensors[name] == other.tensors[name]
}

// Quantization returns how a quantized safetensors checkpoint is stored, and what its config asks for that is not done;
// "" for others.
func (c *Checkpoint) Quantization() string {
	if c.scheme == nil {
		return ""
	}
	return c.scheme.String()
}

// identityPart is a part of a checkpoint's identity: text, which is hashed completely, and weights, which are
// sampled.
type identityPart struct {
	header  []byte
	tensors []*tensor // tensors of one file
	need    needFile
}
