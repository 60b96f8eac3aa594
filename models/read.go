package models

import (
	"fmt"
	"maps"
	"slices"
	"unsafe"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"

	"github.com/quire/quire/models/arch"
	"github.com/quire/quire/models/internal/mapped"
)

// Read returns a tensor's elements in row-major order as []float32, []bfloat16.BFloat16 or []float16.Float16, for
// dtype Float32, BFloat16 or Float16. Blocks are dequantized; narrowing rounds to nearest, ties to even.
//
// If the file holds that very dtype, the slice is a view of the mapped file: it must not be written to (the process
// would be killed) and is valid until Close. Otherwise the caller owns the slice, nothing else of the tensor's size
// is allocated, and the memory of the mapped pages is returned to the system; after using a view, do that with
// Release.
func (c *Checkpoint) Read(name string, dtype dtypes.DType) (flat any, err error) {
	t, err := c.readable(name, dtype)
	if err != nil {
		return nil, err
	}
	flat, err = t.read(dtype, 0, t.elements())
	return flat, t.named(name, err)
}

// ReadRows is Read for some rows of a tensor: nothing else of the file is read.
func (c *Checkpoint) ReadRows(name string, dtype dtypes.DType, rows Span) (flat any, err error) {
	t, err := c.readable(name, dtype)
	if err != nil {
		return nil, err
	}
	count, width := t.matrix()
	if rows.From < 0 || rows.N < 1 || rows.From+rows.N > count {
		return nil, t.named(name, fmt.Errorf("it has %d rows, and %d from row %d on were wanted", count, rows.N,
			rows.From))
	}
	flat, err = t.read(dtype, rows.From*width, (rows.From+rows.N)*width)
	return flat, t.named(name, err)
}

// ReadColumns is Read for some columns of a matrix, concatenated in each row. The caller owns the slice. If the file is
// not complete on this machine, the bytes between the columns may be fetched, too.
func (c *Checkpoint) ReadColumns(name string, dtype dtypes.DType, columns []Span) (flat any, err error) {
	t, err := c.readable(name, dtype)
	if err != nil {
		return nil, err
	}
	_, width := t.matrix()
	for _, s := range columns {
		if s.From < 0 || s.N < 1 || s.From+s.N > width {
			return nil, t.named(name, fmt.Errorf("it has %d columns, and %d from column %d on were wanted", width, s.N,
				s.From))
		}
	}
	switch dtype {
	case dtypes.Float32:
		flat, err = readColumns(t, columns, dtype, func(dst, src []float32) { copy(dst, src) })
	case dtypes.BFloat16:
		flat, err = readColumns(t, columns, dtype, ToBFloat16)
	default:
		flat, err = readColumns(t, columns, dtype, ToFloat16)
	}
	return flat, t.named(name, err)
}

// Addend is scale * B*A, which is added to a matrix as it is read. With Magnitude each row of the sum is then scaled to
// that length.
type Addend struct {
	Tensor string
	Rank   int
	Scale  float32
	A      []float32 // [Rank, in]
	B      []float32 // [out, Rank]
	// Magnitude [out] is the length of each row in the end; nil leaves them as they are.
	Magnitude []float32
}

// Add adds to matrices: Read and its kin return the sums, computed in float32 and rounded once. identity becomes part
// of the checkpoint's fingerprint. It is called before anything is read.
func (c *Checkpoint) Add(addends []Addend, identity string) error {
	sums, err := c.Sums(addends, identity)
	if err != nil {
		return err
	}
	maps.Copy(c.tensors, sums.tensors)
	c.identity = append(c.identity, sums.identity...)
	return nil
}

// Sums returns a checkpoint of the sums alone, which reads from c: see [Checkpoint.Add] and [Checkpoint.Over].
func (c *Checkpoint) Sums(addends []Addend, identity string) (*Checkpoint, error) {
	sums := *c
	sums.tensors, sums.layers, sums.closers = map[string]*tensor{}, nil, nil
	sums.identity = []identityPart{{header: []byte(identity)}}
	for _, add := range addends {
		t := c.tensors[add.Tensor]
		if t == nil {
			return nil, fmt.Errorf("model %s: %w: %s", c.Ref, ErrNoTensor, add.Tensor)
		}
		if t.decode == nil || t.packed != nil || t.format.Is() || t.blockLen > 1 {
			return nil, fmt.Errorf("model %s: tensor %s is %s, and nothing can be added to quantized weights without "+
				"rounding them again: use a base in F32, BF16 or F16", c.Ref, add.Tensor, t.stored)
		}
		sums.tensors[add.Tensor] = t.plus(add)
	}
	return sums.finish(), nil
}

// readable returns a tensor that can be read as dtype.
func (c *Checkpoint) readable(name string, dtype dtypes.DType) (*tensor, error) {
	t := c.tensors[name]
	if t == nil {
		return nil, fmt.Errorf("model %s: %w: %s", c.Ref, ErrNoTensor, name)
	}
	if t.decode == nil {
		return nil, fmt.Errorf("tensor %s in %s: %w", name, t.file,
			arch.Unsupported("F32, BF16 and F16 are", "dtype %s", t.stored))
	}
	switch dtype {
	case dtypes.Float32, dtypes.BFloat16, dtypes.Float16:
		return t, nil
	}
	return nil, fmt.Errorf("tensor %s in %s cannot be read as %s; Float32, BFloat16 and Float16 are possible", name,
		t.file, dtype)
}

