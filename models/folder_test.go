package models

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// safetensorsOf makes a weight file of one-element F32 tensors.
func safetensorsOf(names ...string) []byte {
	var entries []string
	for i, name := range names {
		entries = append(entries, fmt.Sprintf(`%q:{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}`, name, 4*i,
			4*i+4))
	}
	header := "{" + strings.Join(entries, ",") + "}"
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, 4*len(names))...)
}

func indexOf(weightMap map[string]string) []byte {
	data, err := json.Marshal(map[string]any{"weight_map": weightMap})
	if err != nil {
		panic(err)
	}
	return data
}

func TestFolderErrors(t *testing.T) {
	type files map[string][]byte
	good := base(nil)
	for name, c := range map[string]struct {
		files files
		want  []string
	}{
		"empty":      {files{}, []string{configFile, "is missing"}},
		"no weights": {files{configFile: good}, []string{"neither model.safetensors nor", "download"}},
		"torch weights": {files{configFile: good, "pytorch_model.bin": nil},
			[]string{"convert them to safetensors"}},
		"GGUF inside": {files{configFile: good, "x.gguf": nil}, []string{"name a GGUF file itself", "x.gguf"}},
		"GGUF alone":  {files{"x.gguf": nil}, []string{configFile + " is missing; name a GGUF file itself", "x.gguf"}},
		"config broken": {files{configFile: []byte("{"), weightsFile: safetensorsOf("a")},
			[]string{configFile, "JSON"}},
		"generation broken": {files{configFile: good, generationFile: []byte("["), weightsFile: safetensorsOf("a")},
			[]string{generationFile, "JSON"}},
		"unsupported": {files{configFile: base(map[string]any{"hidden_act": "relu"}),
			weightsFile: safetensorsOf("a")}, []string{configFile, `hidden_act "relu"`}},
		"weights broken": {files{configFile: good, weightsFile: safetensorsOf("a")[:20]},
			[]string{weightsFile, "truncated"}},
		"index broken": {files{configFile: good, weightsIndex: []byte("{")}, []string{weightsIndex}},
		"index empty": {files{configFile: good, weightsIndex: []byte("{}")},
			[]string{weightsIndex, "names no tensor"}},
		"index escapes": {
			files{configFile: good, weightsIndex: indexOf(map[string]string{"a": "../x.safetensors"})},
			[]string{`"../x.safetensors"`}},
		"shard missing": {
			files{configFile: good, weightsIndex: indexOf(map[string]string{"a": "s1.safetensors"})},
			[]string{weightsIndex + " names s1.safetensors, which is not there"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for file, data := range c.files {
				write(t, filepath.Join(dir, file), data)
			}
			_, err := Open(dir)
			if err == nil {
				t.Fatal("the folder was accepted")
			}
			for _, want := range append(c.want, dir) {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("the error should say %q: %v", want, err)
				}
			}
		})
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := Open("no/such/model"); !errors.Is(err, os.ErrNotExist) ||
		!strings.Contains(err.Error(), "no/such/model") {
		t.Errorf("a missing path gave %v", err)
	}
	if _, err := Open(filepath.Join(tinyModels, "llama2", configFile)); err == nil ||
		!strings.Contains(err.Error(), "--load-format dummy") {
		t.Errorf("a config.json gave %v", err)
	}
	if _, err := Open(filepath.Join(tinyModels, "llama2", weightsFile)); err == nil ||
		!strings.Contains(err.Error(), "give its folder") {
		t.Errorf("a weight file gave %v", err)
	}
}

// TestIndexDecides: a tensor that lies in two shards is the one that the index names.
func TestIndexDecides(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, configFile), base(nil))
	write(t, filepath.Join(dir, weightsIndex), indexOf(map[string]string{"a": "s2.safetensors", "b": "s1.safetensors"}))
	write(t, filepath.Join(dir, "s1.safetensors"), safetensorsOf("a", "b"))
	second := safetensorsOf("a")
	second[len(second)-1] = 0x40 // 2.0
	write(t, filepath.Join(dir, "s2.safetensors"), second)
	x, err := openTest(t, dir).Read("a", dtypes.Float32)
	if err != nil || x.([]float32)[0] != 2 {
		t.Errorf("tensor a is %v, %v", x, err)
	}
}

// TestStaleIndex opens folders whose index names what is not there, as long as the model does not need it.
func TestStaleIndex(t *testing.T) {
	whole, first := safetensorsOf("a"), "s1.safetensors"
	for name, c := range map[string]struct {
		files   map[string][]byte
		missing string // of the error that names a missing tensor
	}{
		"tensor not in shard": {map[string][]byte{first: whole,
			weightsIndex: indexOf(map[string]string{"a": first, "mtp.fc.weight": first})},
			`places tensor "mtp.fc.weight" in s1.safetensors, which does not have it`},
		"shard not there": {map[string][]byte{first: whole,
			weightsIndex: indexOf(map[string]string{"a": first, "b": "s2.safetensors"})},
			"names s2.safetensors, which is not there"},
		"one file besides": {map[string][]byte{weightsIndex: indexOf(map[string]string{"a": "s2.safetensors"}),
			weightsFile: whole}, ""},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, configFile), base(nil))
		for file, data := range c.files {
			write(t, filepath.Join(dir, file), data)
		}
		m := openTest(t, dir)
		if m.Shape("a") == nil {
			t.Errorf("%s: the tensor that is there is not found", name)
		}
		if _, err := m.Validate(); err == nil || !strings.Contains(err.Error(), c.missing) ||
			c.missing == "" && strings.Contains(err.Error(), "stale") {
			t.Errorf("%s: %v, want %q", name, err, c.missing)
		}
	}
}

func TestTokenizerOfFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, configFile), base(nil))
	write(t, filepath.Join(dir, weightsFile), safetensorsOf("a"))
	if got := openTest(t, dir).TokenizerSource(); got != "" {
		t.Errorf("tokenizer %q", got)
	}
	write(t, filepath.Join(dir, tokenizerConfig), []byte(`{"chat_template": {"default": "D", "tool_use": "U"}, "x": NaN}`))
	if got := openTest(t, dir).ChatTemplate(); got != "D" {
		t.Errorf("template %q", got)
	}
	write(t, filepath.Join(dir, tokenizerFile), []byte("{}"))
	if got := openTest(t, dir).TokenizerSource(); got != dir {
		t.Errorf("tokenizer is %q, want %q", got, dir)
	}
}

func TestFingerPrint(t *testing.T) {
	dir := t.TempDir()
	config, weights := filepath.Join(dir, configFile), filepath.Join(dir, weightsFile)
	write(t, config, base(nil))
	data := safetensorsOf("a", "b")
	write(t, weights, data)
	first := openTest(t, dir).FingerPrint()
	if again := openTest(t, dir).FingerPrint(); again != first {
		t.Error("the same files have two fingerprints")
	}
	data[len(data)-1] ^= 1
	write(t, weights, data)
	second := openTest(t, dir).FingerPrint()
	write(t, config, base(map[string]any{"rope_theta": 5}))
	third := openTest(t, dir).FingerPrint()
	write(t, filepath.Join(dir, tokenizerFile), []byte("{}"))
	fourth := openTest(t, dir).FingerPrint()
	if first == second || second == third || third == fourth {
		t.Error("a change of weights, config or tokenizer does not change the fingerprint")
	}
}
