package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/blocks"
	"github.com/quire/quire/models/quantized"
)

// ErrNoTensor is wrapped by Read's error for a name that the checkpoint does not hold.
var ErrNoTensor = errors.New("no such tensor")

// Checkpoint is an open model: its config and its weights. It is safe for concurrent use until Close.
type Checkpoint struct {
	Config Config
	Ref    string // as given to Open

	gguf      bool   // the weights are of GGUF files
	tokenizer string // see TokenizerSource

	chatTemplate string   // see ChatTemplate
	stale        []string // what the index of shards says that is not so; of no account if no tensor is missing
	names        []string // sorted
	tensors      map[string]*tensor
	identity     []identityPart // what FingerPrint hashes
	closers      []func() error
	scheme       *quantized.Scheme // of quantized matrices of safetensors; nil where there are none
}

// tensor is a weight in the form it is stored in.
type tensor struct {
	shape  []int
	file   string       // for messages
	name   string       // there
	stored string       // encoding as the file names it, e.g. BF16, Q4_1
	native dtypes.DType // dtype of data's elements if they need no decoding
	data   []byte       // encoded bytes in the mapping; nil for dummy weights
	unit   int          // elements decoded at once: a block, a row
	// decode gives elements first to first+len(dst), both multiples of unit, as float32; nil if stored is not
	// supported.
	decode  func(dst []float32, first int)
	release func() // gives data's pages back
	// format is that of data's blocks, if it has any. unpack gives elements from first on, like decode, as blocks.
	format blocks.Format
	unpack func(to *blocks.Rows, first int)

	// encoding is how many elements a block of data has, and how many bytes; group is how many rows are stored in
	// another order, each group by itself.
	blockLen, blockBytes int
	group                int
	offset               int64 // of data in the file
	need                 needFile
	packed               *packed // of a quantized matrix, which has no data of its own
	spread
	// beside are other tensors of the file that decode reads. If inStep is set, it reads of each the blocks with the
	// numbers of the blocks of data, and otherwise all.
	beside []*tensor
	inStep bool
}

// spread is how a tensor's elements are spread over its data, which also has elements of other tensors. If scattered is
// set, they may be anywhere. With a step, row r is row firstRow + r*step of data.
type spread struct {
	scattered      bool
	firstRow, step int
}

// Range is the bytes of a file from one offset to before another.
type Range struct{ From, To int64 }

// Need brings ranges of a weight file, by its name without the folder, of which not all is there.
type Need func(file string, ranges ...Range) error

// needFile is that of one file; nil where all is there.
type needFile func(ranges ...Range) error

// one is it for a single range.
func (n needFile) one() func(from, to int64) error {
	if n == nil {
		return nil
	}
	return func(from, to int64) error { return n(Range{from, to}) }
}

// of is the Need of one file.
func (n Need) of(path string) needFile {
	if n == nil {
		return nil
	}
	return func(ranges ...Range) error { return n(filepath.Base(path), ranges...) }
}

func (t *tensor) elements() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// Open opens a checkpoint. ref is one of
//
//	DIR                              Hugging Face folder: config.json, *.safetensors
//	FILE.gguf                        GGUF file, or any file of a split model
//	hf://org/name[@rev]              hub repository, downloaded into the hub's cache
//	hf://org/name[@rev]/FILE.gguf    one GGUF file of a hub repository
//
// The error of a model with an unsupported feature wraps *UnsupportedError. Weights are neither read nor checked here:
// see Validate and Read.
func Open(ref string) (*Checkpoint, error) {
	c, err := open(ref)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", ref, err)
	}
	c.Ref = ref
	return c, nil
}

// OpenParts opens a folder or GGUF file of which not all bytes of the weights are there: need is told before any are
// read. closed, if not nil, is called by Close.
func OpenParts(path string, need Need, closed func() error) (*Checkpoint, error) {
	c, err := openPath(path, need)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", path, err)
	}
	c.Ref = path
	if closed != nil {
		c.closers = append(c.closers, closed)
	}
	return c, nil
}

func open(ref string) (*Checkpoint, error) {
	if OnHub(ref) {
		path, err := fetchFromHub(ref, false)
		if err != nil {
			return nil, err
		}
		return openPath(path, nil)
	}
	return openPath(ref, nil)
}

// noModel is the error of a path where nothing is. What looks like a repository of the hub may have been meant as one.
func noModel(path string) error {
	if hubPattern.MatchString(path) && !strings.HasPrefix(path, ".") && strings.Count(path, "/") == 1 &&
		filepath.Ext(path) != ".gguf" {
		return noModelError(fmt.Sprintf("there is no such file or folder; did you mean %s%s, the model of the hub?",
			hubScheme, path))
	}
	return noModelError("there is no such file or folder; give a Hugging Face folder, a .gguf file, hf://org/name, " +
		"or smollm2, the demo model")
}

// noModelError is an [os.ErrNotExist] in words of its own.
type noModelError string

func (e noModelError) Error() string { return string(e) }
func (e noModelError) Unwrap() error { return os.ErrNotExist }

func openPath(path string, need Need) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, noModel(path)
		}
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path, need)
	}
	switch {
	case filepath.Base(path) == configFile:
		return nil,
			errors.New("this is a config without weights: give its folder, or --load-format dummy for random weights")
	case filepath.Ext(path) == ".safetensors":
		return nil, fmt.Errorf("this is a weight file without its config; give its folder %s", filepath.Dir(path))
	}
	return openGGUF(path, need)
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

// Names lists the tensors, sorted. Weights have Hugging Face names; a tensor of a GGUF file that has none keeps its
// own.
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

// DType is what the model is computed in unless something else is asked for: what the checkpoint says or is stored in,
// bfloat16 where it is quantized, float32 where nothing says. Decoders of Gemma's kind, whose
// activations exceed float16, have bfloat16 instead. It depends on the files alone, not on the processor.
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

// NumParameters is the number of weights that the config implies; tied embeddings count once.
func (c *Checkpoint) NumParameters() int64 { return c.Config.NumParameters() }

// StoredBytes is the size of all weights as they are in the files; 0 for dummy weights.
func (c *Checkpoint) StoredBytes() int64 {
	var n int64
	for _, t := range c.tensors {
		n += t.storedBytes() + t.packed.bytes()
	}
	return n
}

// TokenizerSource is where the tokenizer is: a folder that holds tokenizer.json, or the GGUF file; "" if there is none.
func (c *Checkpoint) TokenizerSource() string { return c.tokenizer }

// ChatTemplate is the model's chat template (Jinja source), "" if it has none: that for conversations with tools, where
// there is no other.
func (c *Checkpoint) ChatTemplate() string { return c.chatTemplate }

// Release gives the memory of a tensor's mapped pages back to the operating system. Views of it stay valid, at the
// price of reading the file again.
func (c *Checkpoint) Release(name string) {
	if t := c.tensors[name]; t != nil && t.release != nil {
		t.release()
	}
}

// Quantization says how a quantized safetensors checkpoint is stored, and what its config asks for that is not done; ""
// for others.
func (c *Checkpoint) Quantization() string {
	if c.scheme == nil {
		return ""
	}
	return c.scheme.String()
}
