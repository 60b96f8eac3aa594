package models

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"pgregory.net/rapid"
)

// holes is a copy of a checkpoint's files with holes in place of what was not asked for.
type holes struct {
	from, dir string
	mu        sync.Mutex
	asked     map[string][]bool // by file, by byte
}

func newHoles(t testing.TB, from string) *holes {
	h := &holes{from: from, dir: t.TempDir(), asked: map[string][]bool{}}
	entries, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if IsWeights(e.Name()) {
			h.asked[e.Name()] = make([]bool, len(data))
			data = bytes.Repeat([]byte{0}, len(data))
		}
		if err := os.WriteFile(filepath.Join(h.dir, e.Name()), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return h
}

// need implements [Need].
func (h *holes) need(file string, ranges ...Range) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	from, err := os.Open(filepath.Join(h.from, file))
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(filepath.Join(h.dir, file), os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, r := range ranges {
		data := make([]byte, r.To-r.From)
		if _, err := from.ReadAt(data, r.From); err != nil {
			return err
		}
		if _, err := to.WriteAt(data, r.From); err != nil {
			return err
		}
		for i := r.From; i < r.To; i++ {
			h.asked[file][i] = true
		}
	}
	return nil
}

// came is how many bytes of weight files were asked for.
func (h *holes) came() (n int) {
	for _, bytes := range h.asked {
		for _, yes := range bytes {
			if yes {
				n++
			}
		}
	}
	return n
}

// Rows and columns of a tensor equal those of the whole one, for complete files and files with holes; and nothing
// else is read from the files.
func TestReadParts(t *testing.T) {
	for _, path := range partedModels(t) {
		t.Run(filepath.Base(path), func(t *testing.T) {
			whole, err := Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer whole.Close()
			folder, open := path, func(dir string) string { return dir }
			if strings.HasSuffix(path, ".gguf") {
				folder, open = t.TempDir(), func(dir string) string { return filepath.Join(dir, filepath.Base(path)) }
				data, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(filepath.Join(folder, filepath.Base(path)), data, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			rapid.Check(t, func(rt *rapid.T) {
				h := newHoles(t, folder)
				parts, err := OpenParts(open(h.dir), h.need, nil)
				if err != nil {
					t.Fatal(err)
				}
				defer parts.Close()
				before := h.came()
				name := rapid.SampledFrom(whole.Names()).Draw(rt, "tensor")
				kinds := []dtypes.DType{dtypes.Float32, dtypes.BFloat16, dtypes.Float16}
				dtype := rapid.SampledFrom(kinds).Draw(rt, "as")
				full, err := whole.Read(name, dtype)
				if err != nil {
					t.Fatal(err)
				}
				tensor := whole.tensors[name]
				rows, width := tensor.matrix()
				span := func(size int, what string) Span {
					from := rapid.IntRange(0, size-1).Draw(rt, what)
					return Span{from, rapid.IntRange(1, size-from).Draw(rt, "count")}
				}
				var of func(c *Checkpoint) (any, error)
				var want any
				var most int // bytes of the tensor
				all := reflect.ValueOf(full)
				if rapid.Bool().Draw(rt, "rows") || len(tensor.shape) < 2 {
					s := span(rows, "row")
					of = func(c *Checkpoint) (any, error) { return c.ReadRows(name, dtype, s) }
					want = all.Slice(s.From*width, (s.From+s.N)*width).Interface()
					most = (s.N + 2*(tensor.group-1)) * width
				} else {
					columns := []Span{span(width, "column"), span(width, "column")}
					of = func(c *Checkpoint) (any, error) { return c.ReadColumns(name, dtype, columns) }
					picked := reflect.MakeSlice(all.Type(), 0, 0)
					for row := range rows {
						for _, s := range columns {
							picked = reflect.AppendSlice(picked, all.Slice(row*width+s.From, row*width+s.From+s.N))
							most += s.N + 2*(tensor.blockLen-1)
						}
					}
					if want = picked.Interface(); tensor.group > 1 || tensor.step > 0 {
						most = rows * width
					}
				}
				blockBytes := tensor.blockBytes
				if tensor.inStep {
					blockBytes += tensor.companions[0].blockBytes
				}
				most = ceilDiv(most+2*tensor.blockLen, tensor.blockLen) * blockBytes
				if tensor.scattered && tensor.step == 0 { // devices have such matrices whole
					most = len(tensor.data)
				}
				if tensor.step > 0 { // what lies between is another part of the same rows
					most *= tensor.step
				}
				for _, c := range []*Checkpoint{whole, parts} {
					got, err := of(c)
					if err != nil {
						rt.Fatal(err)
					}
					if !reflect.DeepEqual(got, want) {
						rt.Fatalf("%s as %s: got %v, want %v", name, dtype, got, want)
					}
				}
				if came := h.came() - before; came > most {
					rt.Fatalf("%s: %d bytes were read for %d", name, came, most)
				}
			})
		})
	}
}

// partedModels are checkpoints of each kind of file.
func partedModels(t *testing.T) []string {
	paths := []string{filepath.Join("..", "testdata", "models", "llama3"),
		filepath.Join("..", "testdata", "models", "llama3-sharded"),
		filepath.Join("..", "testdata", "models", "llama3-bf16"), filepath.Join("testdata", "gpt-oss-mxfp4")}
	ggufs, err := filepath.Glob(filepath.Join("testdata", "*.gguf"))
	if err != nil || len(ggufs) == 0 {
		t.Fatal("no GGUF files", err)
	}
	return append(paths, slices.DeleteFunc(ggufs, func(path string) bool { // which is not a model
		return filepath.Base(path) == "types.gguf"
	})...)
}

// A checkpoint with holes has the identity of the whole one, whose samples it reads.
func TestFingerPrintOfParts(t *testing.T) {
	from := filepath.Join("..", "testdata", "models", "llama3-sharded")
	whole, err := Open(from)
	if err != nil {
		t.Fatal(err)
	}
	defer whole.Close()
	h := newHoles(t, from)
	closed := 0
	parts, err := OpenParts(h.dir, h.need, func() error { closed++; return nil })
	if err != nil {
		t.Fatal(err)
	}
	if want := whole.FingerPrint(); parts.FingerPrint() != want || want == "" {
		t.Errorf("the identity is %q, want %q", parts.FingerPrint(), want)
	}
	if parts.Close(); closed != 1 {
		t.Errorf("it was closed %d times", closed)
	}
	broken := errors.New("no network")
	if _, err := OpenParts(h.dir, func(string, ...Range) error { return broken }, nil); !errors.Is(err, broken) {
		t.Errorf("without its files: %v", err)
	}
}

// Spans outside a tensor are rejected.
func TestReadPartsRefuses(t *testing.T) {
	c, err := Open(filepath.Join("..", "testdata", "models", "llama3"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	name := "model.embed_tokens.weight"
	shape := c.Shape(name)
	for _, s := range []Span{{-1, 2}, {0, 0}, {shape[0], 1}, {1, shape[0]}} {
		if _, err := c.ReadRows(name, dtypes.Float32, s); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("rows %v: %v", s, err)
		}
	}
	for _, s := range []Span{{-1, 2}, {0, 0}, {shape[1], 1}, {1, shape[1]}} {
		_, err := c.ReadColumns(name, dtypes.Float32, []Span{s})
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("columns %v: %v", s, err)
		}
	}
}
