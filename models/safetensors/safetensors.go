// Package safetensors reads one safetensors file: its tensor table, and tensor data as slices of a read-only mapping.
//
// Files are untrusted input. The rules of the format's reference reader apply: the header is at most 100 MB of JSON,
// names are unique, and the tensors cover the data part exactly, without holes or overlap. A bad file gives one error
// that names the file and the tensor.
package safetensors

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/internal/mapped"
)

const maxHeaderBytes = 100 << 20

// elementBytes lists the element types of the format, by the name in the header.
var elementBytes = map[string]int{
	"BOOL": 1, "U8": 1, "I8": 1, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1,
	"U16": 2, "I16": 2, "F16": 2, "BF16": 2, "U32": 4, "I32": 4, "F32": 4, "U64": 8, "I64": 8, "F64": 8, "C64": 8,
}

// Tensor is one entry of a file's tensor table.
type Tensor struct {
	Name  string
	DType string // as in the header: F32, BF16, F16, I64, ...
	Dims  []int  // outermost first; empty for a scalar
	Data  []byte // little-endian elements; a slice of the mapping
	// Offset is where Data begins in the file.
	Offset int64
}

// Need fetches the bytes [from, to) of a file that is not complete on this machine, before they are read.
type Need func(from, to int64) error

// File is an open safetensors file. It is safe for concurrent use until Close.
type File struct {
	name    string
	mapping *mapped.File
	header  []byte
	tensors []Tensor // by offset
}

// Open maps the file at path and reads its header. Need is nil if the file is complete; otherwise the caller must
// fetch tensor data before reading it.
func Open(path string, need Need) (*File, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	if need != nil {
		if err := needHeader(m.Bytes(), need); err != nil {
			m.Close()
			return nil, err
		}
	}
	var f *File
	if err := mapped.Guard(func() (err error) { f, err = Parse(path, m.Bytes()); return err }); err != nil {
		m.Close()
		return nil, err
	}
	f.mapping = m
	return f, nil
}

// needHeader fetches the header of a file.
func needHeader(data []byte, need Need) error {
	size := int64(len(data))
	if err := need(0, min(8, size)); err != nil || size < 8 {
		return err
	}
	var header uint64
	if err := mapped.Guard(func() error { header = binary.LittleEndian.Uint64(data); return nil }); err != nil {
		return err
	}
	return need(0, min(size, 8+int64(min(header, maxHeaderBytes))))
}

// Parse parses a whole file held in data; name stands for it in errors. The File refers to data and never writes to
// it.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name}
	if err := f.parse(data); err != nil {
		return nil, fmt.Errorf("safetensors file %s: %w", name, err)
	}
	return f, nil
}

// Close unmaps the file; the data of its tensors must not be used afterwards.
func (f *File) Close() error {
	if f.mapping == nil {
		return nil
	}
	return f.mapping.Close()
}

// Release hints to the operating system that a tensor's pages are not needed in memory for now (see
// mapped.File.Release).
func (f *File) Release(t *Tensor) {
	if f.mapping != nil {
		f.mapping.Release(t.Data)
	}
}

// Header returns the JSON header.
func (f *File) Header() []byte { return f.header }

// Tensors lists the tensors in the order of their data. The slice must not be changed.
func (f *File) Tensors() []Tensor { return f.tensors }

type entry struct {
	DType   string    `json:"dtype"`
	Shape   []int64   `json:"shape"`
	Offsets [2]uint64 `json:"data_offsets"`
}

