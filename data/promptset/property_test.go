package promptset

import (
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"
)

// anything has a column for every shape of nesting, as the library writes and reads Go values.
type anything struct {
	Prompt  string              `parquet:"prompt"`
	Flag    *bool               `parquet:"flag,optional"`
	Small   int8                `parquet:"small"`
	Wide    *uint64             `parquet:"wide,optional"`
	Float   float32             `parquet:"float"`
	Double  *float64            `parquet:"double,optional"`
	Bytes   []byte              `parquet:"bytes,optional"`
	Fixed   [16]byte            `parquet:"fixed,uuid"`
	When    time.Time           `parquet:"when,timestamp(microsecond)"`
	Bare    []int64             `parquet:"bare"`
	List    []string            `parquet:"list,list"`
	Deep    [][]int32           `parquet:"deep,list"`
	Structs []inner             `parquet:"structs,list"`
	Map     map[string]*float64 `parquet:"map"`
	Maybe   *inner              `parquet:"maybe,optional"`
}

type inner struct {
	A *string  `parquet:"a,optional"`
	B []uint32 `parquet:"b,list"`
	C struct {
		D bool `parquet:"d"`
	} `parquet:"c"`
}

func orNil[T any](t *rapid.T, g *rapid.Generator[T], name string) *T {
	if rapid.Bool().Draw(t, name+" null") {
		return nil
	}
	v := g.Draw(t, name)
	return &v
}

func drawInner(t *rapid.T) inner {
	v := inner{A: orNil(t, rapid.String(), "a"), B: rapid.SliceOfN(rapid.Uint32(), 0, 3).Draw(t, "b")}
	v.C.D = rapid.Bool().Draw(t, "d")
	return v
}

func drawAnything(t *rapid.T) anything {
	float := rapid.Float64Range(-1e300, 1e300)
	v := anything{
		Prompt: rapid.String().Draw(t, "prompt"),
		Flag:   orNil(t, rapid.Bool(), "flag"),
		Small:  rapid.Int8().Draw(t, "small"),
		Wide:   orNil(t, rapid.Uint64(), "wide"),
		Float:  rapid.Float32Range(-1e30, 1e30).Draw(t, "float"),
		Double: orNil(t, float, "double"),
		Bytes:  rapid.SliceOfN(rapid.Byte(), 0, 40).Draw(t, "bytes"),
		When:   time.UnixMicro(rapid.Int64Range(-1e15, 1e15).Draw(t, "when")).UTC(),
		Bare:   rapid.SliceOfN(rapid.Int64(), 0, 4).Draw(t, "bare"),
		List:   rapid.SliceOfN(rapid.String(), 0, 4).Draw(t, "list"),
		Deep:   rapid.SliceOfN(rapid.SliceOfN(rapid.Int32(), 0, 3), 0, 3).Draw(t, "deep"),
		Map:    map[string]*float64{},
	}
	copy(v.Fixed[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "fixed"))
	for range rapid.IntRange(0, 3).Draw(t, "structs") {
		v.Structs = append(v.Structs, drawInner(t))
	}
	if rapid.Bool().Draw(t, "map") {
		v.Map[rapid.String().Draw(t, "key")] = orNil(t, float, "value")
	}
	if rapid.Bool().Draw(t, "maybe") {
		i := drawInner(t)
		v.Maybe = &i
	}
	return v
}

