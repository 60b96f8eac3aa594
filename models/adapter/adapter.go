// Package adapter reads LoRA adapters of PEFT: a folder with adapter_config.json and adapter_model.safetensors.
//
// An adapter adds scale * B*A to some matrices of its base, with A [rank, in] and B [out, rank]. Everything that Quire
// does not compute exactly is refused by name, and so is a tensor that does not fit the base. Files are untrusted
// input: a damaged one gives an error, not a panic.
package adapter

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/internal/mapped"
	"github.com/quire/quire/models/safetensors"
)

// Files of an adapter's folder.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// maxRank bounds ranks. It is far above the ranks that adapters have.
const maxRank = 4096

// Adapter is an open adapter that fits its base. It is safe for concurrent use until Close.
type Adapter struct {
	Place  string
	Digest string // SHA-256 of all that completions depend on, in hex
	Rank   int    // the largest rank of its matrices

	file     *safetensors.File
	matrices map[string]matrix // by the base's tensor, see arch.Tensor.Name
}

// matrix is what an adapter adds to a tensor of its base.
type matrix struct {
	a, b     *safetensors.Tensor
	rank, in int
	scale    float32
	// rows are the rows of b that belong to the rows of the tensor, which may be a part of the adapted module, or
	// lie in another order.
	rows []int
}

// Low is what an adapter adds to a matrix: scale * B*A. Each row of a base's matrix gets the corresponding row.
type Low struct {
	Rank  int
	Scale float32
	A     []float32 // [Rank, in]
	B     []float32 // [out, Rank]
}

// Open opens the adapter in a folder for a base.
func Open(folder string, base *models.Config) (*Adapter, error) {
	a, err := open(folder, base)
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", folder, err)
	}
	return a, nil
}

func open(folder string, base *models.Config) (*Adapter, error) {
	text, err := readConfig(folder)
	if err != nil {
		return nil, err
	}
	c, err := parseConfig(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ConfigFile, err)
	}
	file, err := safetensors.Open(filepath.Join(folder, WeightsFile), nil)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s: save it with safe_serialization, since pickled weights are not read",
			WeightsFile)
	}
	if err != nil {
		return nil, err
	}
	a := &Adapter{Place: folder, file: file, matrices: map[string]matrix{}}
	err = a.find(c, base)
	if err == nil {
		err = mapped.Guard(func() error { a.Digest = a.digest(); return nil })
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return a, nil
}

// maxConfigBytes bounds the config, which lists modules at most.
const maxConfigBytes = 16 << 20

func readConfig(folder string) ([]byte, error) {
	path := filepath.Join(folder, ConfigFile)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return nil, fmt.Errorf("there is no %s in it: give the folder of a LoRA adapter that PEFT saved: %w",
			ConfigFile, os.ErrNotExist)
	case err != nil:
		return nil, err
	case info.Size() > maxConfigBytes:
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", ConfigFile, info.Size(),
			maxConfigBytes)
	}
	return os.ReadFile(path)
}

// Close unmaps the weights.
func (a *Adapter) Close() error { return a.file.Close() }

// Adapts reports whether the adapter changes a tensor of the base.
func (a *Adapter) Adapts(tensor string) bool {
	_, ok := a.matrices[tensor]
	return ok
}

