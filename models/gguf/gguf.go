// Package gguf reads GGUF model files (versions 2 and 3, little-endian): metadata, tensor table, and block
// dequantization.
//
// The file is mapped, not read. Metadata arrays are decoded on demand, and tensor data is returned as slices of the
// mapping. Files are untrusted input: every length and offset is checked against the size of the file before memory is
// allocated for it, and a bad file gives one error that names it.
//
// The format is described in the ggml project's documentation (docs/gguf.md).
package gguf

import (
	"errors"
	"fmt"
	"math"
	"math/bits"

	"github.com/quire/quire/internal/plural"
	"github.com/quire/quire/models/internal/mapped"
)

const (
	magic            = "GGUF"
	defaultAlignment = 32
	maxAlignment     = 1 << 20
	maxDims          = 4       // ggml's own limit
	maxNameBytes     = 1 << 16 // the format's limit for keys
	maxEntries       = 1 << 16 // metadata keys, and tensors; the largest models have a few thousand
)

// Tensor is one entry of a file's tensor table.
type Tensor struct {
	Name string
	Dims []int // outermost first (row-major), the reverse of the order in the file
	Type Type
	Data []byte // encoded, of exactly Type.Bytes(elements) bytes; a slice of the mapping
	// Offset is where Data begins in the file.
	Offset int64
}

// Need fetches the bytes [from, to) of a file that is not complete on this machine, before they are read.
type Need func(from, to int64) error

// Elements is the product of the dimensions.
func (t *Tensor) Elements() int {
	n := 1
	for _, d := range t.Dims {
		n *= d
	}
	return n
}

// File is an open GGUF file. It is safe for concurrent use until Close.
type File struct {
	Version uint32
	name    string
	mapping *mapped.File
	header  []byte // everything before the tensor data
	values  map[string]value
	keys    []string // in file order
	tensors []Tensor // in file order
	byName  map[string]*Tensor
	parts   []*File // parts of a split model
}

