// Package adapter reads LoRA adapters: of PEFT, a folder with adapter_config.json and adapter_model.safetensors, and of
// llama.cpp, a GGUF file.
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
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/internal/mapped"
	"github.com/quire/quire/models/safetensors"
)

// Files of an adapter's folder.
const (
	ConfigFile  = "adapter_config.json"
	WeightsFile = "adapter_model.safetensors"
)

// Adapter is an open adapter that fits its base. It is safe for concurrent use until Close.
type Adapter struct {
	Place  string
	Digest string // SHA-256 of all that completions depend on, in hex
	Rank   int    // the largest rank of its matrices

	file     io.Closer
	matrices map[string]matrix              // by the base's tensor, see arch.Tensor.Name
	copies   map[string]*safetensors.Tensor // of the base's own, by their names
}

// Low is what an adapter adds to a matrix: scale * B*A. Each row of a base's matrix gets the corresponding row.
type Low struct {
	Rank  int
	Scale float32
	A     []float32 // [Rank, in]
	B     []float32 // [out, Rank]
	// Magnitude [out] is the length to which each row of the sum is scaled (DoRA); nil leaves the sum as it is.
	Magnitude []float32
}

// Open opens an adapter for a base: a folder, or a GGUF file.
func Open(place string, base *models.Config) (a *Adapter, err error) {
	if filepath.Ext(place) == Extension {
		a, err = openGGUF(place, base)
	} else {
		a, err = open(place, base)
	}
	if err != nil {
		return nil, fmt.Errorf("adapter %s: %w", place, err)
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
	path := filepath.Join(folder, WeightsFile)
	before, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("it has no %s: save it with safe_serialization, since pickled weights are not read",
			WeightsFile)
	}
	if err != nil {
		return nil, err
	}
	file, err := safetensors.Open(path, nil)
	if err != nil {
		return nil, err
	}
	a := newAdapter(folder, file)
	return a.opened(path, before, a.find(c, file.Tensors(), base))
}

func newAdapter(place string, file io.Closer) *Adapter {
	return &Adapter{Place: place, file: file, matrices: map[string]matrix{}, copies: map[string]*safetensors.Tensor{}}
}

