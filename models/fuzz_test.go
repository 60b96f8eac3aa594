package models

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzFolderFiles reads any index of a sharded model and any tokenizer_config.json: an error, or files of this folder
// and a text.
func FuzzFolderFiles(f *testing.F) {
	f.Add([]byte(`{"weight_map": {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "../x.safetensors"}}`))
	f.Add([]byte(`{"weight_map": {"a": "/etc/x.safetensors", "b": ".safetensors"}}`))
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, weightsIndex), data, 0o600); err != nil {
			t.Fatal(err)
		}
		shards, index, err := readIndex(dir)
		if err == nil && (len(shards) == 0 || len(index) < len(shards)) {
			t.Fatalf("%q of %v", shards, index)
		}
		for _, shard := range shards {
			if filepath.Dir(filepath.Join(dir, shard)) != filepath.Clean(dir) {
				t.Fatalf("%q is outside of the folder", shard)
			}
		}
	})
}
