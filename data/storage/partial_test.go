package storage

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// holds fails unless the copy has these bytes of data.
func holds(t *testing.T, p *Partial, data []byte, list ...Range) {
	t.Helper()
	got, err := os.ReadFile(p.Path())
	if err != nil || len(got) != len(data) {
		t.Fatal(len(got), err)
	}
	for _, r := range list {
		if !bytes.Equal(got[r.From:r.To], data[r.From:r.To]) {
			t.Errorf("bytes %d to %d are wrong", r.From, r.To)
		}
	}
}

// A partial copy has what was asked for, nothing is fetched twice, and what lies close together comes together.
func TestPartial(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		cache := t.TempDir()
		data := noise(3 << 20)
		p.raw(t, "m/model.gguf", data)
		open := func() *Partial {
			part, err := OpenPartial(t.Context(), p.url("m/model.gguf"), cache, PartialOptions{Gap: 1000})
			if err != nil {
				t.Fatal(err)
			}
			return part
		}
		part := open()
		if filepath.Base(part.Path()) != "model.gguf" {
			t.Error(part.Path())
		}
		need := func(wantRequests int, wantBytes int64, list ...Range) {
			t.Helper()
			p.set(nil)
			if err := part.Need(list...); err != nil {
				t.Fatal(err)
			}
			if n, served := p.counts(); n != wantRequests || served != wantBytes {
				t.Errorf("%v took %d requests of %d bytes, want %d of %d", list, n, served, wantRequests, wantBytes)
			}
			holds(t, part, data, list...)
		}
		need(1, 100, Range{0, 100})
		need(0, 0, Range{10, 90})
		need(2, 1400, Range{5000, 5100}, Range{6100, 6300}, Range{400_000, 400_100})
		need(1, 700_000, Range{0, 100}, Range{1_000_000, 1_700_000})
		need(1, 50, Range{1_699_000, 1_700_050})
		if err := part.Need(Range{0, int64(len(data)) + 1}); err == nil {
			t.Error("bytes beyond the end were there")
		}
		if err := errors.Join(part.Close(), part.Close()); err != nil {
			t.Fatal(err)
		}
		part = open()
		need(0, 0, Range{5000, 5100}, Range{1_000_000, 1_700_050})
		need(1, 3, Range{2_000_000, 2_000_003})
		other := open() // at the same time
		if err := other.Need(Range{2_500_000, 2_500_100}); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(other.Close(), part.Close()); err != nil {
			t.Fatal(err)
		}
		part = open()
		need(0, 0, Range{2_000_000, 2_000_003}, Range{2_500_000, 2_500_100})
		part.Close()

		whole, err := Fetch(t.Context(), p.url("m/model.gguf"), cache, nil)
		if err != nil {
			t.Fatal(err)
		}
		part = open()
		if part.Path() != whole {
			t.Errorf("%s, where there is %s", part.Path(), whole)
		}
		need(0, 0, Range{0, int64(len(data))})
		data = data[1:]
		p.raw(t, "m/model.gguf", data)
		if part = open(); part.Path() == whole {
			t.Error("another version is the same file")
		}
		need(1, 100, Range{1 << 20, 1<<20 + 100})
	})
}

// Ranges survive the faults of networks and servers; those of an object that was replaced do not.
func TestPartialThroughFaults(t *testing.T) {
	for _, p := range []*provider{fakeS3(t), fakeGCS(t), fakeAzure(t)} {
		t.Run(p.name, func(t *testing.T) {
			data := noise(1 << 20)
			p.raw(t, "x", data)
			part, err := OpenPartial(t.Context(), p.url("x"), t.TempDir(), PartialOptions{Gap: 1})
			if err != nil {
				t.Fatal(err)
			}
			defer part.Close()
			var mu sync.Mutex
			rng := rand.New(rand.NewPCG(1, 2))
			p.set(func(r *http.Request) string {
				mu.Lock()
				defer mu.Unlock()
				return []string{"", "", "503", "reset", "truncated", "short"}[rng.IntN(6)]
			})
			var list []Range
			for at := int64(0); at < 1<<20; at += 50_000 {
				list = append(list, Range{at, at + 20_000})
			}
			if err := part.Need(list...); err != nil {
				t.Fatal(err)
			}
			holds(t, part, data, list...)
			p.raw(t, "x", noise(2<<20))
			p.set(nil)
			if err := part.Need(Range{30_000, 30_100}); !errors.Is(err, ErrChanged) {
				t.Errorf("of an object that was replaced: %v", err)
			}
		})
	}
}

// What is noted of a copy that can't be true is not believed.
func TestPartialNotes(t *testing.T) {
	p := fakeS3(t)
	cache := t.TempDir()
	data := noise(100_000)
	p.raw(t, "x", data)
	for _, note := range []string{`[{"From":0,"To":100001}]`, `[{"From":-1,"To":5}]`, `{`, ``, `[]`} {
		part, err := OpenPartial(t.Context(), p.url("x"), cache, PartialOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if err := part.Need(Range{5, 10}); err != nil {
			t.Fatal(err)
		}
		holds(t, part, data, Range{5, 10})
		part.Close()
		if err := os.WriteFile(part.notes(), []byte(note), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	local := filepath.Join(t.TempDir(), "here")
	if err := os.WriteFile(local, data, 0o600); err != nil {
		t.Fatal(err)
	}
	part, err := OpenPartial(t.Context(), local, cache, PartialOptions{})
	if err != nil || part.Path() != local || part.Need(Range{0, 5}) != nil || part.Close() != nil {
		t.Error(part, err)
	}
}

func TestFetchFolderPartly(t *testing.T) {
	p := fakeGCS(t)
	cache := t.TempDir()
	for _, key := range []string{"m/config.json", "m/a.safetensors", "m/b.safetensors"} {
		p.raw(t, key, noise(10_000))
	}
	all := func(string) bool { return true }
	weights := func(file string) bool { return strings.HasSuffix(file, ".safetensors") }
	p.set(nil)
	dir, parts, err := FetchFolderPartly(t.Context(), p.url("m/"), cache, all, weights, PartialOptions{})
	if err != nil || len(parts) != 2 {
		t.Fatal(parts, err)
	}
	if err := parts["b.safetensors"].Need(Range{100, 200}); err != nil {
		t.Fatal(err)
	}
	if _, served := p.counts(); served > 15_000 { // look-ups at Google's are GETs of JSON
		t.Errorf("%d bytes came", served)
	}
	whole, err := FetchFolder(t.Context(), p.url("m/"), cache, all, nil)
	if err != nil || whole == dir {
		t.Errorf("the folder with parts is that with all: %v", err)
	}
	got, err := os.ReadFile(filepath.Join(dir, "b.safetensors"))
	want, _ := os.ReadFile(filepath.Join(whole, "b.safetensors"))
	if err != nil || !bytes.Equal(got[100:200], want[100:200]) || bytes.Equal(got, want) {
		t.Error("the part is wrong", err)
	}
	for _, p := range parts {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, _, err := FetchFolderPartly(t.Context(), p.url("none/"), cache, all, weights, PartialOptions{}); err == nil {
		t.Error("a folder that is not there was fetched")
	}
}
