package adapter

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/quire/quire/models"
	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/safetensors"
)

// Extension is that of files of llama.cpp, of which one is an adapter.
const Extension = ".gguf"

// openGGUF opens an adapter of llama.cpp: a GGUF file with pairs lora_a and lora_b.
func openGGUF(path string, base *models.Config) (*Adapter, error) {
	before, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	file, err := gguf.Open(path, nil)
	if err != nil {
		return nil, err
	}
	a := newAdapter(path, file)
	return a.opened(path, before, a.findGGUF(file, base))
}

// checkGGUF refuses files that are no LoRA adapter of the base's class. It returns alpha.
func checkGGUF(file *gguf.File, base *models.Config) (alpha float64, err error) {
	kind, _ := file.String("general.type")
	how, _ := file.String("adapter.type")
	class, _ := file.String("general.architecture")
	fits := func(d arch.Decoder) bool { return d.Class == base.Architecture && d.GGUF.Architecture == class }
	switch {
	case kind != "adapter":
		return 0, fmt.Errorf("general.type is %q, and the file of an adapter has \"adapter\"", kind)
	case how != "lora":
		return 0, fmt.Errorf("adapter.type is %q, and only lora is supported", how)
	case file.Has("adapter.alora.invocation_tokens"):
		return 0, errors.New("adapter.alora.invocation_tokens is set: adapters that begin at a token (aLoRA) cannot " +
			"be read")
	case !slices.ContainsFunc(models.Decoders, fits):
		return 0, fmt.Errorf("general.architecture is %q, and the base is %s", class, base.Architecture)
	}
	alpha, _ = file.Float("adapter.lora.alpha")
	return alpha, nil
}

// findGGUF checks the tensors of the file, and finds what each changes.
func (a *Adapter) findGGUF(file *gguf.File, base *models.Config) error {
	alpha, err := checkGGUF(file, base)
	if err != nil {
		return err
	}
	found := map[string]*module{} // by the tensors that they change
	tensors := file.Tensors()
	for i := range tensors {
		t := &tensors[i]
		name, isA := strings.CutSuffix(t.Name, ".lora_a")
		if !isA {
			var isB bool
			if name, isB = strings.CutSuffix(t.Name, ".lora_b"); !isB {
				return fmt.Errorf("tensor %q is neither a lora_a nor a lora_b", t.Name)
			}
		}
		dtype := t.Type.String()
		switch _, known := encodings[dtype]; {
		case !known:
			return fmt.Errorf("tensor %q has type %s, which is not supported: F32, BF16 and F16 are", t.Name, dtype)
		case len(t.Dims) != 2 || slices.Min(t.Dims) < 1:
			return fmt.Errorf("tensor %q has shape %v, and a matrix was expected", t.Name, t.Dims)
		}
		if found[name] == nil {
			found[name] = &module{}
		}
		read := &safetensors.Tensor{Name: t.Name, DType: dtype, Dims: t.Dims, Data: t.Data}
		if isA {
			found[name].a = read
		} else {
			found[name].b = read
		}
	}
	if len(found) == 0 {
		return errors.New("it has no tensors")
	}
	known := ggufTargets(base)
	for _, name := range slices.Sorted(maps.Keys(found)) {
		m := found[name]
		if m.a == nil || m.b == nil {
			return fmt.Errorf("tensor %q has only one of lora_a and lora_b", name)
		}
		scale := float32(1) // as llama.cpp has it
		if alpha != 0 {
			scale = float32(alpha / float64(m.b.Dims[1]))
		}
		if err := a.add(*m, scale, known[name]); err != nil {
			return err
		}
	}
	return nil
}

// ggufTargets are the tensors of a base by the names that they have in GGUF files: parts of a larger one where files
// have that. Adapters of embeddings turn them around, and are not among them.
func ggufTargets(base *models.Config) map[string][]target {
	interleaved := slices.ContainsFunc(models.Decoders, func(d arch.Decoder) bool {
		return d.Class == base.Architecture && d.GGUF.Interleaved
	})
	all, wholes := map[string][]target{}, map[string][]target{}
	eachTarget(base, interleaved, func(t target) {
		if t.Part != arch.Embedding {
			all[t.GGUF] = append(all[t.GGUF], t)
		}
	}, func(w *arch.Within, t target) { wholes[w.GGUF] = append(wholes[w.GGUF], t) })
	delete(wholes, "")
	maps.Copy(all, wholes) // gate and up in one may be called as up alone is
	return all
}
