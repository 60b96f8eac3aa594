package models

import (
	"fmt"
	"os"
	"path/filepath"
)

// OpenConfig opens a model for its shapes: the checkpoint has the config and the tokenizer of ref and the weights of
// [Dummy]. ref is as in [Open], or a file whose name ends in .json with the content of a config.json. Weights of a
// folder or a hub repository are neither read nor fetched, and need not exist. A GGUF file keeps its own weights, in
// their blocks, because it has no shapes without them.
func OpenConfig(ref string) (*Checkpoint, error) {
	c, err := openConfig(ref)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", ref, err)
	}
	c.Ref = ref
	return c, nil
}

func openConfig(ref string) (*Checkpoint, error) {
	path := ref
	if OnHub(ref) {
		var err error
		if path, err = fetchFromHub(ref, true); err != nil {
			return nil, err
		}
	}
	info, err := os.Stat(path)
	if err == nil && (info.IsDir() || filepath.Ext(path) == ".json") {
		return openDummy(path)
	}
	return openPath(path, nil) // opens the GGUF file, or returns the error
}