// opened is the adapter with its digest. Its file, which was as described before it was opened, is closed if err is an
// error.
func (a *Adapter) opened(path string, before os.FileInfo, err error) (*Adapter, error) {
	if err == nil {
		err = mapped.Guard(func() error { a.Digest = digestOnce(path, before, a.layout(), a.digest); return nil })
	}
	if err != nil {
		return nil, errors.Join(err, a.file.Close())
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
		if _, err := os.Stat(folder); err != nil {
			return nil, errors.New("there is no such folder: give that of a LoRA adapter that PEFT saved")
		}
		return nil, fmt.Errorf("there is no %s in it: give the folder of a LoRA adapter that PEFT saved", ConfigFile)
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
func (a *Adapter) Adapts(tensor string) bool { return a.RankOf(tensor) > 0 }

// RankOf is the rank of what the adapter adds to a tensor of the base; 0 if it adds nothing.
func (a *Adapter) RankOf(tensor string) int { return a.matrices[tensor].rank }

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
	low = Low{Rank: m.rank, Scale: m.scale, A: make([]float32, m.rank*m.in), B: make([]float32, m.out*m.rank)}
	err = a.guard(func() {
		write(Grid[float32]{low.A, m.in, 1}, m.down(), 1)
		write(Grid[float32]{low.B, 1, m.rank}, m.up(), 1)
		if m.magnitude != nil {
			low.Magnitude = make([]float32, m.out)
			write(Grid[float32]{low.Magnitude, 1, 1}, half{m.magnitude, m.out, 1, true, m.place}, 1)
		}
	})
	return low, err == nil, err
}

// WriteDown writes A of a tensor that the adapter changes, rounded.
func WriteDown[E Element](a *Adapter, tensor string, to Grid[E]) error {
	return a.guard(func() { write(to, a.matrices[tensor].down(), 1) })
}

// WriteUp writes scale * B of such a tensor, rounded once.
func WriteUp[E Element](a *Adapter, tensor string, to Grid[E]) error {
	m := a.matrices[tensor]
	return a.guard(func() { write(to, m.up(), m.scale) })
}

// guard calls read, which reads the mapped file.
func (a *Adapter) guard(read func()) error {
	if err := mapped.Guard(func() error { read(); return nil }); err != nil {
		return fmt.Errorf("adapter %s: %w", a.Place, err)
	}
	return nil
}

// target is a tensor of the base that a module of the adapter changes.
type target struct {
	arch.Tensor
	place func(row int) int // see matrix
	// out is how many rows the module has.
	out int
}

// adapted are the parts that adapters may change.
var adapted = []arch.Part{arch.Q, arch.K, arch.V, arch.O, arch.Gate, arch.Up, arch.Down, arch.Embedding, arch.Head}

// targets are the tensors of a base by the names of their modules, as transformers has them.
func targets(base *models.Config) map[string][]target {
	all := map[string][]target{}
	add := func(name string, t target) {
		if module, ok := strings.CutSuffix(name, ".weight"); ok {
			all[module] = append(all[module], t)
		}
	}
	eachTarget(base, storedOf(base).Interleaved, func(t target) { add(t.Name, t) },
		func(w *arch.Within, t target) { add(w.Name, t) })
	return all
}

// eachTarget calls own for each tensor that an adapter may change, and part if it is a part of a larger one. If the
// adapter's rows of q and k are interleaved, so that neighbours are turned, they are in the order of the base's.
func eachTarget(base *models.Config, interleaved bool, own func(target), part func(*arch.Within, target)) {
	for t := range base.Untied().Tensors() {
		isHead := t.Part == arch.Q || t.Part == arch.K || t.Part == arch.V
		if !slices.Contains(adapted, t.Part) || len(t.Shape) != 2 || isHead && base.Layers[t.Layer].Latent.Rank > 0 {
			continue
		}
		var order func(row int) int
		if interleaved && (t.Part == arch.Q || t.Part == arch.K) && len(base.Ropes) > 0 {
			order = arch.InterleavedRow(base.HeadDim, base.RopeDims(arch.FullRope))
		}
		own(target{Tensor: t, place: order, out: t.Shape[0]})
		if w := t.Within; w != nil {
			within := func(row int) int { return w.Row(row, t.Shape[0]) }
			if order != nil {
				within = func(row int) int { return w.Row(order(row), t.Shape[0]) }
			}
			part(w, target{Tensor: t, place: within, out: w.Rows})
		}
	}
}

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
func (a *Adapter) find(c *config, tensors []safetensors.Tensor, base *models.Config) error {
	found := map[string]*module{}
	copies := map[string]*safetensors.Tensor{}
	for i := range tensors {
		t := &tensors[i]
		name, ok := strings.CutPrefix(t.Name, prefix)
		if !ok {
			return fmt.Errorf("tensor %q: its name does not begin with %q, as in PEFT's files", t.Name, prefix)
		}
		of, kind, err := split(name)
		if err != nil {
			return fmt.Errorf("tensor %q %w", t.Name, err)
		}
		if _, known := encodings[t.DType]; !known {
			return fmt.Errorf("tensor %q has dtype %s, which is not supported: F32, BF16 and F16 are", t.Name, t.DType)
		}
		switch axes := len(t.Dims); {
		case kind == partMagnitude && (axes != 1 || t.Dims[0] < 1):
			return fmt.Errorf("tensor %q has shape %v, and a vector was expected", t.Name, t.Dims)
		case kind != partMagnitude && (axes != 2 || slices.Min(t.Dims) < 1):
			return fmt.Errorf("tensor %q has shape %v, and a matrix was expected", t.Name, t.Dims)
		case !c.targets(of):
			return fmt.Errorf("tensor %q: target_modules, exclude_modules and layers_to_transform of %s leave out its "+
				"module", t.Name, ConfigFile)
		case kind == partMagnitude && !c.magnitudes:
			return fmt.Errorf("tensor %q is of DoRA, and use_dora is not true", t.Name)
		}
		if kind == baseCopy {
			copies[of] = t
			continue
		}
		if found[of] == nil {
			found[of] = &module{}
		}
		switch m := found[of]; kind {
		case partMagnitude:
			m.magnitude = t
		case partA, embeddedA:
			m.a, m.embeds = t, kind == embeddedA
		default:
			m.b = t
		}
	}
	if len(found) == 0 {
		return fmt.Errorf("%s has no tensors", WeightsFile)
	}
	known, stored := targets(base), storedOf(base)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		switch {
		case m.a == nil || m.b == nil:
			return fmt.Errorf("module %s has only one of lora_A and lora_B", name)
		case c.magnitudes && m.magnitude == nil:
			return fmt.Errorf("module %s has no lora_magnitude_vector, and use_dora is true", name)
		case m.embeds && m.magnitude != nil:
			return fmt.Errorf("module %s: DoRA of embeddings is not supported: merge the adapter with PEFT", name)
		}
		wanted, scale := c.of(name)
		if rank := m.a.Dims[0]; rank != wanted {
			return fmt.Errorf("tensor %q has shape %v, but %s gives its module rank %d", m.a.Name, m.a.Dims, ConfigFile,
				wanted)
		}
		if err := a.add(*m, scale, known[moduleOf(stored, name)]); err != nil {
			return err
		}
	}
	for name, t := range copies {
		for _, to := range known[moduleOf(stored, name)] {
			if !slices.Equal(t.Dims, to.Shape) {
				return fmt.Errorf("tensor %q has shape %v, and %s of the base has %v", t.Name, t.Dims, to.Name,
					to.Shape)
			}
			a.copies[to.Name] = t
		}
	}
	return nil
}

