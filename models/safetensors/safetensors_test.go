package safetensors

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func file(header string, dataBytes int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, dataBytes)...)
}

func entryOf(name, dtype, shape string, begin, end uint64) string {
	return fmt.Sprintf(`%q:{"dtype":%q,"shape":%s,"data_offsets":[%d,%d]}`, name, dtype, shape, begin, end)
}

func TestReads(t *testing.T) {
	header := "{" + strings.Join([]string{
		entryOf("b", "BF16", "[2,3]", 4, 16), `"__metadata__":{"format":"pt"}`, entryOf("a", "F32", "[]", 0, 4),
		entryOf("none", "I64", "[0,5]", 16, 16), entryOf("c", "U8", "[1]", 16, 17)}, ",") + "}   "
	path := filepath.Join(t.TempDir(), "model.safetensors")
	data := file(header, 17)
	for i := range 17 {
		data[len(data)-17+i] = byte(i)
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var names []string
	for _, x := range f.Tensors() {
		names = append(names, x.Name)
	}
	if !slices.Equal(names, []string{"a", "b", "none", "c"}) {
		t.Fatalf("tensors are %v", names)
	}
	b := f.Tensors()[1]
	if b.DType != "BF16" || !slices.Equal(b.Dims, []int{2, 3}) || len(b.Data) != 12 || b.Data[0] != 4 ||
		b.Data[11] != 15 {
		t.Fatalf("tensor b is %+v", b)
	}
	f.Release(&b)
	if b.Data[0] != 4 {
		t.Fatal("the data changed after Release")
	}
}

// badFiles maps a damaged file to words of the error it must give.
var badFiles = map[string]struct {
	data []byte
	want string
}{
	"empty":            {nil, "truncated"},
	"short":            {[]byte{1, 0, 0}, "truncated"},
	"header truncated": {file(`{"a":`, 0)[:10], "truncated"},
	"header size lies": {binary.LittleEndian.AppendUint64(nil, 1<<63), "limit"},
	"header too large": {binary.LittleEndian.AppendUint64(nil, 99<<20), "truncated"},
	"not JSON":         {file("hello", 0), "JSON"},
	"array":            {file("[]", 0), "not a JSON object"},
	"unfinished":       {file(`{"a":{"dtype":"F32"}`, 0), "JSON"},
	"number key":       {file(`{1:2}`, 0), "JSON"},
	"entry is text":    {file(`{"a":"x"}`, 0), `tensor "a"`},
	"negative offset":  {file(`{"a":{"dtype":"F32","shape":[1],"data_offsets":[-4,0]}}`, 4), `tensor "a"`},
	"fraction":         {file(`{"a":{"dtype":"F32","shape":[1.5],"data_offsets":[0,4]}}`, 4), `tensor "a"`},
	"metadata broken":  {file(`{"__metadata__":}`, 0), "__metadata__"},
	"unknown dtype":    {file("{"+entryOf("a", "F7", "[1]", 0, 4)+"}", 4), `tensor "a" has the unknown dtype "F7"`},
	"wrong dtype": {file("{"+entryOf("a", "F16", "[1]", 0, 4)+"}", 4),
		`tensor "a" of shape [1] and dtype F16 needs 2 bytes`},
	"wrong shape":      {file("{"+entryOf("a", "F32", "[2]", 0, 4)+"}", 4), "needs 8 bytes"},
	"negative shape":   {file("{"+entryOf("a", "F32", "[-1]", 0, 4)+"}", 4), "dimension of -1"},
	"shape overflow":   {file("{"+entryOf("a", "F32", "[4611686018427387904,4]", 0, 0)+"}", 0), "too many elements"},
	"offsets reversed": {file("{"+entryOf("a", "F32", "[1]", 4, 0)+"}", 4), "before it starts"},
	"beyond the end": {file("{"+entryOf("a", "F32", "[2]", 0, 8)+"}", 4),
		`tensor "a" ends at offset 8, beyond the 4 data bytes`},
	"overlap": {file("{"+entryOf("a", "F32", "[2]", 0, 8)+","+entryOf("b", "F32", "[1]", 4, 8)+"}", 8),
		`tensor "b" starts at offset 4, inside`},
	"hole": {file("{"+entryOf("a", "F32", "[1]", 0, 4)+","+entryOf("b", "F32", "[1]", 8, 12)+"}", 12),
		"hole"},
	"bytes left over": {file("{"+entryOf("a", "F32", "[1]", 0, 4)+"}", 12), "12 data bytes"},
	"name twice": {file("{"+entryOf("a", "F32", "[1]", 0, 4)+","+entryOf("a", "F32", "[1]", 4, 8)+"}", 8),
		`tensor "a" appears twice`},
}

func TestBadFiles(t *testing.T) {
	for name, c := range badFiles {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "bad.safetensors")
			if err := os.WriteFile(path, c.data, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := Open(path, nil)
			if err == nil {
				t.Fatal("the file was accepted")
			}
			if !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error should name the file and say %q: %v", c.want, err)
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(file("{"+entryOf("a", "F32", "[1]", 0, 4)+","+entryOf("b", "BF16", "[2,2]", 4, 12)+"}", 12))
	for _, c := range badFiles {
		f.Add(c.data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		file, err := Parse("fuzz", data)
		if err != nil {
			return
		}
		total := 0
		for _, x := range file.Tensors() {
			n := elementBytes[x.DType]
			for _, d := range x.Dims {
				n *= d
			}
			if n != len(x.Data) {
				t.Fatalf("tensor %q of %s %v has %d bytes", x.Name, x.DType, x.Dims, len(x.Data))
			}
			total += n
		}
		if total+len(file.Header()) != len(data) {
			t.Fatal("the tensors do not cover the file")
		}
	})
}
