package engine_test

import (
	"bytes"
	"errors"
	"fmt"
	"regexp"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// A snapshot of a build that computed other bytes is refused.
func TestSnapshotOfAnotherVersion(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.HostKVMemory, c.Backend = 64<<20, testenv.Go(t) })
	var file bytes.Buffer
	if _, err := e.SavePrefix(t.Context(), sharing(1, 32), &file); err != nil {
		t.Fatal(err)
	}
	version := regexp.MustCompile(`"version":(\d+)`).FindSubmatch(file.Bytes())
	if version == nil {
		t.Fatal("the snapshot states no version")
	}
	old := bytes.Replace(file.Bytes(), version[0], []byte(`"version":0`), 1)
	_, err := e.LoadPrefix(bytes.NewReader(old))
	want := fmt.Sprintf("%v: version is 0 in the file and %s here", engine.ErrSnapshotMismatch, version[1])
	if err == nil || err.Error() != want {
		t.Errorf("loading it: %v, want %q", err, want)
	}
}

// A snapshot is refused by an engine of another model, of other dtypes or with another order in pages, with what
// differs.
func TestSnapshotOfAnother(t *testing.T) {
	memory := func(c *engine.Config) { c.HostKVMemory, c.Backend = 64<<20, testenv.Go(t) }
	var file bytes.Buffer
	if n, err := contractEngine(t, memory).SavePrefix(t.Context(), sharing(1, 32), &file); err != nil || n != 32 {
		t.Fatalf("saved %d tokens: %v", n, err)
	}
	model := func(family string) string { return testenv.Model(t, family).FingerPrint() }
	for _, c := range []struct {
		name, family string
		dtype, kv    dtypes.DType
		differs      string
		kernels      bool
	}{
		{"model", "llama32-tied", dtypes.InvalidDType, dtypes.InvalidDType,
			fmt.Sprintf("model is %s in the file and %s here", model(contractFamily), model("llama32-tied")), false},
		{"dtype", contractFamily, dtypes.BFloat16, dtypes.Float32, "dtype is Float32 in the file and BFloat16 here",
			false},
		{"dtype of the KV cache", contractFamily, dtypes.Float32, dtypes.BFloat16,
			"kv_dtype is Float32 in the file and BFloat16 here", false},
		{"keys and values of 8 bits", contractFamily, dtypes.Float32, dtypes.Int8,
			"kv_dtype is Float32 in the file and Int8 here", false},
		{"pages by head", contractFamily, dtypes.Float32, dtypes.Float32, "by_head is false in the file and true here",
			true},
	} {
		t.Run(c.name, func(t *testing.T) {
			backend := testenv.Go(t)
			if c.kernels {
				backend = testenv.XLA(t)
			}
			e := newEngine(t, c.family, engine.Config{MaxSeqs: 8, PageSize: 16, PrefillTokens: 64, MaxModelLen: 160,
				MaxRounds: 8, HostKVMemory: 64 << 20, Backend: backend, DType: c.dtype, KVDType: c.kv})
			_, err := e.LoadPrefix(bytes.NewReader(file.Bytes()))
			if want := engine.ErrSnapshotMismatch.Error() + ": " + c.differs; !errors.Is(err,
				engine.ErrSnapshotMismatch) || err.Error() != want {
				t.Errorf("got %v, want %s", err, want)
			}
		})
	}
}
