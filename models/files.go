package models

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/models/sentence"
)

// Files of a Hugging Face folder.
const (
	configFile      = "config.json"
	generationFile  = "generation_config.json"
	tokenizerFile   = "tokenizer.json"
	tokenizerConfig = "tokenizer_config.json"
	weightsFile     = "model.safetensors"
	weightsIndex    = "model.safetensors.index.json"
)

// maxTextBytes bounds the text files that are read whole; a tokenizer.json of 200,000 tokens has about 20 MB.
const maxTextBytes = 256 << 20

// weightShards lists the weight files of a folder, and for a sharded model the file of each tensor.
func weightShards(dir string) (shards []string, index map[string]string, err error) {
	shards, index, err = readIndex(dir)
	gone := func(shard string) bool { return !exists(filepath.Join(dir, shard)) }
	switch whole := exists(filepath.Join(dir, weightsFile)); {
	// the shards were joined, and the index is left over
	case whole && (err != nil || slices.ContainsFunc(shards, gone)):
		return []string{weightsFile}, nil, nil
	case !errors.Is(err, os.ErrNotExist):
		return shards, index, err
	}
	return nil, nil, fmt.Errorf("folder %s has neither %s nor %s; %s", dir, weightsFile, weightsIndex,
		otherFormats(dir, "download the model's safetensors files there"))
}

// otherFormats returns what to do with a folder that lacks a file of Hugging Face's: remedy if it has no model of
// another format.
func otherFormats(dir, remedy string) string {
	if found, _ := filepath.Glob(filepath.Join(dir, "*.gguf")); len(found) > 0 {
		return "name a GGUF file itself, e.g. " + found[0]
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.bin")); len(found) > 0 {
		return "PyTorch .bin weights are not read; convert them to safetensors"
	}
	return remedy
}

// readIndex reads the index of a sharded model.
func readIndex(dir string) (shards []string, index map[string]string, err error) {
	path := filepath.Join(dir, weightsIndex)
	data, err := readTextFile(path)
	if err != nil {
		return nil, nil, err
	}
	var file struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(data, &file); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	for name, shard := range file.WeightMap {
		if shard != filepath.Base(shard) || filepath.Ext(shard) != ".safetensors" {
			return nil, nil, fmt.Errorf("%s: tensor %q is in %q, which is not a safetensors file in this folder", path,
				name, shard)
		}
		shards = append(shards, shard)
	}
	if len(shards) == 0 {
		return nil, nil, fmt.Errorf("%s names no tensor", path)
	}
	slices.Sort(shards)
	return slices.Compact(shards), file.WeightMap, nil
}

// readTextFile reads a text file of bounded size.
func readTextFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxTextBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d that are read", path, info.Size(), maxTextBytes)
	}
	return os.ReadFile(path)
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// folderTexts are the files of a folder, other than weights, that Open reads or that tokenizers may need.
var folderTexts = []string{configFile, generationFile, tokenizerFile, tokenizerConfig, chattemplates.File, weightsIndex,
	"special_tokens_map.json", "tokenizer.model", "tiktoken.model", "vocab.json", "merges.txt", "added_tokens.json"}

// isText reports whether a file is one of folderTexts, a tokenizer of tiktoken's, or a chat template.
func isText(name string) bool {
	if dir, file := path.Split(name); dir == chattemplates.Folder+"/" {
		return path.Ext(file) == ".jinja"
	}
	return slices.Contains(folderTexts, name) || sentence.IsFile(name) ||
		filepath.Ext(name) == ".tiktoken" && !strings.Contains(name, "/")
}

func readFolderConfig(dir string) (Config, error) {
	return readConfigFile(filepath.Join(dir, configFile), filepath.Join(dir, generationFile))
}

// readConfigFile reads a config.json and, if it exists, the generation_config.json, which adds to its EOS ids.
func readConfigFile(path, generationPath string) (Config, error) {
	data, err := readTextFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Config{}, noModelError(fmt.Sprintf("%s is missing; %s", path, otherFormats(filepath.Dir(path),
			"a Hugging Face folder needs it")))
	}
	if err != nil {
		return Config{}, err
	}
	generation, err := readTextFile(generationPath)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return Config{}, err
	}
	c, err := ParseConfig(data, generation)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}
