package storage

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestFetch(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		cache := t.TempDir()
		data := noise(11 << 20)
		p.raw(t, "m/model.gguf", data)
		var last int64
		file, err := Fetch(t.Context(), p.url("m/model.gguf"), cache, func(_ string, done, total int64) { last = done })
		if err != nil || filepath.Base(file) != "model.gguf" || last != int64(len(data)) {
			t.Fatal(file, last, err)
		}
		if got, _ := os.ReadFile(file); !bytes.Equal(got, data) {
			t.Fatal("wrong content")
		}
		p.set(nil)
		if again, err := Fetch(t.Context(), p.url("m/model.gguf"), cache, nil); err != nil || again != file {
			t.Error(again, err)
		}
		if n, served := p.counts(); n > 1 || served > 100_000 { // Google's look-up is a GET of JSON
			t.Errorf("%d requests and %d bytes for what is there", n, served)
		}
		p.raw(t, "m/model.gguf", data[1:])
		if other, err := Fetch(t.Context(), p.url("m/model.gguf"), cache, nil); err != nil || other == file {
			t.Errorf("another version is the same file: %v", err)
		}
	})
}

// A fetch that was ended is continued, and not started again.
func TestFetchResumes(t *testing.T) {
	p := fakeS3(t)
	cache := t.TempDir()
	const size = 5 * fetchChunk
	data := noise(size)
	p.raw(t, "x", data)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Fetch(ctx, p.url("x"), cache, func(_ string, done, total int64) {
		if done > 2*fetchChunk {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	p.set(nil)
	file, err := Fetch(t.Context(), p.url("x"), cache, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(file); !bytes.Equal(got, data) {
		t.Fatal("wrong content")
	}
	if _, served := p.counts(); served > size-2*fetchChunk {
		t.Errorf("%d of %d bytes were fetched again", served, size)
	}
}

// Bytes that changed on the way are found by the checksum, and not kept.
func TestFetchChecks(t *testing.T) {
	for _, p := range []*provider{fakeS3(t), fakeGCS(t)} {
		cache := t.TempDir()
		p.raw(t, "x", noise(1<<20))
		p.set(func(r *http.Request) string {
			if r.Header.Get("Range") != "" {
				return "corrupt"
			}
			return ""
		})
		if _, err := Fetch(t.Context(), p.url("x"), cache, nil); !errors.Is(err, errWrongSum) {
			t.Error(p.name, err)
		}
		p.set(nil)
		if _, err := Fetch(t.Context(), p.url("x"), cache, nil); err != nil {
			t.Error(p.name, err)
		}
	}
}

// Many that want one object get it once.
func TestFetchTogether(t *testing.T) {
	p := fakeS3(t)
	cache := t.TempDir()
	p.raw(t, "x", noise(3<<20))
	p.set(nil)
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if _, err := Fetch(t.Context(), p.url("x"), cache, nil); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if _, served := p.counts(); served != 3<<20 {
		t.Errorf("%d bytes", served)
	}
}

func TestFetchFolder(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		cache := t.TempDir()
		for _, key := range []string{"m/config.json", "m/sub/a.safetensors", "m/readme.md", "mm/config.json"} {
			p.raw(t, key, []byte(key))
		}
		want := func(file string) bool { return !strings.HasSuffix(file, ".md") }
		dir, err := FetchFolder(t.Context(), p.url("m/"), cache, want, nil)
		if err != nil {
			t.Fatal(err)
		}
		var found []string
		fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
			if !d.IsDir() {
				found = append(found, path)
			}
			return err
		})
		text, err := os.ReadFile(filepath.Join(dir, "sub", "a.safetensors"))
		if strings.Join(found, " ") != "config.json sub/a.safetensors" || string(text) != "m/sub/a.safetensors" ||
			err != nil {
			t.Fatal(found, string(text), err)
		}
		if again, err := FetchFolder(t.Context(), p.url("m"), cache, want, nil); again != dir || err != nil {
			t.Errorf("a slash at the end makes another folder: %s %v", again, err)
		}
		p.raw(t, "m/config.json", []byte("new"))
		if other, err := FetchFolder(t.Context(), p.url("m/"), cache, want, nil); other == dir || err != nil {
			t.Errorf("the folder of another version is the same: %v", err)
		}
		if _, err := FetchFolder(t.Context(), p.url("nothing"), cache, want, nil); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
}
