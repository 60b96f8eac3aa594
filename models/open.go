package models

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

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

func openPath(path string, need Need) (*Checkpoint, error) {
	info, err := os.Stat(path)
	if err != nil {
		if errors.Is(err, os.ErrNotExist) {
			return nil, noModel(path)
		}
		return nil, err
	}
	if info.IsDir() {
		return openFolder(path, nil, need)
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
