package engine_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
)

// Prefixes that move to the host and come back change no bit of what is drawn.
func TestSameBytesWithHostMemory(t *testing.T) {
	want := collect(t, contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true }), sharingRequests()...)
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory, c.HostKVMemory = pagesOf(24), 64<<20 })
	for range 2 { // the second run finds what the first left
		sameBytes(t, want, collect(t, e, sharingRequests()...), true)
		s := e.Stats()
		t.Logf("%d bytes moved, %d tokens run, %d taken over", s.MovedBytes, s.PrefillTokens, s.HitTokens)
		if s.MovedBytes == 0 {
			t.Error("nothing was moved: the test does not reach what it is for")
		}
	}
}

// What one engine saved another takes over, and draws the same.
func TestSnapshot(t *testing.T) {
	ctx := context.Background()
	withMemory := func(c *engine.Config) { c.HostKVMemory = 64 << 20 }
	e := contractEngine(t, withMemory)
	requests := func() []*engine.Request { return []*engine.Request{contractRequests()[13]} } // 100 tokens, 6 full pages
	want := collect(t, e, requests()...)
	before := e.Stats()
	var file bytes.Buffer
	n, err := e.SavePrefix(ctx, contractRequests()[13].Tokens, &file)
	if err != nil || n != 96 {
		t.Fatalf("saved %d tokens: %v", n, err)
	}
	other := contractEngine(t, withMemory)
	tokens, err := other.LoadPrefix(bytes.NewReader(file.Bytes()))
	if err != nil || len(tokens) != 96 {
		t.Fatalf("loaded %d tokens: %v", len(tokens), err)
	}
	sameBytes(t, want, collect(t, other, requests()...), true)
	if s := other.Stats(); s.PrefillTokens != before.PrefillTokens-96 {
		t.Errorf("%d tokens were run, %d without the snapshot", s.PrefillTokens, before.PrefillTokens)
	}

	t.Run("damaged", func(t *testing.T) {
		for _, at := range []int{0, 9, 40, 700, file.Len() / 2, file.Len() - 1} {
			broken := bytes.Clone(file.Bytes())
			broken[at] ^= 1
			if _, err := other.LoadPrefix(bytes.NewReader(broken)); !errors.Is(err, engine.ErrSnapshotCorrupt) && !errors.Is(err, engine.ErrSnapshotMismatch) {
				t.Errorf("byte %d changed: %v", at, err)
			}
			if _, err := other.LoadPrefix(bytes.NewReader(file.Bytes()[:at])); !errors.Is(err, engine.ErrSnapshotCorrupt) {
				t.Errorf("cut to %d bytes: %v", at, err)
			}
		}
	})
	t.Run("another page size", func(t *testing.T) {
		third := contractEngine(t, func(c *engine.Config) { c.HostKVMemory, c.PageSize = 64<<20, 8 })
		if _, err := third.LoadPrefix(bytes.NewReader(file.Bytes())); !errors.Is(err, engine.ErrSnapshotMismatch) || !strings.Contains(err.Error(), "page_size is 16 in the file and 8 here") {
			t.Error(err)
		}
	})
	t.Run("no memory", func(t *testing.T) {
		if _, err := contractEngine(t, nil).LoadPrefix(bytes.NewReader(file.Bytes())); !errors.Is(err, engine.ErrNoHostMemory) {
			t.Error(err)
		}
	})
}
