package storage

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/quire/quire/data/storage/object"
)

const uploadPart = object.PartSize

func content(t *testing.T, name string) []byte {
	t.Helper()
	f, err := Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	data, err := io.ReadAll(f.Reader())
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// places is every kind of place there is.
func places(t *testing.T, test func(t *testing.T, name func(string) string)) {
	t.Run("local", func(t *testing.T) {
		dir := t.TempDir()
		test(t, func(key string) string { return filepath.Join(dir, key) })
	})
	t.Run("mem", func(t *testing.T) { test(t, func(key string) string { return "mem://places/" + key }) })
	providers(t, func(t *testing.T, p *provider) { test(t, p.url) })
}

// Of writers that put different contents at once, one wins, whole; the others hear of it.
func TestPutIsConditional(t *testing.T) {
	places(t, func(t *testing.T, name func(string) string) {
		const writers = 6
		errs := make([]error, writers)
		var wg sync.WaitGroup
		for i := range writers {
			wg.Go(func() { errs[i] = Put(t.Context(), name("part"), bytes.NewReader(noise(100_000+i))) })
		}
		wg.Wait()
		won := -1
		for i, err := range errs {
			switch {
			case err == nil && won < 0:
				won = i
			case err == nil:
				t.Errorf("writers %d and %d both won", won, i)
			case !errors.Is(err, fs.ErrExist):
				t.Error(err)
			}
		}
		if won < 0 || !bytes.Equal(content(t, name("part")), noise(100_000+won)) {
			t.Fatal("the object is not the winner's")
		}
		// A repeated Put is not an error; what another writer wrote stays.
		if err := Put(t.Context(), name("part"), bytes.NewReader(noise(100_000+won))); err != nil {
			t.Error(err)
		}
		if err := Put(t.Context(), name("part"), bytes.NewReader(noise(50))); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		if err := Remove(t.Context(), name("part")); err != nil {
			t.Error(err)
		}
		if err := Remove(t.Context(), name("part")); err != nil {
			t.Error(err)
		}
		if err := Put(t.Context(), name("part"), bytes.NewReader(nil)); err != nil ||
			len(content(t, name("part"))) != 0 {
			t.Error(err)
		}
	})
}

// Answers that are lost and errors of the server lead to one whole object, of one part and of several.
func TestPutsThroughFaults(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		sizes := []int{1000, uploadPart + 1<<20}
		if testing.Short() {
			sizes = sizes[:1]
		}
		for _, size := range sizes {
			faults := []string{"503", "reset", "lost", "truncated"}
			if size > uploadPart {
				faults = []string{"500", "lost"}
			}
			for _, fault := range faults {
				key := fmt.Sprintf("out/%s-%d", fault, size)
				n := 0
				p.set(func(r *http.Request) string {
					if r.Method == http.MethodPut || r.Method == http.MethodPost {
						if n++; n == 1 {
							return fault
						}
					}
					return ""
				})
				data := noise(size)
				if err := Put(t.Context(), p.url(key), bytes.NewReader(data)); err != nil {
					t.Fatalf("%s: %v\n%s", key, err, strings.Join(p.log, "\n"))
				}
				p.set(nil)
				if !bytes.Equal(content(t, p.url(key)), data) {
					t.Errorf("%s: the object is not what was put", key)
				}
			}
		}
	})
}

// lastOfLarge reports whether a request ends the upload of an object of several parts: the conditional one.
func lastOfLarge(provider string, r *http.Request) bool {
	switch q := r.URL.Query(); provider {
	case "s3":
		return r.Method == http.MethodPost && q.Has("uploadId")
	case "gs":
		_, total, ok := strings.Cut(r.Header.Get("Content-Range"), "/")
		return q.Has("upload_id") && ok && total != "*"
	default:
		return r.Method == http.MethodPut && q.Get("comp") == "blocklist"
	}
}

// A large object, too, is put only if there is none, and the first writer wins, even if all parts of the other one
// have arrived.
func TestPutLargeIsConditional(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		p.raw(t, "early", []byte("the other one's"))
		if err := Put(t.Context(), p.url("early"), bytes.NewReader(noise(uploadPart+5))); !errors.Is(err, fs.ErrExist) {
			t.Error(err)
		}
		raced := 0
		p.set(func(r *http.Request) string {
			// Another writer is done between our look and our last request.
			if lastOfLarge(p.name, r) {
				if raced++; raced == 1 {
					p.raw(t, "big", []byte("the other one's"))
				}
			}
			return ""
		})
		if err := Put(t.Context(), p.url("big"), bytes.NewReader(noise(uploadPart+5))); !errors.Is(err, fs.ErrExist) {
			t.Errorf("the other writer was faster: %v", err)
		}
		log := strings.Join(p.log, "\n")
		p.set(nil)
		if raced == 0 { // more where a machine is so busy that the first is given up
			t.Errorf("no last request was seen:\n%s", log)
		}
		for _, key := range []string{"early", "big"} {
			if string(content(t, p.url(key))) != "the other one's" {
				t.Errorf("another writer's object %s was overwritten", key)
			}
		}
	})
}

type failing struct{ r *bytes.Reader }

var errDisk = errors.New("the disk is broken")

func (f failing) Read(p []byte) (int, error) {
	if f.r.Len() < 100 {
		return 0, errDisk
	}
	return f.r.Read(p[:min(len(p), f.r.Len()-99)])
}

func (f failing) Seek(offset int64, whence int) (int64, error) { return f.r.Seek(offset, whence) }

// A body that cannot be read leaves nothing.
func TestPutLeavesNothing(t *testing.T) {
	places(t, func(t *testing.T, name func(string) string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := Put(t.Context(), name("d"), failing{bytes.NewReader(noise(1000))}); !errors.Is(err, errDisk) {
			t.Error(err)
		}
		if IsRemote(name("d")) {
			if err := Put(ctx, name("d"), bytes.NewReader(noise(1000))); !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		if _, err := Stat(t.Context(), name("d")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
	})
	dir := t.TempDir()
	Put(t.Context(), filepath.Join(dir, "x"), failing{bytes.NewReader(noise(1000))})
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left behind: %v", entries)
	}
}
