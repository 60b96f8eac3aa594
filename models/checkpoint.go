package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/internal/mapped"
)

// ErrNoTensor is wrapped by Read's error for a name that the checkpoint does not hold.
var ErrNoTensor = errors.New("no such tensor")

// Checkpoint is an open model: its config and its weights. It is safe for concurrent use until Close.
type Checkpoint struct {
	Config Config
	Ref    string // as given to Open

	tokenizer    string // see TokenizerSource
	chatTemplate string
	names        []string // sorted
	tensors      map[string]*tensor
	identity     []identityPart // what FingerPrint hashes
	closers      []func() error
}

// tensor is a weight in the form it is stored in.
type tensor struct {
	shape  []int
	file   string       // for messages
	stored string       // encoding as the file names it, e.g. BF16, Q4_1
	native dtypes.DType // dtype of data's elements if they need no decoding
	data   []byte       // encoded bytes in the mapping; nil for dummy weights
	unit   int          // elements decoded at once: a block, a row
	// decode gives elements first to first+len(dst), both multiples of unit, as float32; nil if stored is not
	// supported.
	decode  func(dst []float32, first int)
	release func() // gives data's pages back
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
//	FILE.gguf                        GGUF file
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

func open(ref string) (*Checkpoint, error) {
	if OnHub(ref) {
		path, err := fetchFromHub(ref, false)
		if err != nil {
			return nil, err
		}
		return openPath(path)
	}
	return openPath(ref)
}

// noModel is the error of a path where nothing is. What looks like a repository of the hub may have been meant as one.
func noModel(path string) error {
	if hubPattern.MatchString(path) && !strings.HasPrefix(path, ".") && strings.Count(path, "/") == 1 &&
		filepath.Ext(path) != ".gguf" {
		return fmt.Errorf("there is no such file or folder; did you mean %s%s, the model of the hub? (%w)", hubScheme,
			path, os.ErrNotExist)
	}
	return fmt.Errorf("there is no such file or folder; give a Hugging Face folder, a .gguf file or hf://org/name: %w",
		os.ErrNotExist)
}

func openPath(path string) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, noModel(path)
		}
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path)
	}
	switch {
	case filepath.Base(path) == configFile:
		return nil,
			errors.New("this is a config without weights: give its folder, or --load-format dummy for random weights")
	case filepath.Ext(path) == ".safetensors":
		return nil, fmt.Errorf("this is a weight file without its config; give its folder %s", filepath.Dir(path))
	}
	return openGGUF(path)
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

// NumParameters is the number of weights that the config implies; tied embeddings count once.
func (c *Checkpoint) NumParameters() int64 { return c.Config.NumParameters() }

// StoredBytes is the size of all weights as they are in the files; 0 for dummy weights.
func (c *Checkpoint) StoredBytes() int64 {
	var n int64
	for _, t := range c.tensors {
		n += int64(len(t.data))
	}
	return n
}

// TokenizerSource is where the tokenizer is: a folder that holds tokenizer.json, or the GGUF file; "" if there is none.
func (c *Checkpoint) TokenizerSource() string { return c.tokenizer }

// ChatTemplate is the model's default chat template (Jinja source); "" if it has none.
func (c *Checkpoint) ChatTemplate() string { return c.chatTemplate }

// Read returns a tensor's elements in row-major order as []float32, []bfloat16.BFloat16 or []float16.Float16, for dtype
// Float32, BFloat16 or Float16. Blocks are dequantized; narrowing rounds to nearest, ties to even.
//
// When the file holds that very dtype, the slice is a view of the mapped file: it must not be written to (the process
// would be killed) and is valid until Close. Otherwise it is the caller's own, nothing else of the tensor's size is
// allocated, and the mapped pages are given back; after using a view, do that with Release.
func (c *Checkpoint) Read(name string, dtype dtypes.DType) (flat any, err error) {
	t := c.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("model %s: %w: %s", c.Ref, ErrNoTensor, name)
	}
	if t.decode == nil {
		return nil, fmt.Errorf("tensor %s in %s: %w", name, t.file,
			arch.Unsupported("F32, BF16 and F16 are", "dtype %s", t.stored))
	}
	if view := t.view(dtype); view != nil {
		return view, t.named(name, mapped.Touch(t.data))
	}
	switch dtype {
	case dtypes.Float32:
		flat, err = read(t, func(dst, src []float32) { copy(dst, src) })
		return flat, t.named(name, err)
	case dtypes.BFloat16:
		flat, err = read(t, toBFloat16)
		return flat, t.named(name, err)
	case dtypes.Float16:
		flat, err = read(t, toFloat16)
		return flat, t.named(name, err)
	}
	return nil, fmt.Errorf("tensor %s in %s cannot be read as %s; Float32, BFloat16 and Float16 are possible", name,
		t.file, dtype)
}

func (t *tensor) named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tensor %s in %s: %w", name, t.file, err)
}

// Release gives the memory of a tensor's mapped pages back to the operating system. Views of it stay valid, at the
// price of reading the file again.
func (c *Checkpoint) Release(name string) {
	if t := c.tensors[name]; t != nil && t.release != nil {
		t.release()
	}
}

// view is the tensor's data as a slice of dtype, or nil where it must be decoded: another dtype, misaligned for the
// element (the formats allow that), or a big-endian machine.
func (t *tensor) view(dtype dtypes.DType) any {
	if t.native != dtype || len(t.data) == 0 || !littleEndian {
		return nil
	}
	p, n := unsafe.Pointer(unsafe.SliceData(t.data)), t.elements()
	aligned := func(size uintptr) bool { return uintptr(p)%size == 0 }
	switch {
	case dtype == dtypes.Float32 && aligned(4):
		return unsafe.Slice((*float32)(p), n)
	case dtype == dtypes.BFloat16 && aligned(2):
		return unsafe.Slice((*bfloat16.BFloat16)(p), n)
	case dtype == dtypes.Float16 && aligned(2):
		return unsafe.Slice((*float16.Float16)(p), n)
	}
	return nil
}

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// Decoding goes through float32 in chunks that stay in the cache, on at most this many goroutines: beyond a few, memory
// bandwidth is the limit.
const (
	chunkElements = 16 << 10
	maxReaders    = 8
)

// read decodes a whole tensor, split between goroutines at multiples of its unit.
func read[T any](t *tensor, narrow func(dst []T, src []float32)) ([]T, error) {
	out := make([]T, t.elements())
	units := len(out) / t.unit
	readers := max(1, min(runtime.GOMAXPROCS(0), maxReaders, len(out)/chunkElements, units))
	chunk := max(chunkElements/t.unit, 1) * t.unit
	var wg sync.WaitGroup
	errs := make([]error, readers)
	for i := range readers {
		first, end := units*i/readers*t.unit, units*(i+1)/readers*t.unit
		decode := func() error {
			if direct, ok := any(out).([]float32); ok { // no narrowing, no scratch
				for ; first < end; first += chunk {
					t.decode(direct[first:min(first+chunk, end)], first)
				}
				return nil
			}
			scratch := make([]float32, min(chunk, end-first))
			for ; first < end; first += chunk {
				part := scratch[:min(chunk, end-first)]
				t.decode(part, first)
				narrow(out[first:first+len(part)], part)
			}
			return nil
		}
		wg.Go(func() { errs[i] = mapped.Guard(decode) })
	}
	wg.Wait()
	if t.release != nil {
		t.release()
	}
	if failed := slices.IndexFunc(errs, func(err error) bool { return err != nil }); failed >= 0 {
		return nil, errs[failed]
	}
	return out, nil
}
