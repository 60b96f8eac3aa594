package models

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/backend/blocks"
	"github.com/quire/quire/models/internal/mapped"
)

// Span is a run of N rows or columns of a tensor.
type Span struct{ From, N int }

// Range is the bytes of a file from one offset to before another.
type Range struct{ From, To int64 }

// tensor is a weight in its stored form.
type tensor struct {
	shape  []int
	file   string       // for messages
	name   string       // the name in the file, for messages
	stored string       // encoding as the file names it, e.g. BF16, Q4_1
	native dtypes.DType // dtype of data's elements if they need no decoding
	data   []byte       // encoded bytes in the mapping; nil for dummy weights
	unit   int          // elements decoded at once: a block, a row
	// decode writes elements first to first+len(dst), both multiples of unit, as float32; nil if stored is not
	// supported.
	decode  func(dst []float32, first int)
	release func() // returns the memory of data's pages to the system
	// format is the format of data's blocks, if it has any. unpack is decode to blocks.
	format blocks.Format
	unpack func(to *blocks.Rows, first int)

	// blockLen and blockBytes are the elements and the bytes of a block of data. group is how many rows are reordered
	// together: each group is reordered by itself.
	blockLen, blockBytes int
	group                int
	offset               int64 // offset of data in the file
	need                 needFile
	packed               *packed // of a quantized matrix, which has no data of its own
	spread
	// companions are other tensors of the file that decode reads. If inStep is set, it reads of each the blocks with
	// the numbers of the blocks of data, and otherwise all.
	companions []*tensor
	inStep     bool
}

// spread is how a tensor's elements are spread over its data, which also has elements of other tensors. If scattered is
// set, they may be anywhere. With a step, row r is row firstRow + r*step of data.
type spread struct {
	scattered      bool
	firstRow, step int
}

func (t *tensor) elements() int {
	n := 1
	for _, d := range t.shape {
		n *= d
	}
	return n
}

// storedBytes returns the size of the tensor in its file.
func (t *tensor) storedBytes() int64 {
	n := int64(len(t.data))
	if t.scattered {
		n = int64(t.elements() / t.blockLen * t.blockBytes)
	}
	for _, b := range t.companions {
		n += int64(t.elements() / t.blockLen * b.blockBytes)
	}
	return n
}

func (t *tensor) named(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tensor %s in %s: %w", name, t.file, err)
}

// matrix returns the number of the tensor's rows, along its first axis, and their width.
func (t *tensor) matrix() (rows, width int) {
	if len(t.shape) == 0 {
		return 1, 1
	}
	width = 1
	for _, d := range t.shape[1:] {
		width *= d
	}
	return t.shape[0], width
}

// place returns the position of the elements [first, end) in data: whole blocks, whole groups of reordered rows, and
// the bytes between rows that are a step apart.
func (t *tensor) place(first, end int) Range {
	if t.scattered && t.step == 0 {
		return Range{0, int64(len(t.data))}
	}
	if t.step > 0 {
		_, width := t.matrix()
		first, last := t.firstRow+first/width*t.step, t.firstRow+(end-1)/width*t.step
		rowBytes := int64(width / t.blockLen * t.blockBytes)
		return Range{int64(first) * rowBytes, int64(last+1) * rowBytes}
	}
	unit := t.blockLen
	if t.group > 1 {
		_, width := t.matrix()
		unit = t.group * width
	}
	first, end = first/unit*unit, min(ceilDiv(end, unit)*unit, t.elements())
	return Range{int64(first / t.blockLen * t.blockBytes), int64(end / t.blockLen * t.blockBytes)}
}

// bring fetches ranges of data that are missing.
func (t *tensor) bring(ranges ...Range) error {
	for _, b := range t.companions {
		wanted := []Range{{0, int64(len(b.data))}}
		if t.inStep {
			wanted = wanted[:0]
			for _, r := range ranges {
				wanted = append(wanted, t.companionRange(b, r))
			}
		}
		if err := b.bring(wanted...); err != nil {
			return err
		}
	}
	if t.need == nil {
		return nil
	}
	inFile := make([]Range, len(ranges))
	for i, r := range ranges {
		inFile[i] = Range{t.offset + r.From, t.offset + r.To}
	}
	return t.need(inFile...)
}

// companionRange returns the range of b, for which inStep holds, that belongs to a range of data.
func (t *tensor) companionRange(b *tensor, r Range) Range {
	return Range{r.From / int64(t.blockBytes) * int64(b.blockBytes), r.To / int64(t.blockBytes) * int64(b.blockBytes)}
}

// Decoding goes through float32 in chunks that stay in the cache, on at most this many goroutines: beyond a few, memory
// bandwidth is the limit.
const (
	chunkElements = 16 << 10
	maxReaders    = 8
)

// inParallel divides n units of so many elements among goroutines that read mapped bytes, and then releases the
// pages.
func (t *tensor) inParallel(n, elements int, f func(first, n int) error) error {
	readers := max(1, min(runtime.GOMAXPROCS(0), maxReaders, elements/chunkElements, n))
	var wg sync.WaitGroup
	errs := make([]error, readers)
	for i := range readers {
		first, end := n*i/readers, n*(i+1)/readers
		wg.Go(func() { errs[i] = mapped.Guard(func() error { return f(first, end-first) }) })
	}
	wg.Wait()
	t.drop()
	if failed := slices.IndexFunc(errs, func(err error) bool { return err != nil }); failed >= 0 {
		return errs[failed]
	}
	return nil
}

func (t *tensor) drop() {
	if t.release != nil {
		t.release()
	}
}

func ceilDiv(a, b int) int { return (a + b - 1) / b }

// Need fetches ranges of a weight file that is not complete on this machine. The file is named without its folder.
type Need func(file string, ranges ...Range) error

// needFile is a Need for one file; nil if the file is complete.
type needFile func(ranges ...Range) error

// one returns n for a single range.
func (n needFile) one() func(from, to int64) error {
	if n == nil {
		return nil
	}
	return func(from, to int64) error { return n(Range{from, to}) }
}

// forFile returns the Need for one file.
func (n Need) forFile(path string) needFile {
	if n == nil {
		return nil
	}
	return func(ranges ...Range) error { return n(filepath.Base(path), ranges...) }
}

// quantized reports whether a tensor is not stored as floats.
func (t *tensor) quantized() bool { return t.blockLen > 1 || t.packed != nil }
