package engine_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/quire/quire/engine"
)

// FuzzLoadPrefix loads any bytes as a snapshot of a prefix: an error that says what is wrong, or tokens.
func FuzzLoadPrefix(f *testing.F) {
	// as TestSnapshot has it
	e := contractEngine(f, func(c *engine.Config) { c.KVMemory, c.HostKVMemory = smallPool, 64<<20 })
	tokens := contractRequests()[13].Tokens
	var file bytes.Buffer
	if _, err := e.SavePrefix(context.Background(), tokens[:16], &file); err != nil {
		f.Fatal(err)
	}
	f.Add(file.Bytes())
	f.Add(file.Bytes()[:200])
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		tokens, err := e.LoadPrefix(bytes.NewReader(b))
		switch {
		case err == nil && len(tokens) == 0:
			t.Fatal("no tokens, and no error")
		case err != nil && !errors.Is(err, engine.ErrSnapshotCorrupt) && !errors.Is(err, engine.ErrSnapshotMismatch) &&
			!errors.Is(err, engine.ErrNoHostMemory):
			t.Fatal(err)
		}
	})
}
