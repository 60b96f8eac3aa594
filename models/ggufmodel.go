package models

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/gguf"
)

// openGGUF opens a GGUF file, or the whole model if the file is a part of a split one.
func openGGUF(path string, need Need) (*Checkpoint, error) {
	f, err := openParts(path, need)
	if err != nil {
		return nil, err
	}
	path = f.Name()
	c := &Checkpoint{gguf: true, tensors: map[string]*tensor{}, closers: []func() error{f.Close}}
	if err := addGGUF(c, f, path, need); err != nil {
		c.Close()
		return nil, fmt.Errorf("GGUF file %s: %w", path, err)
	}
	return c.finish(), nil
}

// openParts opens a file, and the other files of its model if it is split.
func openParts(path string, need Need) (*gguf.File, error) {
	f, err := gguf.Open(path, need.forFile(path).one())
	if err != nil || f.SplitCount() == 1 {
		return f, err
	}
	n := f.SplitCount()
	f.Close()
	names := gguf.SplitNames(path)
	if len(names) != n {
		return nil, fmt.Errorf("GGUF file %s is one of %d of a split model; name the files NAME-00001-of-%05d.gguf "+
			"and so on, as gguf-split does, so that the others are found", path, n, n)
	}
	var missing []string
	for _, name := range names {
		if !exists(name) {
			missing = append(missing, filepath.Base(name))
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("GGUF file %s is one of %d files of a split model; missing are %s; put them in its "+
			"folder", path, n, strings.Join(missing, ", "))
	}
	parts := make([]*gguf.File, 0, n)
	for _, name := range names {
		part, err := gguf.Open(name, need.forFile(name).one())
		if err != nil {
			return nil, errors.Join(err, closeAll(parts))
		}
		parts = append(parts, part)
	}
	if f, err = gguf.Join(parts); err != nil {
		return nil, errors.Join(err, closeAll(parts))
	}
	return f, nil
}

func closeAll(files []*gguf.File) error {
	var errs []error
	for _, f := range files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func addGGUF(c *Checkpoint, f *gguf.File, path string, need Need) error {
	config, decoder, err := arch.ReadMetadata(Decoders, f)
	if err != nil {
		return err
	}
	c.Config = config
	if c.Sentence, err = ggufSentence(f, &config); err != nil {
		return err
	}
	known := map[string]arch.Tensor{}
	for t := range config.Tensors() {
		if t.Experts > 0 { // the tensor of all experts keeps its own name
			continue
		}
		if w := t.Within; w != nil && w.GGUF != "" && f.Tensor(w.GGUF) != nil {
			t = arch.Tensor{Name: w.Name, GGUF: w.GGUF, Part: t.Part} // the last of its parts remains
		}
		known[t.GGUF] = t
	}
	for _, file := range f.Parts() {
		if err := addGGUFTensors(c, file, need.forFile(file.Name()), known, decoder); err != nil {
			return err
		}
	}
	if err := arrange(c); err != nil {
		return err
	}
	if kind, ok := f.String("tokenizer.ggml.model"); ok && kind != "none" && kind != "no_vocab" {
		c.tokenizer = path
	}
	c.chatTemplate, _ = f.String("tokenizer.chat_template")
	return nil
}

// addGGUFTensors adds the tensors of one file that are known by the names of Hugging Face's checkpoints.
func addGGUFTensors(c *Checkpoint, f *gguf.File, need needFile, known map[string]arch.Tensor,
	decoder arch.Decoder) error {
	id := identityPart{header: f.Header(), need: need}
	for i := range f.Tensors() {
		gt := &f.Tensors()[i]
		if _, used := c.Config.Stored.Name(gt.Name); !used {
			continue
		}
		name, part := gt.Name, known[gt.Name].Part
		if part != "" {
			name = known[gt.Name].Name
		}
		if c.tensors[name] != nil {
			return fmt.Errorf("tensors %q and another one both are %s", gt.Name, name)
		}
		blockLen, blockBytes := gt.Type.Block()
		t := &tensor{shape: gt.Dims, file: f.Name(), name: gt.Name, stored: gt.Type.String(), data: gt.Data,
			unit: blockLen, decode: blockDecoder(gt.Type, gt.Data), release: func() { f.Release(gt) },
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
		arrangeState(t, known[gt.Name])
		if stored := t.decode; decoder.GGUF.OffsetNorms && part.IsNorm() && stored != nil {
			t.native = dtypes.InvalidDType
			t.decode = func(dst []float32, first int) {
				stored(dst, first)
				for i := range dst {
					dst[i] -= float32(c.Config.Norm.Offset)
				}
			}
		}
		if part == arch.V || part == arch.LatentDown {
			c.Config.DType = t.native // stays invalid if the file is quantized
		}
		c.tensors[name] = t
		id.tensors = append(id.tensors, t)
	}
	c.identity = append(c.identity, id)
	return nil
}

// ofState gives the tensors of layers with a state, and scores of shared experts, their shapes: axes of 1 come and go.
// How fast heads forget is stored as -exp of what Hugging Face's checkpoints have.
func arrangeState(t *tensor, want arch.Tensor) {
	switch want.Part {
	case arch.MambaDecay, arch.MambaSkip, arch.MambaNorm, arch.DeltaDecay, arch.DeltaBias, arch.SharedScore:
	default:
		return
	}
	if n := len(t.shape); n == 2 && len(want.Shape) == 1 && t.shape[0]*t.shape[1] == want.Shape[0] ||
		n == 1 && want.Part == arch.SharedScore && t.shape[0] == want.Shape[1] {
		t.shape = want.Shape
	}
	if stored := t.decode; (want.Part == arch.MambaDecay || want.Part == arch.DeltaDecay) && stored != nil {
		t.native = dtypes.InvalidDType
		t.decode = func(dst []float32, first int) {
			stored(dst, first)
			for i := range dst {
				dst[i] = float32(math.Log(-float64(dst[i])))
			}
		}
	}
}

// blockUnpacker is blockDecoder to blocks; nil for floats.
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
