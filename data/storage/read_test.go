package storage

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/storage/object"
)

var reads = []string{"500", "503", "429", "reset", "truncated", "short", "slow", "hang", "stall"}

// Whatever happens to a third of the requests, the bytes are right.
func TestReadsThroughFaults(t *testing.T) {
	size := 9<<20 + 12345
	if testing.Short() {
		size = 2<<20 + 12345
	}
	data := noise(size)
	providers(t, func(t *testing.T, p *provider) {
		p.raw(t, "data/big.bin", data)
		for _, fault := range reads {
			t.Run(fault, func(t *testing.T) {
				random := rand.New(rand.NewPCG(1, 2))
				p.set(nil)
				f, err := Open(t.Context(), p.url("data/big.bin"))
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				struck := 0
				p.set(func(*http.Request) string {
					if random.IntN(3) == 0 || struck == 0 {
						struck++
						return fault
					}
					return ""
				})
				r := f.Reader()
				got, err := io.ReadAll(r)
				if err != nil || !bytes.Equal(got, data) {
					t.Fatalf("%d bytes of %d, %v", len(got), len(data), err)
				}
				r.Close()
				tail := make([]byte, 100_000)
				if n, err := f.ReadAt(tail, int64(len(data)-len(tail))); n != len(tail) || err != nil ||
					!bytes.Equal(tail, data[len(data)-n:]) {
					t.Fatal(n, err)
				}
				if struck == 0 {
					t.Fatal("no request met a fault")
				}
			})
		}
	})
}

// Looking up, listing and opening survive faults, too.
func TestLooksUpThroughFaults(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		for _, key := range []string{"d/a.txt", "d/b.txt", "d/e/c.txt"} {
			p.raw(t, key, []byte(key))
		}
		faults := []string{"503", "stall", "500", "reset", "truncated"}
		if testing.Short() {
			faults = faults[:2]
		}
		for _, fault := range faults {
			once := sync.Once{}
			p.set(func(*http.Request) (f string) {
				once.Do(func() { f = fault })
				return f
			})
			files, err := List(t.Context(), p.url("d"))
			if err != nil || len(files) != 3 || files[2].Size != 9 || Path(files[2].Name) != "d/e/c.txt" {
				t.Fatalf("%s: %+v %v", fault, files, err)
			}
			once = sync.Once{}
			if info, err := Stat(t.Context(), p.url("d/a.txt")); err != nil || info.Size != 7 || info.ETag == "" ||
				info.Folder {
				t.Fatalf("%s: %+v %v", fault, info, err)
			}
		}
	})
}

// A server that is down permanently ends the read with an error that states the number of requests.
func TestGivesUp(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		p.raw(t, "x", noise(1000))
		f, err := Open(t.Context(), p.url("x"))
		if err != nil {
			t.Fatal(err)
		}
		p.set(func(*http.Request) string { return "503" })
		_, err = f.ReadAt(make([]byte, 10), 0)
		if err == nil || !strings.Contains(err.Error(), "given up after 9 tries") ||
			!strings.Contains(err.Error(), Redact(p.url("x"))) {
			t.Error(err)
		}
		if n, _ := p.counts(); n != patience.tries {
			t.Errorf("%d requests", n)
		}
		p.set(nil)
		if n, err := f.ReadAt(make([]byte, 10), 0); n != 10 || err != nil { // the failure is not remembered
			t.Error(n, err)
		}
	})
}

func TestNotThereAndNotAllowed(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		if _, err := Open(t.Context(), p.url("no/such")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if _, err := Stat(t.Context(), p.url("no/such")); !errors.Is(err, fs.ErrNotExist) {
			t.Error(err)
		}
		if n, _ := p.counts(); n > 4 {
			t.Errorf("%d requests for what is not there", n)
		}
		p.raw(t, "x", noise(10))
		p.set(func(*http.Request) string { return "403" })
		if _, err := Open(t.Context(), p.url("x")); !errors.Is(err, fs.ErrPermission) {
			t.Error(err)
		}
	})
	for _, name := range []string{filepath.Join(t.TempDir(), "no"), "mem://nowhere/x"} {
		if _, err := Open(t.Context(), name); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), name) {
			t.Error(err)
		}
	}
}

// An object that is replaced while it is read gives an error, never a mixture.
func TestReplacedWhileRead(t *testing.T) {
	providers(t, func(t *testing.T, p *provider) {
		old := noise(5 << 20)
		p.raw(t, "x", old)
		f, err := Open(t.Context(), p.url("x"))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(make([]byte, 10), 0); err != nil {
			t.Fatal(err)
		}
		p.raw(t, "x", append(noise(5<<20-1), 7))
		if _, err := f.ReadAt(make([]byte, 10), 1<<20); !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
		if _, err := io.ReadAll(f.Reader()); !errors.Is(err, ErrChanged) {
			t.Error(err)
		}
	})
}