// Any rows that go in come out again, nested as they were, once for each completion and next to it.
func TestRoundTrip(t *testing.T) {
	type output struct {
		ID         string    `parquet:"id"`
		Generation int32     `parquet:"generation"`
		Text       *string   `parquet:"text,optional"`
		TokenIDs   []int32   `parquet:"token_ids,list"`
		Logprobs   []float32 `parquet:"logprobs,list"`
	}
	base := t.TempDir()
	n := 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(base, fmt.Sprint(n))
		count := rapid.SampledFrom([]int{0, 1, 2, 15, 16, 17, 33}).Draw(t, "rows")
		in := make([]anything, count)
		for i := range in {
			if i < 3 {
				in[i] = drawAnything(t)
			} else {
				in[i] = in[i%3]
				in[i].Prompt = fmt.Sprint(i)
			}
		}
		if err := os.MkdirAll(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, "in.parquet")
		if err := parquet.WriteFile(path, in, parquet.MaxRowsPerRowGroup(rapid.Int64Range(1, 20).Draw(t, "group")),
			parquet.DataPageVersion(1+n%2)); err != nil {
			t.Fatal(err)
		}
		r, err := Open(context.Background(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		w := create(t, filepath.Join(dir, "out"), r, WriterOptions{})
		for row := range r.Rows(context.Background()) {
			if row.Err != nil || row.Prompt != in[row.Index].Prompt {
				t.Fatalf("row %d: %q, want %q (%v)", row.Index, row.Prompt, in[row.Index].Prompt, row.Err)
			}
			if err := w.Add(row, results(row, 2)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		part := filepath.Join(dir, "out", "part-00000.parquet")
		out, err := parquet.ReadFile[output](part)
		if err != nil {
			t.Fatal(err)
		}
		passed, err := parquet.ReadFile[anything](part)
		if err != nil {
			t.Fatal(err)
		}
		again, err := parquet.ReadFile[anything](path)
		if err != nil || len(out) != 2*count || len(passed) != 2*count {
			t.Fatalf("%d and %d rows, want %d (%v)", len(out), len(passed), 2*count, err)
		}
		for i, o := range out {
			// Against what the library reads from the input, which does not distinguish nil from empty either.
			if !reflect.DeepEqual(passed[i], again[i/2]) {
				t.Fatalf("row %d:\n got %+v\nwant %+v", i, passed[i], again[i/2])
			}
			if o.ID != fmt.Sprint(i/2) || o.Generation != int32(i%2) || *o.Text != "answer to "+o.ID ||
				len(o.TokenIDs) != 2 || o.Logprobs[1] != -0.25 {
				t.Fatalf("row %d: %+v", i, o)
			}
		}
	})
}

// 100,000 rows through reader and writer stay far below the 300 MB that a job may take beyond its engine.
func TestBoundedMemory(t *testing.T) {
	const count, most = 100_000, 300 << 20 / 2 // the collector lets the heap grow to twice what is in use
	type row struct {
		Prompt string   `parquet:"prompt"`
		Topic  string   `parquet:"topic"`
		Tags   []string `parquet:"tags,list"`
	}
	path := filepath.Join(t.TempDir(), "big.parquet")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := parquet.NewGenericWriter[row](file) // one row group
	words := strings.Fields(strings.Repeat("the quick brown fox jumps over a lazy dog while it rains ", 16))
	for i := range count {
		if _, err := w.Write([]row{{fmt.Sprintf("%d %s", i, strings.Join(words[i%80:i%80+100], " ")),
			fmt.Sprint(i % 50), words[:i%5]}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	w = nil
	// Memory in use, not what waits for the collector: that depends on the speed relative to other work.
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := inUse()
	r := open(t, path)
	out := create(t, filepath.Join(t.TempDir(), "out"), r, WriterOptions{})
	answer, ids := strings.Repeat("an answer of some length ", 20), make([]int32, 128)
	logprobs := make([]float32, 128)
	for i := range ids {
		ids[i], logprobs[i] = int32(i*i%49152), -float32(math.Log(float64(i+2)))
	}
	var peak uint64
	// Rows finish in a scrambled order, as far apart as a large engine has them under way.
	window := make([]*Row, 0, 512)
	for row := range r.Rows(context.Background()) {
		if window = append(window, row); len(window) == cap(window) {
			for i := range window {
				row := window[len(window)-1-i]
				if err := out.Add(row, []Result{{Text: fmt.Sprint(row.Index, answer), TokenIDs: ids, Logprobs: logprobs,
					FinishReason: "stop"}}); err != nil {
					t.Fatal(err)
				}
			}
			window = window[:0]
			if row.Index/512%8 == 0 {
				peak = max(peak, inUse())
			}
		}
	}
	for _, row := range window {
		if err := out.Add(row, nil); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	peak = max(peak, inUse())
	runtime.KeepAlive(r)
	t.Logf("%d rows: peak %d MB of Go memory in use, %d MB before", out.Rows(), peak>>20, before>>20)
	if peak > most {
		t.Errorf("%d MB in use at the peak, want at most %d", peak>>20, most>>20)
	}
}
