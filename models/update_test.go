package models

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// updateOf writes a folder with some tensors of a checkpoint, each filled with a value, and returns its path.
func updateOf(t *testing.T, c *Checkpoint, value uint32, names ...string) string {
	t.Helper()
	var entries []string
	var data []byte
	for _, name := range names {
		from, n := len(data), 1
		for _, d := range c.Shape(name) {
			n *= d
		}
		for range n {
			data = binary.LittleEndian.AppendUint32(data, value)
		}
		entries = append(entries, fmt.Sprintf(`%q:{"dtype":"F32","shape":%s,"data_offsets":[%d,%d]}`, name,
			strings.ReplaceAll(fmt.Sprint(c.Shape(name)), " ", ","), from, len(data)))
	}
	header := "{" + strings.Join(entries, ",") + "}"
	dir := t.TempDir()
	file := append(binary.LittleEndian.AppendUint64(nil, uint64(len(header))), header...)
	if err := os.WriteFile(filepath.Join(dir, weightsFile), append(file, data...), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir
}

// An update has its own tensors and the model's others. What it no longer needs is not among its layers, and its
// fingerprint depends on the tensors that it has alone.
func TestUpdates(t *testing.T) {
	model, err := Open(filepath.Join("..", "testdata", "models", "smollm2-like"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	all := model.Names()
	open := func(running *Checkpoint, value uint32, names ...string) *Checkpoint {
		t.Helper()
		c, err := OpenUpdate(updateOf(t, model, value, names...), running)
		if err != nil {
			t.Fatal(err)
		}
		if covers := len(names) == len(all); c.Covers(running) != covers {
			t.Errorf("it covers the model: %t", !covers)
		}
		c = c.Over(running)
		if err := c.Fits(running); err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := open(model, 1, all[:3]...)
	for i, name := range all {
		if first.Shares(model, name) != (i >= 3) {
			t.Errorf("%s is shared with the model: %t", name, i >= 3)
		}
	}
	second := open(first, 2, all[2:5]...)
	third := open(second, 3, all[:5]...) // the first two are not needed any more
	whole := open(third, 4, all...)
	for i, c := range []struct {
		got    *Checkpoint
		layers int
	}{{model, 1}, {first, 2}, {second, 3}, {third, 2}, {whole, 1}} {
		if n := len(c.got.Layers()); n != c.layers {
			t.Errorf("update %d has %d layers, want %d", i, n, c.layers)
		}
	}
	prints := map[string]int{}
	for i, c := range []*Checkpoint{model, first, second, third, whole} {
		if other, ok := prints[c.FingerPrint()]; ok {
			t.Errorf("updates %d and %d have the same fingerprint", other, i)
		}
		prints[c.FingerPrint()] = i
	}
	if open(first, 3, all[:5]...).FingerPrint() != third.FingerPrint() {
		t.Error("the fingerprint depends on what an update replaces")
	}
	if len(slices.Collect(maps.Keys(whole.tensors))) != len(all) {
		t.Error("a whole update lacks tensors")
	}
}

func TestUpdateErrors(t *testing.T) {
	model, err := Open(filepath.Join("..", "testdata", "models", "smollm2-like"))
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	const norm = "model.norm.weight"
	shape := func(name string, shape []int) *Checkpoint {
		return &Checkpoint{tensors: map[string]*tensor{name: {shape: shape}}}
	}
	for name, c := range map[string]struct {
		dir    string
		config []byte
		want   string
	}{
		"unknown": {updateOf(t, shape("model.layers.9.x", []int{2}), 0, "model.layers.9.x"), nil,
			"no tensor model.layers.9.x"},
		"shape":        {updateOf(t, shape(norm, []int{7}), 0, norm), nil, "model.norm.weight has shape [7]"},
		"another":      {updateOf(t, model, 0, norm), base(map[string]any{"vocab_size": 99}), "it is another model"},
		"no weights":   {t.TempDir(), nil, "neither model.safetensors nor"},
		"not a folder": {filepath.Join(t.TempDir(), "x"), nil, "neither model.safetensors nor"},
	} {
		if c.config != nil {
			if err := os.WriteFile(filepath.Join(c.dir, configFile), c.config, 0o666); err != nil {
				t.Fatal(err)
			}
		}
		got, err := OpenUpdate(c.dir, model)
		if err == nil {
			err = got.Over(model).Fits(model)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
