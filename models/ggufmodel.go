package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/blocks"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/gguf"
)

// openGGUF opens a single GGUF file.
func openGGUF(path string, need needFile) (*Checkpoint, error) {
	f, err := gguf.Open(path, need.one())
	if err != nil {
		return nil, err
	}
	c := &Checkpoint{tensors: map[string]*tensor{}, closers: []func() error{f.Close}}
	if err := c.addGGUF(f, path, need); err != nil {
		c.Close()
		return nil, fmt.Errorf("GGUF file %s: %w", path, err)
	}
	return c.finish(), nil
}

func (c *Checkpoint) addGGUF(f *gguf.File, path string, need needFile) error {
	config, decoder, err := arch.ReadMetadata(Decoders, f)
	if err != nil {
		return err
	}
	c.Config = config
	known := map[string]arch.Tensor{}
	for t := range config.Tensors() {
		if t.Experts > 0 { // the tensor of all experts keeps its own name
			continue
		}
		if w := t.Within; w != nil {
			t = arch.Tensor{Name: w.Name, GGUF: w.GGUF, Part: arch.QKV}
		}
		known[t.GGUF] = t
	}
	id := identityPart{header: f.Header(), need: need}
	for i := range f.Tensors() {
		gt := &f.Tensors()[i]
		name, part := gt.Name, known[gt.Name].Part
		if part != "" {
			name = known[gt.Name].Name
		}
		if c.tensors[name] != nil {
			return fmt.Errorf("tensors %q and another one both are %s", gt.Name, name)
		}
		blockLen, blockBytes := gt.Type.Block()
		t := &tensor{shape: gt.Dims, file: path, stored: gt.Type.String(), data: gt.Data, unit: blockLen,
			decode: blockDecoder(gt.Type, gt.Data), release: func() { f.Release(gt) },
			blockLen: blockLen, blockBytes: blockBytes, group: 1, offset: gt.Offset, need: need,
			format: gt.Type.Format(), unpack: blockUnpacker(gt.Type, gt.Data)}
		switch gt.Type {
		case gguf.F32:
			t.native = dtypes.Float32
		case gguf.F16:
			t.native = dtypes.Float16
		case gguf.BF16:
			t.native = dtypes.BFloat16
		}
		if stored := t.decode; decoder.GGUF.OffsetNorms && part.IsNorm() && stored != nil {
			t.native = dtypes.InvalidDType
			t.decode = func(dst []float32, first int) {
				stored(dst, first)
				for i := range dst {
					dst[i] -= float32(c.Config.Norm.Offset)
				}
			}
		}
		if part == arch.V || part == arch.QKV {
			c.Config.DType = t.native // stays invalid for quantized files
		}
		c.tensors[name] = t
		id.tensors = append(id.tensors, t)
	}
	c.identity = append(c.identity, id)
	if err := c.arrange(); err != nil {
		return err
	}
	if f.Has("tokenizer.ggml.model") {
		c.tokenizer = path
	}
	c.chatTemplate, _ = f.String("tokenizer.chat_template")
	return nil
}

// blockUnpacker is blockDecoder that leaves blocks as they are; nil for floats.
func blockUnpacker(typ gguf.Type, data []byte) func(to *blocks.Rows, first int) {
	if !typ.Format().Is() {
		return nil
	}
	blockLen, blockBytes := typ.Block()
	return func(to *blocks.Rows, first int) {
		start := first / blockLen * blockBytes
		// The error is impossible: the parsers checked that data holds the tensor's elements exactly.
		if err := gguf.Unpack(typ, to, data[start:start+len(to.Quants)/blockLen*blockBytes]); err != nil {
			panic(err)
		}
	}
}