// Reads at random places equal the same bytes in memory.
func TestReadAtIsThatOfMemory(t *testing.T) {
	p := fakeS3(t)
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.OneOf(rapid.IntRange(0, 300), rapid.IntRange(blockBytes-2, blockBytes+2),
			rapid.IntRange(0, 30*blockBytes)).Draw(t, "size")
		data := noise(size)
		key := rapid.StringMatching(`[a-z]{8}`).Draw(t, "key")
		backendPut(p, key, data)
		f, err := Open(context.Background(), p.url(key))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		want := bytes.NewReader(data)
		for range rapid.IntRange(1, 20).Draw(t, "reads") {
			n := rapid.OneOf(rapid.IntRange(0, 100), rapid.IntRange(0, 5*blockBytes)).Draw(t, "length")
			offset := rapid.Int64Range(0, int64(size)+10).Draw(t, "offset")
			a, b := make([]byte, n), make([]byte, n)
			gotN, gotErr := f.ReadAt(a, offset)
			wantN, wantErr := want.ReadAt(b, offset)
			if n == 0 {
				wantErr = gotErr // both nil and io.EOF are right
			}
			if gotN != wantN || gotErr != wantErr || !bytes.Equal(a, b) {
				t.Fatalf("ReadAt(%d, %d) of %d: %d, %v; want %d, %v", n, offset, size, gotN, gotErr, wantN, wantErr)
			}
		}
	})
}

func backendPut(p *provider, key string, data []byte) { p.raw(nil, key, data) }

// columns reads as a Parquet reader does: the footer, then columns in turns, each in small pieces.
func columns(t *testing.T, f *File, data []byte, n int) {
	t.Helper()
	piece := make([]byte, 32<<10)
	read := func(offset int64, k int) {
		if _, err := f.ReadAt(piece[:k], offset); err != nil && err != io.EOF ||
			!bytes.Equal(piece[:k], data[offset:offset+int64(k)]) {
			t.Fatal("wrong bytes", offset, k, err)
		}
	}
	read(0, 4)
	read(int64(len(data)-8), 8)
	read(int64(len(data)-100_000), 32<<10)
	width := len(data) / n
	for at := 0; at+len(piece) <= width; at += len(piece) {
		for c := range n {
			read(int64(c*width+at), len(piece))
		}
	}
}

// A file is read with few requests and little more than its bytes, be it of few columns or of many.
func TestColumnReadsAreCoalesced(t *testing.T) {
	p := fakeS3(t)
	for _, c := range []struct {
		mib, columns, requests int
		bytes                  float64
	}{{32, 4, 60, 1.1}, {32, 16, 200, 1.1}, {48, 600, 1600, 1.3}, {80, 1200, 2600, 2.2}} {
		if testing.Short() && c.columns > 4 {
			continue
		}
		data := noise(c.mib << 20)
		p.raw(t, "table", data)
		f, err := Open(t.Context(), p.url("table"))
		if err != nil {
			t.Fatal(err)
		}
		p.set(nil)
		columns(t, f, data, c.columns)
		requests, served := p.counts()
		t.Logf("%d MiB, %d columns: %d requests, %.2f of the bytes", c.mib, c.columns, requests,
			float64(served)/float64(len(data)))
		if requests > c.requests || float64(served) > c.bytes*float64(len(data)) {
			t.Errorf("%d MiB, %d columns: %d requests, %.2f of the bytes", c.mib, c.columns, requests,
				float64(served)/float64(len(data)))
		}
		f.Close()
	}
}

// A reader that is left early takes its requests along, and holds bounded memory.
func TestStreamIsBounded(t *testing.T) {
	p := fakeS3(t)
	p.raw(t, "x", noise(40<<20))
	f, err := Open(t.Context(), p.url("x"))
	if err != nil {
		t.Fatal(err)
	}
	p.set(nil)
	r := f.Reader()
	if _, err := io.ReadFull(r, make([]byte, 10)); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if n, served := p.counts(); n > streamAhead+1 || served > (streamAhead+1)*streamChunk {
		t.Errorf("%d requests and %d bytes for the first ten", n, served)
	}
	r.Close()
	if _, err := r.Read(make([]byte, 1)); err == nil {
		// what was left of the first chunk is gone with it
		t.Error("read after Close")
	}
	for range 3000 {
		stacks := make([]byte, 1<<20)
		if stacks = stacks[:runtime.Stack(stacks, true)]; !bytes.Contains(stacks, []byte("storage.(*stream)")) {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
	t.Error("a stream that was closed still asks")
}

func TestCancelled(t *testing.T) {
	p := fakeS3(t)
	p.raw(t, "x", noise(1<<20))
	ctx, cancel := context.WithCancel(t.Context())
	f, err := Open(ctx, p.url("x"))
	if err != nil {
		t.Fatal(err)
	}
	p.set(func(*http.Request) string { return "stall" })
	time.AfterFunc(50*time.Millisecond, cancel)
	if _, err := f.ReadAt(make([]byte, 10), 0); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

func TestLocalFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "a b?c=d.txt")
	if err := os.WriteFile(path, []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{path, "file://" + path} {
		f, err := Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(f.Reader())
		b := make([]byte, 3)
		n, atErr := f.ReadAt(b, 2)
		if string(got) != "hello" || err != nil || n != 3 || atErr != nil || string(b) != "llo" || f.Size() != 5 {
			t.Errorf("%q %v %q %d %v", got, err, b, n, atErr)
		}
		f.Close()
	}
	if _, err := Open(t.Context(), dir); err == nil {
		t.Error("a folder was opened")
	}
	if _, err := Open(t.Context(), "file://relative"); err == nil {
		t.Error("a relative file URL was opened")
	}
}

// Compressed bytes under a name that does not show it are rejected, because they would be taken for the content.
func TestContentEncoding(t *testing.T) {
	b, err := location{scheme: "mem", bucket: "encoded"}.open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for key, ok := range map[string]bool{"a.jsonl": false, "a.jsonl.gz": true} {
		b.(*object.Memory).Set(key, []byte("x"), "gzip")
		_, err := Open(t.Context(), "mem://encoded/"+key)
		if (err == nil) != ok {
			t.Error(key, err)
		}
	}
}
