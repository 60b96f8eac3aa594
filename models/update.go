package models

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/models/arch"
)

// OpenUpdate opens a folder with weights for a model that is open already: all of its tensors, or only those that
// changed. The folder is as in [Open], but needs no config.json: without one it has the model's. The error names a
// tensor that the model lacks. What the engine takes is the update over the model: see [Checkpoint.Over].
func OpenUpdate(dir string, running *Checkpoint) (*Checkpoint, error) {
	c, err := openUpdate(dir, running)
	if err != nil {
		return nil, fmt.Errorf("weights %s: %w", dir, err)
	}
	c.Ref = dir
	return c, nil
}

func openUpdate(dir string, running *Checkpoint) (*Checkpoint, error) {
	config := &running.Config
	if exists(filepath.Join(dir, configFile)) {
		config = nil
	}
	c, err := openFolder(dir, config, nil)
	if err != nil {
		return nil, err
	}
	var unknown []string
	for _, name := range c.names {
		derived := name == arch.NameHead || strings.HasSuffix(name, "rotary_emb.inv_freq") ||
			slices.Contains(arch.RopeTensors, name)
		if running.tensors[name] == nil && !derived {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) > 0 {
		c.Close()
		return nil, fmt.Errorf("the running model has no tensor %s%s", unknown[0], more(len(unknown)-1))
	}
	return c, nil
}

// sameConfig compares what programs follow from. The tokens that end a completion, and the dtype that weights are
// stored in, are the running model's.
func sameConfig(now, running *Config) error {
	fields := func(c Config) (all map[string]json.RawMessage) {
		c.BOS, c.EOS, c.DType = 0, nil, dtypes.InvalidDType
		text, _ := json.Marshal(c) // cannot fail: numbers, strings and slices of them
		_ = json.Unmarshal(text, &all)
		return all
	}
	a, b := fields(*now), fields(*running)
	for _, name := range slices.Sorted(maps.Keys(b)) {
		if !bytes.Equal(a[name], b[name]) {
			return fmt.Errorf("its config has %s %s, and the running model's has %s: it is another model", name,
				brief(a[name]), brief(b[name]))
		}
	}
	return nil
}

// more is the end of an error that names the first of several.
func more(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", nor %d others of the folder", n)
}

// brief shortens a value for an error.
func brief(value []byte) string {
	const most = 60
	if len(value) > most {
		return string(value[:most]) + "..."
	}
	return string(value)
}
