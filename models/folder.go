package models

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/internal/pyjson"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/models/safetensors"
	"github.com/quire/quire/models/sentence"
)

// openFolder opens a folder with config.json and model.safetensors or its shards. A config replaces config.json.
func openFolder(dir string, config *Config, need Need) (*Checkpoint, error) {
	c := &Checkpoint{tensors: map[string]*tensor{}}
	var err error
	if config != nil {
		c.Config = *config
	} else if c.Config, err = readFolderConfig(dir); err != nil {
		return nil, err
	}
	if err := addSentence(c, dir); err != nil {
		return nil, err
	}
	shards, index, err := weightShards(dir)
	if err != nil {
		return nil, err
	}
	for _, shard := range shards {
		if !exists(filepath.Join(dir, shard)) {
			c.stale = append(c.stale, fmt.Sprintf("%s names %s, which is not there: fetch it again, or delete the "+
				"index if it is another model's", filepath.Join(dir, weightsIndex), shard))
			continue
		}
		if err := addSafetensors(c, filepath.Join(dir, shard), shard, index, need.forFile(shard)); err != nil {
			c.Close()
			return nil, err
		}
	}
	if len(c.stale) == len(shards) {
		return nil, errors.New(c.stale[0])
	}
	if err := addDense(c, dir, need); err != nil {
		c.Close()
		return nil, err
	}
	for _, stored := range slices.Sorted(maps.Keys(index)) {
		name, used := c.Config.Stored.Name(stored)
		if used && c.tensors[name] == nil && exists(filepath.Join(dir, index[stored])) {
			c.stale = append(c.stale, fmt.Sprintf("%s places tensor %q in %s, which does not have it",
				filepath.Join(dir, weightsIndex), stored, index[stored]))
		}
	}
	if err := errors.Join(assemble(c), arrange(c)); err != nil {
		c.Close()
		return nil, withStale(c, err)
	}
	if err := addFolderText(c, dir); err != nil {
		c.Close()
		return nil, err
	}
	return c.finish(), nil
}

// withStale adds to an error of a missing tensor what the index wrongly claims.
func withStale(c *Checkpoint, err error) error {
	if err == nil || len(c.stale) == 0 {
		return err
	}
	more := ""
	if n := len(c.stale) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more such)", n)
	}
	return fmt.Errorf("%w; the index is stale: %s%s", err, c.stale[0], more)
}

// addSafetensors adds the tensors of one file. With an index, only tensors that it places in this file count, as in the
// reference loader.
func addSafetensors(c *Checkpoint, path, shard string, index map[string]string, need needFile) error {
	return addTensors(c, path, shard, index, need, c.Config.Stored.Name)
}

// addTensors adds the tensors of one file that rename names.
func addTensors(c *Checkpoint, path, shard string, index map[string]string, need needFile,
	rename func(stored string) (name string, used bool)) error {
	f, err := safetensors.Open(path, need.one())
	if err != nil {
		return err
	}
	c.closers = append(c.closers, f.Close)
	id := identityPart{header: f.Header(), need: need}
	for i := range f.Tensors() {
		st := &f.Tensors()[i]
		name, used := rename(st.Name)
		if !used || index != nil && index[st.Name] != shard {
			continue
		}
		t := &tensor{shape: st.Dims, file: path, name: st.Name, stored: st.DType, data: st.Data, unit: 1, blockLen: 1,
			group: 1, blockBytes: 1,
			release: func() { f.Release(st) }, offset: st.Offset, need: need}
		switch st.DType {
		case "F32":
			t.native, t.decode = dtypes.Float32, blockDecoder(gguf.F32, st.Data)
		case "BF16":
			t.native, t.decode = dtypes.BFloat16, blockDecoder(gguf.BF16, st.Data)
		case "F16":
			t.native, t.decode = dtypes.Float16, blockDecoder(gguf.F16, st.Data)
		}
		if t.native != dtypes.InvalidDType {
			t.blockBytes = t.native.Size()
		}
		c.tensors[name] = t
		id.tensors = append(id.tensors, t)
	}
	c.identity = append(c.identity, id)
	return nil
}

// blockDecoder decodes consecutive blocks; first and len(dst) are multiples of the block length.
func blockDecoder(typ gguf.Type, data []byte) func(dst []float32, first int) {
	blockLen, blockBytes := typ.Block()
	return func(dst []float32, first int) {
		start := first / blockLen * blockBytes
		// The error is impossible: the parsers checked that data holds the tensor's elements exactly.
		if err := gguf.Dequantize(typ, dst, data[start:start+len(dst)/blockLen*blockBytes]); err != nil {
			panic(err)
		}
	}
}

// addFolderText finds the tokenizer of a folder, and notes the texts that completions depend on.
func addFolderText(c *Checkpoint, dir string) error {
	if _, err := os.Stat(filepath.Join(dir, tokenizerFile)); err == nil {
		c.tokenizer = dir
	}
	names := append([]string{configFile, generationFile, tokenizerFile, tokenizerConfig, chattemplates.File},
		sentence.Files(dir)...)
	if entries, err := os.ReadDir(filepath.Join(dir, chattemplates.Folder)); err == nil {
		for _, entry := range entries {
			if name := filepath.Join(chattemplates.Folder, entry.Name()); isText(filepath.ToSlash(name)) {
				names = append(names, name)
			}
		}
	}
	var config struct {
		Template json.RawMessage `json:"chat_template"`
	}
	for _, name := range names {
		data, err := readTextFile(filepath.Join(dir, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		c.identity = append(c.identity, identityPart{header: data})
		if name == tokenizerConfig {
			if err := json.Unmarshal(pyjson.Standard(data), &config); err != nil {
				return fmt.Errorf("%s: %w", filepath.Join(dir, name), err)
			}
		}
	}
	templates, err := chattemplates.OfFolder(dir, config.Template)
	c.chatTemplate = cmp.Or(templates[chattemplates.Default], templates[chattemplates.Tools])
	return err
}
