package xla_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend/xla"
)

// addOne runs a program that writes to its donated input, and returns how the backend got it.
func addOne(t *testing.T, b *xla.Backend, offset float32) *xla.Executable {
	t.Helper()
	view := b.Donating(map[string]int{"x": 0})
	builder := view.Builder("add one")
	f := builder.Main()
	shape := shapes.Make(dtypes.Float32, 1000)
	x, err := f.Parameter("x", shape, nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := f.Constant([]float32{offset})
	if err != nil {
		t.Fatal(err)
	}
	y, err := f.Add(x, c)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Return([]compute.Value{y}, nil); err != nil {
		t.Fatal(err)
	}
	compiled, err := builder.Compile()
	if err != nil {
		t.Fatal(err)
	}
	in, err := b.BufferFromFlatData(0, make([]float32, 1000), shape)
	if err != nil {
		t.Fatal(err)
	}
	out, err := compiled.Execute([]compute.Buffer{in}, []bool{true}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.Shape(); err == nil {
		t.Error("the donated input is still valid")
	}
	got := make([]float32, 1000)
	if err := out[0].ToFlatData(got); err != nil {
		t.Fatal(err)
	}
	if got[0] != offset || got[999] != offset {
		t.Errorf("got %v ... %v, want %v", got[0], got[999], offset)
	}
	e := compiled.(*xla.Executable)
	if stats, err := e.MemoryStats(); err != nil || stats.Aliases != 4000 {
		t.Errorf("memory is %+v, %v; want 4000 bytes aliased", stats, err)
	}
	return e
}

// multiplied is another program.
func multiplied(t *testing.T, b *xla.Backend) *xla.Executable {
	t.Helper()
	view := b.Donating(nil).(*xla.View)
	g := NewGraph(view, "multiplied")
	x := Parameter(g, "x", shapes.Make(dtypes.Float32, 1000))
	if err := g.Compile(Mul(x, x)); err != nil {
		t.Fatal(err)
	}
	return view.Executables()[0]
}

func choices(t *testing.T, e *xla.Executable) string {
	t.Helper()
	digest, err := e.Choices()
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

func entries(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	b := newBackend(t, xla.Options{CacheDir: dir})
	check := func(when string, b *xla.Backend, e *xla.Executable, fromCache bool, compiles, loads int) {
		t.Helper()
		if e.FromCache != fromCache || b.Compiles() != compiles || b.CacheLoads() != loads || e.CompileTime <= 0 {
			t.Errorf("%s: from cache %v, %d compiles, %d loads, in %v; want %v, %d, %d", when, e.FromCache,
				b.Compiles(), b.CacheLoads(), e.CompileTime, fromCache, compiles, loads)
		}
	}
	check("at first", b, addOne(t, b, 1), false, 1, 0)
	check("again", b, addOne(t, b, 1), true, 1, 1)
	check("another program", b, addOne(t, b, 2), false, 2, 1)
	files := entries(t, dir)
	if len(files) != 2 {
		t.Fatalf("the folder holds %v, want two files", files)
	}

	// Another client of the same plugin takes them, one of other devices does not.
	b2 := newBackend(t, xla.Options{CacheDir: dir})
	kept := addOne(t, b2, 1)
	check("another client", b2, kept, true, 0, 1)
	compiled, again := choices(t, addOne(t, b, 1)), choices(t, kept)
	other := choices(t, multiplied(t, newBackend(t, xla.Options{})))
	if compiled != again || compiled == other {
		t.Errorf("what the compiler chose is %s, of the kept program %s, of another one %s", compiled, again, other)
	}
	b3 := newBackend(t, xla.Options{CacheDir: dir, ClientOptions: map[string]any{"cpu_device_count": 2}})
	check("other devices", b3, addOne(t, b3, 1), false, 1, 0)
	if n := len(entries(t, dir)); n != 3 {
		t.Errorf("the folder holds %d files, want 3", n)
	}

	// Damage of any kind is a compilation more, and mended by it.
	for i, damage := range []func([]byte) []byte{
		func(b []byte) []byte { return nil },
		func(b []byte) []byte { return b[:len(b)/2] },
		func(b []byte) []byte {
			if len(b) > 0 {
				b[len(b)-1] ^= 1
			}
			return b
		},
		func(b []byte) []byte { return bytes.Replace(b, []byte("executable 1"), []byte("executable 9"), 1) },
		func(b []byte) []byte { return []byte("something else altogether") },
	} {
		for _, file := range entries(t, dir) {
			entry, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, damage(entry), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		b := newBackend(t, xla.Options{CacheDir: dir})
		check(fmt.Sprint("damage ", i), b, addOne(t, b, 1), false, 1, 0)
		check(fmt.Sprint("mended ", i), b, addOne(t, b, 1), true, 1, 1)
	}
}

// TestKeptPrograms empties the folder after each program, so that only a program that is still loaded is not compiled.
func TestKeptPrograms(t *testing.T) {
	dir := t.TempDir()
	b := newBackend(t, xla.Options{CacheDir: dir, KeepLoaded: 1})
	compiles := 0
	build := func(offset float32, compiled bool) *xla.Executable {
		t.Helper()
		e := addOne(t, b, offset)
		if compiled {
			compiles++
		}
		if b.Compiles() != compiles || e.FromCache == compiled {
			t.Errorf("%d compiles, from cache %v; want %d, %v", b.Compiles(), e.FromCache, compiles, !compiled)
		}
		for _, file := range entries(t, dir) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		}
		return e
	}
	one, again := build(1, true), build(1, false)
	one.Finalize()
	build(1, false).Finalize()
	again.Finalize()
	build(1, false).Finalize()
	build(2, true).Finalize()
	build(2, false).Finalize()
	build(1, true)
}

func TestCacheOfAnotherProcess(t *testing.T) {
	if dir := os.Getenv("QUIRE_TEST_PROGRAMS"); dir != "" {
		addOne(t, newBackend(t, xla.Options{CacheDir: dir}), 3)
		return
	}
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestCacheOfAnotherProcess$")
	cmd.Env = append(os.Environ(), "QUIRE_TEST_PROGRAMS="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if e := addOne(t, newBackend(t, xla.Options{CacheDir: dir}), 3); !e.FromCache {
		t.Error("the program of the other process was not taken")
	}
}

func TestCacheFolderIsAFile(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := xla.New(xla.Options{Plugin: cpuPlugin(t), CacheDir: file}); err == nil ||
		!strings.Contains(err.Error(), file) {
		t.Errorf("error %v does not name %s", err, file)
	}
}

func TestOptimizedHLO(t *testing.T) {
	b := newBackend(t, xla.Options{})
	e := addOne(t, b, 1)
	if text := e.StableHLO(); !strings.Contains(text, "tf.aliasing_output = 0 : i32") {
		t.Errorf("the input is not marked as donated in\n%s", text)
	}
	text, err := e.OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"HloModule", "ENTRY %", "f32[1000]{0}", "alias{output  = parameter 0}",
		"parameter(0)", "add("} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestProgramsCompileInParallel(t *testing.T) {
	b := newBackend(t, xla.Options{CacheDir: t.TempDir()})
	t.Run("all", func(t *testing.T) {
		for i := range 8 {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				t.Parallel()
				addOne(t, b, float32(i%4+1)) // each program twice: whoever comes second may find it in the cache
			})
		}
	})
	if n := b.Compiles() + b.CacheLoads(); n != 8 || b.Compiles() < 4 {
		t.Errorf("%d compiles and %d loads, want 8 together", b.Compiles(), b.CacheLoads())
	}
}
