package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/quantized"
)

// ErrNoTensor is wrapped by Read's error for a name that the checkpoint does not have.
var ErrNoTensor = errors.New("no such tensor")

// Checkpoint is an open model: its config and its weights. It is safe for concurrent use until Close.
type Checkpoint struct {
	Config Config
	Ref    string // as given to Open

	gguf      bool   // the weights come from GGUF files
	tokenizer string // see TokenizerSource

	chatTemplate string   // see ChatTemplate
	stale        []string // entries of the index of shards that are wrong; ignored unless a tensor is missing
	names        []string // sorted
	tensors      map[string]*tensor
	identity     []identityPart // what FingerPrint hashes
	closers      []func() error
	scheme       *quantized.Scheme // how matrices are quantized in safetensors; nil if they are not
}

// tensor is a weight in its stored form.
type tensor struct {
	shape  []int
	file   string       // for messages
	name   string       // the name in the file, for messages
	stored string       // encoding as the file names it, e.g. BF16, Q4_1
	native dtypes.DType // dtype of data's elements if they need no decoding
	data   []byte       // encoded bytes in the mapping; nil for dummy weights
	unit   int          // elements decoded at once: a block, a row
	// decode writes elements first to first+len(dst), both multiples of unit, as float32; nil if stored is not
	// supported.
	decode  func(dst []float32, first int)
	release func() // returns the memory of data's pages to the system
	// format is the format of data's blocks, if it has any. unpack is decode to blocks.
	format blocks.Format
	unpack func(to *blocks.Rows, first int)

	// blockLen and blockBytes are the elements and the bytes of a block of data. group is how many rows are reordered
	// together: each group is reordered by itself.
	blockLen, blockBytes int
	group                int
	offset               int64 // offset of data in the file
	need                 needFile
	packed               *packed // of a quantized matrix, which has no data of its own
	spread
	// companions are other tensors of the file that decode reads. If inStep is set, it reads of each the blocks with
	// the numbers of the blocks of data, and otherwise all.
	companions []*tensor
	inStep     bool
}

// spread is how a tensor's elements are spread over its data, which also has elements of other tensors. If scattered is
// set, they may be anywhere. With a step, row r is row firstRow + r*step of data.
type spread struct {
	scattered      bool
	firstRow, step int
}

// Range is the bytes of a file from one offset to before another.
type Range struct{ From, To int64 }

// Need fetches ranges of a weight file that is not complete on this machine. The file is named without its folder.
type Need func(file string, ranges ...Range) error

// needFile is a Need for one file; nil if the file is complete.
type needFile func(ranges ...Range) error

// one returns n for a single range.
func (n needFile) one() func(from, to int64) error {
	if n == nil {
		return nil
	}
	return func(from, to int64) error { return n(Range{from, to}) }
}

// of returns the Need for one file.
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
// If the model has an unsupported feature, the error wraps *UnsupportedError. Weights are neither read nor checked
// here: see Validate and Read.
func Open(ref string) (*Checkpoint, error) {
	c, err := open(ref)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", ref, err)
	}
	c.Ref = ref
	return c, nil
}

// OpenParts opens a folder or GGUF file whose weights are not complete on this machine: need is called before any are
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

// noModel returns the error for a path that does not exist. If it looks like a repository of the hub, the error
// suggests that.
func noModel(path string) error {
	if hubPattern.MatchString(path) && !strings.HasPrefix(path, ".") && strings.Count(path, "/") == 1 &&
		filepath.Ext(path) != ".gguf" {
		return noModelError(fmt.Sprintf("there is no such file or folder; did you mean %s%s, the model of the hub?",
			hubScheme, path))
	}
	return noModelError("there is no such file or folder; give a Hugging Face folder, a .gguf file, hf://org/name, " +
		"or smollm2, the demo model")
}

// noModelError is an [os.ErrNotExist] with its own message.
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

// Quantization says how a quantized safetensors checkpoint is stored, and what its config asks for that is not done; ""
// for others.
func (c *Checkpoint) Quantization() string {
	if c.scheme == nil {
		return ""
	}
	return c.scheme.String()
}