// Open maps the file at path and reads its tables. Need is nil if the file is complete; otherwise the caller must
// fetch tensor data before reading it.
func Open(path string, need Need) (*File, error) {
	m, err := mapped.Open(path)
	if err != nil {
		return nil, err
	}
	if need != nil {
		if err := needTables(path, m.Bytes(), need); err != nil {
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

// needTables fetches a file's metadata and tensor table. Their length is known only after they are read.
func needTables(path string, data []byte, need Need) error {
	for size := min(firstTables, len(data)); ; size = min(2*size, len(data)) {
		if err := need(0, int64(size)); err != nil {
			return err
		}
		r := &reader{data: data[:size]}
		f := &File{name: path, values: map[string]value{}, byName: map[string]*Tensor{}}
		_ = mapped.Guard(func() error { return f.parse(r) }) // Parse reports the error
		if !r.failed || size == len(data) {
			return nil
		}
	}
}

// firstTables is how much of a file is fetched first. Tables with a tokenizer take a few megabytes.
const firstTables = 32 << 10

// Parse parses a whole GGUF file held in data; name stands for it in errors. The File refers to data and never writes
// to it.
func Parse(name string, data []byte) (*File, error) {
	f := &File{name: name, values: map[string]value{}, byName: map[string]*Tensor{}}
	r := &reader{data: data}
	if err := f.parse(r); err != nil {
		return nil, fmt.Errorf("GGUF file %s: %w", name, err)
	}
	return f, nil
}

// Close unmaps the file; the data of its tensors must not be used afterwards.
func (f *File) Close() error {
	var errs []error
	for _, part := range f.parts {
		errs = append(errs, part.Close())
	}
	if f.mapping != nil {
		errs = append(errs, f.mapping.Close())
	}
	return errors.Join(errs...)
}

// Release hints to the operating system that a tensor's pages are not needed in memory for now (see
// mapped.File.Release).
func (f *File) Release(t *Tensor) {
	if f.mapping != nil {
		f.mapping.Release(t.Data)
	}
}

// Header returns the part of the file before the tensor data: metadata and tensor table.
func (f *File) Header() []byte { return f.header }

// Tensors lists the tensors in file order. The slice must not be changed.
func (f *File) Tensors() []Tensor { return f.tensors }

// Tensor returns the tensor with this name; nil if there is none.
func (f *File) Tensor(name string) *Tensor { return f.byName[name] }

// ReadMetadata passes the metadata of the file at path to read. It is an error if the file is truncated meanwhile.
func ReadMetadata(path string, read func(Metadata) error) error {
	m, err := mapped.Open(path)
	if err != nil {
		return err
	}
	defer m.Close()
	return mapped.Guard(func() error {
		f := &File{name: path, values: map[string]value{}}
		if _, err := f.parseMetadata(&reader{data: m.Bytes()}); err != nil {
			return fmt.Errorf("GGUF file %s: %w", path, err)
		}
		return read(f)
	})
}

// parse reads the metadata and the tensor table.
func (f *File) parse(r *reader) error {
	numTensors, err := f.parseMetadata(r)
	if err != nil {
		return err
	}
	return f.parseTensors(r, numTensors)
}

// parseMetadata reads the header and the metadata, and returns the number of tensors that follow.
func (f *File) parseMetadata(r *reader) (numTensors uint64, err error) {
	if string(r.bytes(4)) != magic {
		return 0, fmt.Errorf("it does not start with %q, so it is not a GGUF file", magic)
	}
	f.Version = r.u32()
	switch {
	case r.failed:
		return 0, errTruncated(r, "the header")
	case f.Version != 2 && f.Version != 3:
		if v := bits.ReverseBytes32(f.Version); v >= 1 && v <= 3 {
			return 0, fmt.Errorf("it is big-endian, which is not supported; convert it to little-endian")
		}
		return 0, fmt.Errorf("version %d is not supported (2 and 3 are)", f.Version)
	}
	numTensors, numValues := r.u64(), r.u64()
	if r.failed {
		return 0, errTruncated(r, "the header")
	}
	if numTensors > maxEntries || numValues > maxEntries {
		return 0, fmt.Errorf("its header claims %s and %s; more than %d are not read",
			plural.Count(numTensors, "tensor"), plural.Count(numValues, "metadata entry"), maxEntries)
	}
	for i := range numValues {
		if err := f.parseValue(r, i); err != nil {
			return 0, err
		}
	}
	return numTensors, nil
}

func (f *File) parseTensors(r *reader, numTensors uint64) error {
	alignment := uint64(defaultAlignment)
	if f.Has("general.alignment") {
		a, ok := f.Int("general.alignment")
		if !ok || a < 1 || a > maxAlignment || a&(a-1) != 0 {
			return fmt.Errorf("general.alignment is not a power of two up to %d", maxAlignment)
		}
		alignment = uint64(a)
	}
	var offsets []uint64
	for i := range numTensors {
		t, offset, err := parseTensor(r, i)
		if err != nil {
			return err
		}
		if offset%alignment != 0 {
			return fmt.Errorf("tensor %q starts at offset %d, not a multiple of the alignment %d", t.Name, offset,
				alignment)
		}
		f.tensors = append(f.tensors, t)
		offsets = append(offsets, offset)
	}
	f.header = r.data[:r.pos]
	dataStart := (uint64(r.pos) + alignment - 1) / alignment * alignment
	fileSize := uint64(len(r.data))
	for i := range f.tensors {
		t := &f.tensors[i]
		if f.byName[t.Name] != nil {
			return fmt.Errorf("tensor %q appears twice", t.Name)
		}
		f.byName[t.Name] = t
		size, err := t.encodedBytes()
		if err != nil {
			return err
		}
		start, carry := bits.Add64(dataStart, offsets[i], 0)
		end, carry2 := bits.Add64(start, size, 0)
		if carry|carry2 != 0 || end > fileSize {
			return fmt.Errorf(
				"tensor %q needs %d bytes at offset %d, beyond the end of the file (%d bytes); the file is truncated "+
					"or damaged",
				t.Name, size, start, fileSize)
		}
		t.Data, t.Offset = r.data[start:end:end], int64(start)
	}
	return nil
}

func parseTensor(r *reader, i uint64) (t Tensor, offset uint64, err error) {
	where := func() string { return fmt.Sprintf("tensor entry %d", i) }
	t.Name = string(r.str())
	if r.failed {
		return t, 0, errTruncated(r, where())
	}
	if len(t.Name) > maxNameBytes {
		return t, 0, fmt.Errorf("%s has a name of %d bytes, more than %d", where(), len(t.Name), maxNameBytes)
	}
	numDims := r.u32()
	if r.failed {
		return t, 0, errTruncated(r, where())
	}
	if numDims < 1 || numDims > maxDims {
		return t, 0, fmt.Errorf("tensor %q has %s; 1 to %d are possible", t.Name,
			plural.Count(uint64(numDims), "dimension"), maxDims)
	}
	t.Dims = make([]int, numDims)
	for d := range t.Dims {
		dim := r.u64()
		if !r.failed && (dim == 0 || dim > math.MaxInt64) {
			return t, 0, fmt.Errorf("tensor %q has a dimension of %d", t.Name, dim)
		}
		t.Dims[len(t.Dims)-1-d] = int(dim)
	}
	t.Type = Type(r.u32())
	offset = r.u64()
	if r.failed {
		return t, 0, errTruncated(r, where())
	}
	return t, offset, nil
}

// encodedBytes returns the tensor's size in the file. Every product is checked for overflow.
func (t *Tensor) encodedBytes() (uint64, error) {
	blockLen, blockBytes := t.Type.Block()
	if blockLen == 0 {
		return 0, fmt.Errorf("tensor %q has type %s, which is not supported (supported: %s)", t.Name, t.Type,
			supportedTypes())
	}
	if row := t.Dims[len(t.Dims)-1]; row%blockLen != 0 {
		return 0, fmt.Errorf("tensor %q has rows of %d elements, not a multiple of the %d in a block of %s", t.Name,
			row, blockLen, t.Type)
	}
	elements := uint64(1)
	for _, d := range t.Dims {
		hi, lo := bits.Mul64(elements, uint64(d))
		if hi != 0 || lo > math.MaxInt64 {
			return 0, fmt.Errorf("tensor %q has dimensions %v, too many elements", t.Name, t.Dims)
		}
		elements = lo
	}
	hi, size := bits.Mul64(elements/uint64(blockLen), uint64(blockBytes))
	if hi != 0 {
		return 0, fmt.Errorf("tensor %q has dimensions %v, too many bytes", t.Name, t.Dims)
	}
	return size, nil
}
