package models

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

// Keys of general.sampling of a GGUF file, as llama.cpp has them, are defaults of sampling.
func TestGenerationOfGGUF(t *testing.T) {
	for _, c := range []struct {
		keys map[string]any // below general.sampling.
		want map[string]float64
		left []string
	}{
		{nil, nil, nil},
		{map[string]any{"temp": float32(0.6), "top_k": uint32(20), "top_p": float32(0.95), "min_p": float32(0.05),
			"xtc_probability": float32(0.5), "xtc_threshold": float32(0.1), "penalty_repeat": float32(1.05)},
			map[string]float64{"temperature": 0.6, "top_k": 20, "top_p": 0.95, "min_p": 0.05, "xtc_probability": 0.5,
				"xtc_threshold": 0.1, "repetition_penalty": 1.05}, nil},
		// The penalty's window.
		{map[string]any{"penalty_repeat": float32(1.1), "penalty_last_n": uint32(64)},
			map[string]float64{"repetition_penalty": 1.1}, []string{"general.sampling.penalty_last_n 64"}},
		{map[string]any{"penalty_repeat": float32(1.1), "penalty_last_n": float32(-1)},
			map[string]float64{"repetition_penalty": 1.1}, nil},
		{map[string]any{"penalty_repeat": float32(1.1), "penalty_last_n": uint32(0)}, map[string]float64{}, nil},
		{map[string]any{"penalty_repeat": float32(1), "penalty_last_n": uint32(64)},
			map[string]float64{"repetition_penalty": 1}, nil},
		{map[string]any{"penalty_last_n": uint32(64)}, nil, nil},
		// What Quire lacks, and what has no effect.
		{map[string]any{"mirostat": uint32(2), "mirostat_tau": float32(5), "mirostat_eta": float32(0.1)}, nil,
			[]string{"general.sampling.mirostat 2"}},
		{map[string]any{"mirostat": uint32(0), "mirostat_tau": float32(5)}, nil, nil},
		{map[string]any{"sequence": "top_k;temperature", "temp": "warm", "of_tomorrow": float32(0.25),
			"top_k": []uint32{1}}, nil, []string{"general.sampling.of_tomorrow 0.25",
			"general.sampling.sequence top_k;temperature", "general.sampling.temp warm",
			"general.sampling.top_k of a type that is not read"}},
	} {
		file := tinyGGUF()
		for key, value := range c.keys {
			file.values["general.sampling."+key] = value
		}
		path := filepath.Join(t.TempDir(), "model.gguf")
		err := os.WriteFile(path, file.encode(), 0o600)
		if err != nil {
			t.Fatal(err)
		}
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		got := m.Config.Generation
		if got.From != "GGUF metadata" || !reflect.DeepEqual(got.Asked, c.want) || !slices.Equal(got.Left, c.left) {
			t.Errorf("%v: %+v", c.keys, got)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Settings of a generation_config.json other than the defaults that are used are reported, unless they have no
// effect.
func TestGenerationConfig(t *testing.T) {
	config := base(nil)
	c, err := ParseConfig(config, []byte(`{"temperature": 0.6, "top_k": 20, "top_p": null, "typical_p": 0.9,
		"do_sample": true, "eos_token_id": 2, "bos_token_id": 1, "pad_token_id": 0, "max_length": 4096,
		"_from_model_config": true, "transformers_version": "5.0.0", "num_beams": 1, "length_penalty": 1.0,
		"no_repeat_ngram_size": 3, "suppress_tokens": [7], "max_new_tokens": 99, "penalty_alpha": 0.0}`))
	if err != nil {
		t.Fatal(err)
	}
	got := c.Generation
	want := map[string]float64{"temperature": 0.6, "top_k": 20, "typical_p": 0.9}
	left := []string{"max_new_tokens 99", "no_repeat_ngram_size 3", "suppress_tokens [7]"}
	if got.From != generationFile || !maps.Equal(got.Asked, want) || !slices.Equal(got.Left, left) {
		t.Errorf("%+v", got)
	}
	c, err = ParseConfig(config, []byte(`{"do_sample": false, "temperature": 0.7, "top_p": 0.8}`))
	if want := map[string]float64{"temperature": 0, "top_p": 0.8}; err != nil || !maps.Equal(c.Generation.Asked, want) {
		t.Errorf("do_sample false: %+v, %v", c.Generation, err)
	}
	if c, err = ParseConfig(config, nil); err != nil || c.Generation.Asked != nil {
		t.Errorf("%+v, %v", c.Generation, err)
	}
}