// add records what a module changes.
func (a *Adapter) add(m module, scale float32, to []target) error {
	low, high := m.a, m.b
	if to == nil {
		return fmt.Errorf("tensor %q: the base has no matrix of this name that an adapter may change; adapters of q, "+
			"k, v, o, gate, up and down projections of dense layers, of embeddings and of the output matrix are "+
			"supported", low.Name)
	}
	rank := low.Dims[0]
	switch {
	case rank > maxRank:
		return fmt.Errorf("tensor %q has rank %d, and at most %d is supported", low.Name, rank, maxRank)
	case high.Dims[1] != rank:
		return fmt.Errorf("tensor %q has shape %v, which does not fit rank %d of %q", high.Name, high.Dims, rank,
			low.Name)
	}
	of, in, ofOut, out := low, low.Dims[1], high, high.Dims[0]
	if m.embeds {
		of, in, ofOut, out = high, high.Dims[0], low, low.Dims[1]
	}
	for _, t := range to {
		switch {
		case m.embeds != (t.Part == arch.Embedding):
			return fmt.Errorf("tensor %q is not what adapters of %s have", low.Name, t.Name)
		case in != t.Shape[1]:
			return fmt.Errorf("tensor %q has shape %v, but %s of the base takes %d inputs", of.Name, of.Dims, t.Name,
				t.Shape[1])
		case out != t.out:
			return fmt.Errorf("tensor %q has shape %v, but the module of %s has %d outputs", ofOut.Name, ofOut.Dims,
				t.Name, t.out)
		case m.magnitude != nil && m.magnitude.Dims[0] != t.out:
			return fmt.Errorf("tensor %q has shape %v, but the module of %s has %d outputs", m.magnitude.Name,
				m.magnitude.Dims, t.Name, t.out)
		case a.Adapts(t.Name):
			return fmt.Errorf("tensor %q changes %s, which another tensor changes too", low.Name, t.Name)
		}
		a.matrices[t.Name] = matrix{module: m, rank: rank, in: in, out: t.Shape[0], scale: scale,
			place: t.place}
	}
	a.Rank = max(a.Rank, rank)
	return nil
}

// digest hashes what completions depend on: for each tensor of the base the scale and the numbers.
func (a *Adapter) digest() string {
	return a.hash(func(to io.Writer, t *safetensors.Tensor) { _, _ = to.Write(t.Data) })
}

// layout hashes the same with the names of the file's tensors in place of their numbers.
func (a *Adapter) layout() string {
	return a.hash(func(to io.Writer, t *safetensors.Tensor) { fmt.Fprintln(to, t.Name) })
}

func (a *Adapter) hash(add func(to io.Writer, t *safetensors.Tensor)) string {
	h := sha256.New()
	for _, name := range a.Tensors() {
		m := a.matrices[name]
		fmt.Fprintf(h, "%s %d %d %d %08x %s %s\n", name, m.out, m.rank, m.in, math.Float32bits(m.scale),
			m.a.DType, m.b.DType)
		add(h, m.a)
		add(h, m.b)
		if m.magnitude != nil {
			fmt.Fprintf(h, "magnitude %s\n", m.magnitude.DType)
			add(h, m.magnitude)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}
