package models

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/quire/quire/models/gguf"
)

// folderFile reports whether Open or a tokenizer may read a file of a Hugging Face folder: other than weights, or
// including weights.
func folderFile(name string, weights bool) bool {
	if name == weightsFile || filepath.Ext(name) == ".safetensors" && !strings.Contains(name, "/") {
		return weights
	}
	return isText(name)
}

// IsWeights reports whether a file of a folder holds weights. A process may need only parts of such files.
func IsWeights(file string) bool {
	return filepath.Ext(file) == ".safetensors" || filepath.Ext(file) == ".gguf"
}

// SplitNames returns the names of all files of a split GGUF model, given one of them. It returns only name if that is
// not such a name.
func SplitNames(name string) []string { return gguf.SplitNames(name) }

// FetchFolder copies the files of a remote Hugging Face folder to this machine and returns the local folder, for
// Open. fetch copies the files for which want holds, given their paths in the folder, and returns the local folder.
// It is called several times, so that an unsupported model is rejected before its weights are fetched.
func FetchFolder(fetch func(want func(file string) bool) (dir string, err error)) (dir string, err error) {
	if dir, err = fetch(func(file string) bool { return folderFile(file, false) }); err != nil {
		return "", err
	}
	if _, err := readFolderConfig(dir); err != nil {
		return "", err
	}
	weights := func(file string) bool { return folderFile(file, true) }
	shards, _, err := readIndex(dir)
	if err == nil { // there may be weight files that the index does not list
		weights = func(file string) bool { return slices.Contains(shards, file) || folderFile(file, false) }
	}
	if dir, err = fetch(weights); err != nil {
		return "", err
	}
	// The index may be left over from shards that were joined: then the folder has one file instead, as in
	// weightShards.
	here := func(shard string) bool { return exists(filepath.Join(dir, shard)) }
	gone := slices.DeleteFunc(slices.Clone(shards), here)
	if len(gone) > 0 {
		wanted := weights
		weights = func(file string) bool { return file == weightsFile || wanted(file) }
		if dir, err = fetch(weights); err != nil {
			return "", err
		}
		if len(gone) == len(shards) && !exists(filepath.Join(dir, weightsFile)) {
			return "", fmt.Errorf("%s names %s, which is not there: add it, or delete the index if it is another "+
				"model's", weightsIndex, gone[0])
		}
	}
	if _, _, err := weightShards(dir); err != nil {
		return "", fmt.Errorf("the folder has no weights that can be read: %w", err)
	}
	return dir, nil
}
