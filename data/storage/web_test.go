package storage

import (
	"bytes"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Of a web server's file come the parts that are asked for, through answers that fail or break off, and once.
func TestPartialURL(t *testing.T) {
	data := noise(1 << 20)
	var requests, size atomic.Int64
	size.Store(int64(len(data)))
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := requests.Add(1)
		switch {
		case r.URL.Path == "/moved":
			http.Redirect(w, r, "/file", http.StatusFound)
			return
		case r.URL.Path == "/whole":
			_, _ = w.Write(data)
			return
		case r.URL.Path != "/file":
			http.NotFound(w, r)
			return
		case r.Header.Get("X-Key") != "yes":
			w.WriteHeader(http.StatusForbidden)
			return
		case n%3 == 0:
			w.WriteHeader(http.StatusBadGateway)
			return
		case n%4 == 0:
			w = &broken{w, 1000}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data[:size.Load()]))
	}))
	t.Cleanup(server.Close)
	cache, header := t.TempDir(), http.Header{"X-Key": {"yes"}}
	open := func(path string, header http.Header) (*Partial, error) {
		return OpenPartialURL(t.Context(), server.URL+path, header, cache, PartialOptions{Gap: 1000})
	}
	list := []Range{{10, 90}, {500, 30_000}, {900_000, 1 << 20}}
	for round := range 2 {
		for _, path := range []string{"/file", "/moved"} {
			p, err := open(path, header)
			if err != nil {
				t.Fatal(err)
			}
			before := requests.Load()
			if err := p.Need(list...); err != nil {
				t.Fatal(err)
			}
			if n := requests.Load() - before; round == 1 && n > 0 {
				t.Errorf("%d requests for what was there", n)
			}
			holds(t, p, data, list...)
			if err := p.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}

	for path, want := range map[string]error{"/whole": ErrNoRanges, "/none": fs.ErrNotExist} {
		if _, err := open(path, header); !errors.Is(err, want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if _, err := open("/file", nil); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("without the header: %v", err)
	}
	p, err := open("/file", header)
	if err != nil {
		t.Fatal(err)
	}
	size.Store(1 << 19)
	if err := p.Need(Range{100_000, 100_100}); !errors.Is(err, ErrChanged) {
		t.Errorf("a file that became shorter gives %v", err)
	}
}

// broken breaks off after some bytes.
type broken struct {
	http.ResponseWriter
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if len(p) > b.left {
		_, _ = b.ResponseWriter.Write(p[:b.left])
		panic(http.ErrAbortHandler)
	}
	b.left -= len(p)
	return b.ResponseWriter.Write(p)
}
