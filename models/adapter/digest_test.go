package adapter_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/quire/quire/models/adapter"
)

// A file is hashed again if it was changed or replaced, or changed so recently that its time might not tell.
func TestHashedOnce(t *testing.T) {
	long := time.Now().Add(-time.Hour)
	folder := write(t, plain, safetensors(pair()...))
	weights := filepath.Join(folder, adapter.WeightsFile)
	digest := func() string {
		t.Helper()
		a, err := adapter.Open(folder, base(t))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Close()
		return a.Digest
	}
	change := func(last byte, at time.Time) {
		t.Helper()
		data, err := os.ReadFile(weights)
		if err != nil {
			t.Fatal(err)
		}
		data[len(data)-1] = last
		if err := os.WriteFile(weights, data, 0o600); err != nil { // the same file
			t.Fatal(err)
		}
		if err := os.Chtimes(weights, at, at); err != nil {
			t.Fatal(err)
		}
	}
	soon := time.Now().Add(time.Hour) // not settled, however long the test takes
	change(1, soon)
	first := digest()
	change(2, soon)
	second := digest()
	if first == second {
		t.Error("a file that was just changed has its earlier digest")
	}
	change(2, long)
	if digest() != second {
		t.Error("another time of the file changed its digest")
	}
	change(1, long)
	if digest() != second {
		t.Error("a file that looks the same was hashed again")
	}
	change(1, long.Add(time.Nanosecond))
	if digest() != first {
		t.Error("a changed file has its earlier digest")
	}
	other := filepath.Join(folder, "other")
	data, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	data[len(data)-1] = 2
	if err := os.WriteFile(other, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(other, long, long.Add(time.Nanosecond)); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, weights); err != nil {
		t.Fatal(err)
	}
	if digest() != second {
		t.Error("a file that was replaced has its earlier digest")
	}
	config := filepath.Join(folder, adapter.ConfigFile)
	scaled := `{"peft_type": "LORA", "r": 4, "lora_alpha": 4, "target_modules": ["q_proj", "o_proj"]}`
	if err := os.WriteFile(config, []byte(scaled), 0o600); err != nil {
		t.Fatal(err)
	}
	if digest() == second {
		t.Error("another scale did not change the digest")
	}
}