func (f *File) parse(data []byte) error {
	if len(data) < 8 {
		return fmt.Errorf("it has %s, less than the 8 of the header size; the file is truncated",
			plural.Count(len(data), "byte"))
	}
	size := binary.LittleEndian.Uint64(data)
	rest := data[8:]
	switch {
	case size > maxHeaderBytes:
		return fmt.Errorf(
			"its header claims %d bytes, more than the format's limit of %d; this is not a safetensors file", size,
			maxHeaderBytes)
	case size > uint64(len(rest)):
		return fmt.Errorf("its header claims %s but only %d follow; the file is truncated", plural.Count(size, "byte"),
			len(rest))
	}
	f.header = data[:8+size]
	entries, err := parseHeader(rest[:size])
	if err != nil {
		return err
	}
	body := rest[size:]
	next := uint64(0)
	for _, e := range entries {
		if err := e.check(); err != nil {
			return err
		}
		begin, end := e.Offsets[0], e.Offsets[1]
		switch {
		case end > uint64(len(body)):
			return fmt.Errorf(
				"tensor %q ends at offset %d, beyond the %d data bytes of the file; the file is truncated or damaged",
				e.name, end, len(body))
		case begin < next:
			return fmt.Errorf("tensor %q starts at offset %d, inside the tensor before it, which ends at %d", e.name,
				begin, next)
		case begin > next:
			return fmt.Errorf("tensor %q starts at offset %d, but the tensors before it end at %d: the file has a hole",
				e.name, begin, next)
		}
		next = end
		t := Tensor{Name: e.name, DType: e.DType, Dims: make([]int, len(e.Shape)), Data: body[begin:end:end],
			Offset: int64(8 + size + begin)}
		for i, d := range e.Shape {
			t.Dims[i] = int(d)
		}
		f.tensors = append(f.tensors, t)
	}
	if next != uint64(len(body)) {
		return fmt.Errorf("it has %d data bytes, but its tensors end at %d", len(body), next)
	}
	return nil
}

type namedEntry struct {
	name string
	entry
}

// parseHeader decodes the header token by token, because a map would hide a name that appears twice. The entries are
// returned sorted by offset.
func parseHeader(header []byte) ([]namedEntry, error) {
	dec := json.NewDecoder(bytes.NewReader(header))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return nil, fmt.Errorf("its header is not a JSON object")
	}
	var entries []namedEntry
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return nil, fmt.Errorf("its header is not valid JSON: %w", err)
		}
		name := tok.(string) // the decoder returns only strings in the place of a key
		if seen[name] {
			return nil, fmt.Errorf("tensor %q appears twice in its header", name)
		}
		seen[name] = true
		if name == "__metadata__" {
			var ignored json.RawMessage
			if err := dec.Decode(&ignored); err != nil {
				return nil, fmt.Errorf("the __metadata__ of its header is not valid: %w", err)
			}
			continue
		}
		e := namedEntry{name: name}
		if err := dec.Decode(&e.entry); err != nil {
			return nil, fmt.Errorf("the header entry of tensor %q is not valid: %w", name, err)
		}
		entries = append(entries, e)
	}
	if _, err := dec.Token(); err != nil {
		return nil, fmt.Errorf("its header is not valid JSON: %w", err)
	}
	slices.SortStableFunc(entries, func(a, b namedEntry) int {
		return cmp.Or(cmp.Compare(a.Offsets[0], b.Offsets[0]), cmp.Compare(a.Offsets[1], b.Offsets[1]))
	})
	return entries, nil
}

// check compares the size of the entry's shape and type with its byte range. Every product is checked for overflow.
func (e *namedEntry) check() error {
	size, ok := elementBytes[e.DType]
	if !ok {
		return fmt.Errorf("tensor %q has the unknown dtype %q", e.name, e.DType)
	}
	if e.Offsets[0] > e.Offsets[1] {
		return fmt.Errorf("tensor %q ends at offset %d, before it starts at %d", e.name, e.Offsets[1], e.Offsets[0])
	}
	want := uint64(size)
	for _, d := range e.Shape {
		if d < 0 {
			return fmt.Errorf("tensor %q has a dimension of %d", e.name, d)
		}
		hi, lo := bits.Mul64(want, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return fmt.Errorf("tensor %q has shape %v, too many elements", e.name, e.Shape)
		}
		want = lo
	}
	if length := e.Offsets[1] - e.Offsets[0]; length != want {
		return fmt.Errorf("tensor %q of shape %v and dtype %s needs %s, but its offsets give it %d", e.name,
			e.Shape, e.DType, plural.Count(want, "byte"), length)
	}
	return nil
}