// Tensors lists the tensors of the base that the adapter changes, sorted.
func (a *Adapter) Tensors() []string {
	var names []string
	for name := range a.matrices {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Read returns what the adapter adds to a tensor. ok is false if it adds nothing.
func (a *Adapter) Read(tensor string) (low Low, ok bool, err error) {
	m, ok := a.matrices[tensor]
	if !ok {
		return Low{}, false, nil
	}
	low = Low{Rank: m.rank, Scale: m.scale, B: make([]float32, len(m.rows)*m.rank)}
	err = mapped.Guard(func() error {
		low.A = numbers(m.a, 0, m.rank*m.in)
		for i, row := range m.rows {
			copy(low.B[i*m.rank:], numbers(m.b, row*m.rank, m.rank))
		}
		return nil
	})
	if err != nil {
		return Low{}, false, fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return low, true, nil
}

// MergeInto folds the adapter into the weights of its base as they are read: see [models.Checkpoint.Add].
func (a *Adapter) MergeInto(base *models.Checkpoint) error {
	var list []models.Addend
	for _, name := range a.Tensors() {
		low, _, err := a.Read(name)
		if err != nil {
			return err
		}
		list = append(list, models.Addend{Tensor: name, Rank: low.Rank, Scale: low.Scale, A: low.A, B: low.B})
	}
	if err := base.Add(list, "merged adapter "+a.Digest); err != nil {
		return fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return nil
}

// encodings are the dtypes of tensors.
var encodings = map[string]gguf.Type{"F32": gguf.F32, "F16": gguf.F16, "BF16": gguf.BF16}

// numbers are n elements of a tensor, which has one of the encodings.
func numbers(t *safetensors.Tensor, first, n int) []float32 {
	typ := encodings[t.DType]
	_, size := typ.Block()
	out := make([]float32, n)
	// The error is impossible: find checked the sizes.
	if err := gguf.Dequantize(typ, out, t.Data[first*size:(first+n)*size]); err != nil {
		panic(err)
	}
	return out
}

// target is a tensor of the base that a module of the adapter changes.
type target struct {
	arch.Tensor
	rows []int // the rows of the module
	// out is how many rows the module has.
	out int
}

// adapted are the parts that adapters may change.
var adapted = []arch.Part{arch.Q, arch.K, arch.V, arch.O, arch.Gate, arch.Up, arch.Down}

// targets are the tensors of a base by the names of their modules, as transformers has them.
func targets(base *models.Config) map[string][]target {
	stored := storedOf(base)
	all := map[string][]target{}
	add := func(name string, t target) {
		if module, ok := strings.CutSuffix(name, ".weight"); ok {
			all[module] = append(all[module], t)
		}
	}
	for t := range base.Tensors() {
		if !slices.Contains(adapted, t.Part) || len(t.Shape) != 2 || base.Layers[t.Layer].Latent.Rank > 0 &&
			t.Part != arch.O && !isFeedForward(t.Part) {
			continue
		}
		order := func(row int) int { return row }
		if stored.Interleaved && (t.Part == arch.Q || t.Part == arch.K) && len(base.Ropes) > 0 {
			order = arch.InterleavedRow(base.HeadDim, base.RopeDims(arch.FullRope))
		}
		own := target{Tensor: t, rows: make([]int, t.Shape[0]), out: t.Shape[0]}
		for row := range own.rows {
			own.rows[row] = order(row)
		}
		add(t.Name, own)
		if w := t.Within; w != nil {
			part := target{Tensor: t, rows: make([]int, t.Shape[0]), out: w.Rows}
			for row := range part.rows {
				part.rows[row] = w.Row(order(row), t.Shape[0])
			}
			add(w.Name, part)
		}
	}
	return all
}

func isFeedForward(p arch.Part) bool { return p == arch.Gate || p == arch.Up || p == arch.Down }

// storedOf is how a Hugging Face folder of the base's class stores weights: an adapter has this form for GGUF files
// too.
func storedOf(base *models.Config) arch.Stored {
	for _, d := range models.Decoders {
		if d.Class == base.Architecture {
			return d.Stored
		}
	}
	return base.Stored
}

// textLayers are the beginnings of the names of text layers in models that also read images.
var textLayers = []string{"model.language_model.layers.", "language_model.model.layers."}

// moduleOf is a module's name as the config has it.
func moduleOf(stored arch.Stored, module string) string {
	name, ok := stored.Name(module + ".weight")
	if !ok {
		return module
	}
	module = strings.TrimSuffix(name, ".weight")
	for _, begin := range textLayers {
		if rest, ok := strings.CutPrefix(module, begin); ok {
			return "model.layers." + rest
		}
	}
	return module
}

// prefix begins the names of all tensors.
const prefix = "base_model.model."

// find checks the tensors of the file, and finds what each changes.
func (a *Adapter) find(c *config, base *models.Config) error {
	type pair struct{ a, b *safetensors.Tensor }
	pairs := map[string]*pair{} // by module
	var modules []string
	tensors := a.file.Tensors()
	for i := range tensors {
		t := &tensors[i]
		name, ok := strings.CutPrefix(t.Name, prefix)
		if !ok {
			return fmt.Errorf("tensor %q: its name does not begin with %q, as in PEFT's files", t.Name, prefix)
		}
		module, side, err := split(name)
		if err != nil {
			return fmt.Errorf("tensor %q %w", t.Name, err)
		}
		if _, known := encodings[t.DType]; !known {
			return fmt.Errorf("tensor %q has dtype %s, which is not supported: F32, BF16 and F16 are", t.Name, t.DType)
		}
		if len(t.Dims) != 2 || slices.Min(t.Dims) < 1 {
			return fmt.Errorf("tensor %q has shape %v, and a matrix was expected", t.Name, t.Dims)
		}
		if !c.targets(module) {
			return fmt.Errorf("tensor %q: %s of %s does not name its module", t.Name, "target_modules", ConfigFile)
		}
		if pairs[module] == nil {
			pairs[module], modules = &pair{}, append(modules, module)
		}
		to := &pairs[module].a
		if side == sideB {
			to = &pairs[module].b
		}
		*to = t
	}
	if len(modules) == 0 {
		return fmt.Errorf("%s has no tensors", WeightsFile)
	}
	slices.Sort(modules)
	known, stored := targets(base), storedOf(base)
	for _, module := range modules {
		p := pairs[module]
		if p.a == nil || p.b == nil {
			return fmt.Errorf("module %s has only one of lora_A and lora_B", module)
		}
		if err := a.add(c, module, p.a, p.b, known[moduleOf(stored, module)]); err != nil {
			return err
		}
	}
	return nil
}

// add records what a module changes.
func (a *Adapter) add(c *config, module string, low, high *safetensors.Tensor, to []target) error {
	rank, in := low.Dims[0], low.Dims[1]
	if to == nil {
		return fmt.Errorf("tensor %q: the base has no matrix of this name that an adapter may change; adapters of q, "+
			"k, v, o, gate, up and down projections of dense layers are supported", low.Name)
	}
	wanted, scale := c.of(module)
	switch {
	case rank != wanted:
		return fmt.Errorf("tensor %q has shape %v, but %s gives its module rank %d", low.Name, low.Dims, ConfigFile,
			wanted)
	case rank > maxRank:
		return fmt.Errorf("tensor %q has rank %d, and at most %d is supported", low.Name, rank, maxRank)
	case high.Dims[1] != rank:
		return fmt.Errorf("tensor %q has shape %v, which does not fit rank %d of %q", high.Name, high.Dims, rank,
			low.Name)
	}
	for _, t := range to {
		if in != t.Shape[1] {
			return fmt.Errorf("tensor %q has shape %v, but %s of the base takes %d inputs", low.Name, low.Dims, t.Name,
				t.Shape[1])
		}
		if high.Dims[0] != t.out {
			return fmt.Errorf("tensor %q has shape %v, but the module of %s has %d outputs", high.Name, high.Dims,
				t.Name, t.out)
		}
		if a.Adapts(t.Name) {
			return fmt.Errorf("tensor %q changes %s, which another tensor changes too", low.Name, t.Name)
		}
		a.matrices[t.Name] = matrix{a: low, b: high, rank: rank, in: in, scale: scale, rows: t.rows}
	}
	a.Rank = max(a.Rank, rank)
	return nil
}

// digest hashes what completions depend on: for each tensor of the base the scale and the numbers.
func (a *Adapter) digest() string {
	h := sha256.New()
	for _, name := range a.Tensors() {
		m := a.matrices[name]
		fmt.Fprintf(h, "%s %d %d %d %08x %s %s\n", name, len(m.rows), m.rank, m.in, math.Float32bits(m.scale),
			m.a.DType, m.b.DType)
		h.Write(m.a.Data)
		h.Write(m.b.Data)
	}
	return hex.EncodeToString(h.Sum(nil))
}
