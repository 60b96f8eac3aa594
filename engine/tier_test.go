package engine_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// Prefixes that move to the host and come back change no bit of what is drawn.
func TestSameBytesWithHostMemory(t *testing.T) {
	want := collect(t, contractEngine(t, func(c *engine.Config) { c.NoPrefixCache = true }), sharingRequests()...)
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory, c.HostKVMemory = smallPool, 64<<20 })
	for range 2 { // the second run finds what the first left
		sameBytes(t, want, collectInOrder(t, e, sharingRequests()...), true)
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
	withMemory := func(c *engine.Config) { c.KVMemory, c.HostKVMemory = smallPool, 64<<20 }
	e := contractEngine(t, withMemory)
	// 100 tokens, 6 full pages
	requests := func() []*engine.Request { return []*engine.Request{contractRequests()[13]} }
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
			if _, err := other.LoadPrefix(bytes.NewReader(broken)); !errors.Is(err, engine.ErrSnapshotCorrupt) &&
				!errors.Is(err, engine.ErrSnapshotMismatch) {
				t.Errorf("byte %d changed: %v", at, err)
			}
			if _, err := other.LoadPrefix(bytes.NewReader(file.Bytes()[:at])); !errors.Is(err,
				engine.ErrSnapshotCorrupt) {
				t.Errorf("cut to %d bytes: %v", at, err)
			}
		}
	})
	t.Run("another page size", func(t *testing.T) {
		third := contractEngine(t, func(c *engine.Config) {
			c.HostKVMemory, c.PageSize, c.Backend = 64<<20, 8,
				testenv.Go(t)
		})
		if _, err := third.LoadPrefix(bytes.NewReader(file.Bytes())); !errors.Is(err, engine.ErrSnapshotMismatch) ||
			!strings.Contains(err.Error(), "page_size is 16 in the file and 8 here") {
			t.Error(err)
		}
	})
	t.Run("no memory", func(t *testing.T) {
		if _, err := contractEngine(t, nil).LoadPrefix(bytes.NewReader(file.Bytes())); !errors.Is(err,
			engine.ErrNoHostMemory) {
			t.Error(err)
		}
	})
}

// What is pinned stays with the host, however much comes after it, until it is unpinned.
func TestPinnedPrefix(t *testing.T) {
	ctx := t.Context()
	const block = 16 * 16 * 384 // bytes of the host's memory that any of these prefixes takes
	e := contractEngine(t, func(c *engine.Config) { c.KVMemory, c.HostKVMemory = smallPool, 2*block })
	prompt := func(seed uint64) []int32 { return sharing(seed, 64) }
	others := uint64(1000)
	isThere := func(what string, tokens []int32, want bool) {
		t.Helper()
		var all []*engine.Request // which take all pages of the device
		for range 12 {
			others++
			all = append(all, greedy(fmt.Sprint(others), sharing(others, 64), 1))
		}
		collect(t, e, all...)
		r := greedy("r", append(tokens, 1), 1)
		collect(t, e, r)
		if there := e.Stats().HitTokens == 64; there != want {
			t.Errorf("%s: it is there is %v, want %v", what, there, want)
		}
	}
	pin := func(seed uint64) error {
		n, err := e.PinPrefix(ctx, append(prompt(seed), 1, 2, 3))
		if err == nil && n != 64 {
			t.Errorf("%d tokens are pinned, want 64", n)
		}
		return err
	}
	if err := pin(1); err != nil {
		t.Fatal(err)
	}
	if err := pin(1); err != nil { // once is enough
		t.Fatal(err)
	}
	var file bytes.Buffer
	for seed := range uint64(4) {
		if _, err := e.SavePrefix(ctx, prompt(10+seed), &file); err != nil {
			t.Fatal(err)
		}
	}
	isThere("pinned", prompt(1), true)
	isThere("one that was kept", prompt(12), false)
	if err := pin(2); err != nil {
		t.Fatal(err)
	}
	if err := pin(3); !errors.Is(err, engine.ErrNoHostMemory) {
		t.Errorf("a third where two are pinned: %v", err)
	}
	if _, err := e.LoadPrefix(&file); !errors.Is(err, engine.ErrNoHostMemory) {
		t.Errorf("a third from a file: %v", err)
	}
	if err := e.UnpinPrefix(prompt(1)); err != nil {
		t.Fatal(err)
	}
	for _, tokens := range [][]int32{prompt(1), prompt(3), {1}} {
		if err := e.UnpinPrefix(tokens); !errors.Is(err, engine.ErrNotPinned) {
			t.Errorf("unpinned what is not pinned: %v", err)
		}
	}
	if err := pin(3); err != nil {
		t.Fatal(err)
	}
	isThere("its room was wanted", prompt(1), false)
	isThere("pinned", prompt(2), true)
	isThere("pinned", prompt(3), true)
}

// sharing draws a prompt.
func sharing(seed uint64, n int) []int32 {
	rng := rand.New(rand.NewPCG(3, seed))
	tokens := make([]int32, n, n+8)
	for i := range tokens {
		tokens[i] = int32(rng.IntN(256))
	}
	return tokens
}