// read returns the elements [first, end): a view, or decoded.
func (t *tensor) read(dtype dtypes.DType, first, end int) (any, error) {
	if err := t.bringPacked(first, end); err != nil {
		return nil, err
	}
	if len(t.data) > 0 {
		r := t.place(first, end)
		if err := t.bring(r); err != nil {
			return nil, err
		}
		if view := t.view(dtype, first, end); view != nil {
			return view, mapped.Touch(t.data[r.From:r.To])
		}
	}
	switch dtype {
	case dtypes.Float32:
		return read(t, first, end, func(dst, src []float32) { copy(dst, src) })
	case dtypes.BFloat16:
		return read(t, first, end, ToBFloat16)
	}
	return read(t, first, end, ToFloat16)
}

// view returns elements of the tensor's data as a slice of dtype, or nil if they must be decoded: a different dtype,
// misaligned for the element (the formats allow that), or a big-endian machine.
func (t *tensor) view(dtype dtypes.DType, first, end int) any {
	if t.native != dtype || len(t.data) == 0 || !littleEndian {
		return nil
	}
	p, n := unsafe.Pointer(unsafe.SliceData(t.data)), t.elements()
	aligned := func(size uintptr) bool { return uintptr(p)%size == 0 }
	switch {
	case dtype == dtypes.Float32 && aligned(4):
		return unsafe.Slice((*float32)(p), n)[first:end]
	case dtype == dtypes.BFloat16 && aligned(2):
		return unsafe.Slice((*bfloat16.BFloat16)(p), n)[first:end]
	case dtype == dtypes.Float16 && aligned(2):
		return unsafe.Slice((*float16.Float16)(p), n)[first:end]
	}
	return nil
}

var littleEndian = func() bool {
	x := uint16(1)
	return *(*byte)(unsafe.Pointer(&x)) == 1
}()

// read decodes elements of a tensor, divided among goroutines at multiples of its unit.
func read[T any](t *tensor, from, to int, narrow func(dst []T, src []float32)) ([]T, error) {
	start := from / t.unit * t.unit // first element that is decoded
	out := make([]T, min(ceilDiv(to, t.unit)*t.unit, t.elements())-start)
	units := ceilDiv(len(out), t.unit)
	chunk := max(chunkElements/t.unit, 1) * t.unit
	if t.packed != nil {
		chunk = packedRows * t.unit
	}
	err := t.inParallel(units, len(out), func(i, n int) error {
		first, end := i*t.unit, min((i+n)*t.unit, len(out))
		if direct, ok := any(out).([]float32); ok { // no narrowing, no scratch
			for ; first < end; first += chunk {
				t.decode(direct[first:min(first+chunk, end)], start+first)
			}
			return nil
		}
		scratch := make([]float32, min(chunk, end-first))
		for ; first < end; first += chunk {
			part := scratch[:min(chunk, end-first)]
			t.decode(part, start+first)
			narrow(out[first:first+len(part)], part)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return out[from-start : to-start], nil
}

// readColumns decodes columns of a matrix.
func readColumns[T any](t *tensor, columns []Span, dtype dtypes.DType, narrow func(dst []T, src []float32)) ([]T,
	error) {
	rows, width := t.matrix()
	if t.group > 1 || t.scattered { // reordered or scattered rows: no matrix with them is read by columns
		whole, err := t.read(dtype, 0, t.elements())
		if err != nil {
			return nil, err
		}
		return cut(whole.([]T), rows, width, columns), nil
	}
	total, widest := 0, 0
	for _, s := range columns {
		total, widest = total+s.N, max(widest, s.N)
	}
	if err := t.bringPacked(0, rows*width); err != nil {
		return nil, err
	}
	if len(t.data) > 0 {
		ranges := make([]Range, 0, rows*len(columns))
		for row := range rows {
			for _, s := range columns {
				ranges = append(ranges, t.place(row*width+s.From, row*width+s.From+s.N))
			}
		}
		if err := t.bring(ranges...); err != nil {
			return nil, err
		}
		if view, ok := t.view(dtype, 0, t.elements()).([]T); ok {
			var out []T
			err := mapped.Guard(func() error { out = cut(view, rows, width, columns); return nil })
			t.drop()
			return out, err
		}
	}
	out := make([]T, rows*total)
	err := t.inParallel(rows, len(out), func(row, n int) error {
		scratch := make([]float32, widest+2*t.unit)
		for ; n > 0; n-- {
			to := out[row*total:]
			for _, s := range columns {
				first := row*width + s.From
				start := first / t.unit * t.unit
				part := scratch[:ceilDiv(first+s.N-start, t.unit)*t.unit]
				t.decode(part, start)
				narrow(to[:s.N], part[first-start:][:s.N])
				to = to[s.N:]
			}
			row++
		}
		return nil
	})
	return out, err
}

// cut copies columns of a matrix.
func cut[T any](matrix []T, rows, width int, columns []Span) []T {
	var out []T
	for row := range rows {
		for _, s := range columns {
			out = append(out, matrix[row*width+s.From:][:s.N]...)
		}
		if row == 0 {
			out = slices.Grow(out, (rows-1)*len(out))
		}
	}
	return out
}
