package models

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/gguf"
)

func TestOpenConfig(t *testing.T) {
	config, err := os.ReadFile(filepath.Join("..", "testdata", "models", "qwen3", "config.json"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"config.json", "qwen.json"} {
		if err := os.WriteFile(filepath.Join(dir, name), config, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := Open(filepath.Join("..", "testdata", "models", "qwen3"))
	if err != nil {
		t.Fatal(err)
	}
	defer want.Close()
	for _, ref := range []string{dir, filepath.Join(dir, "config.json"), filepath.Join(dir, "qwen.json")} {
		c, err := OpenConfig(ref)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Validate(); err != nil || c.NumParameters() != want.NumParameters() ||
			c.Config.NumLayers != want.Config.NumLayers || c.Ref != ref {
			t.Errorf("%s is %+v (%v)", ref, c.Config, err)
		}
	}
	if _, err := OpenConfig(filepath.Join(dir, "other.json")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there gives %v", err)
	}

	// Of a hub's repository no weights are fetched, and a second time nothing.
	hub := &fakeHub{repos: map[string]string{"org/m": filepath.Join("..", "testdata", "models", "qwen3")},
		broken: "model.safetensors"}
	unplug := serveHub(t, hub)
	for range 2 {
		c, err := OpenConfig("hf://org/m")
		if err != nil {
			t.Fatal(err)
		}
		if c.NumParameters() != want.NumParameters() {
			t.Errorf("the hub's model has %d parameters, want %d", c.NumParameters(), want.NumParameters())
		}
		unplug()
	}
	if _, err := Open("hf://org/m"); !errors.Is(err, ErrNotFetched) {
		t.Errorf("the weights of the hub's model were fetched: %v", err)
	}
}

// A plan of a GGUF file is one of its blocks.
func TestOpenConfigOfBlocks(t *testing.T) {
	file := wideGGUF()
	mixture(file)
	file.tensors["blk.0.ffn_gate_inp.weight"] = []int{3, 256}
	file.types = map[string]gguf.Type{"blk.0.ffn_gate_exps.weight": gguf.Q4_K}
	c, err := OpenConfig(file.write(t))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Validate(); err != nil {
		t.Error(err)
	}
	const gate = "model.layers.0.block_sparse_moe.experts.1.w1.weight"
	if got := c.Blocks(gate); got != blocks.Q4_K {
		t.Errorf("%s is in blocks of %s, want %s", gate, got, blocks.Q4_K)
	}
}
