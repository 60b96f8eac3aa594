package promptset

import (
	"errors"
	"fmt"
	"slices"
	"sync"
)

// Formats of output files.
const (
	FormatParquet = "parquet"
	FormatJSONL   = "jsonl"
)

// OutputColumns are the columns that the writer adds after those of the input, in this order. An input column of one of
// these names is kept as input_<name>, but for id, whose values are the id's.
var OutputColumns = []string{
	"id", "generation", "text", "token_ids", "logprobs", "finish_reason", "prompt_tokens", "completion_tokens", "error",
}

// WriterOptions say how [Create] writes.
type WriterOptions struct {
	Format string  // FormatParquet (also when empty) or FormatJSONL
	Schema *Schema // of the input, from [Reader.Schema]; its columns are passed through
	// Meta is kept with the output: in the footer of every Parquet part, in the file _meta.json beside JSONL parts.
	Meta map[string]string
	// MaxPartRows and MaxPartBytes are where the next part starts, in output rows and uncompressed bytes; 0 means
	// 1,000,000 rows and 1 GiB. The completions of one input row are never split.
	MaxPartRows  int64
	MaxPartBytes int64
	// Overwrite removes the parts that the folder already holds, at once.
	Overwrite bool
}

const (
	defaultPartRows  = 1_000_000
	defaultPartBytes = 1 << 30
)

// encoder writes one part.
type encoder interface {
	// add writes the rows of a finished input row and returns their number and size.
	add(row *Row, results []Result) (rows, bytes int64, err error)
	// finish writes what is left of the part; nothing may be added after it.
	finish() error
}

// Writer writes completions to the parts of an output folder. Its methods may be called from several goroutines.
type Writer struct {
	mu      sync.Mutex
	folder  *folderLock
	options WriterOptions
	columns *outputColumns

	next  int64 // index of the row that is written next
	held  map[int64]finished
	bytes int64 // held, estimated

	encoder   encoder
	part      *partFile
	parts     int
	partRows  int64
	partBytes int64
	total     int64
	err       error // first failure; nothing is written after it
	closed    bool
}

type finished struct {
	row     *Row
	results []Result
}

// ErrOutputExists says that the output folder already holds parts.
var ErrOutputExists = errors.New("the output folder already holds part files")

// MissingRowsError is returned by [Writer.Close] when rows before the last one added were never added. The output is whole
// but for them.
type MissingRowsError struct {
	First int64 // index of the first missing row
	Count int64
}

func (e *MissingRowsError) Error() string {
	return fmt.Sprintf("%d rows were never finished, the first of index %d; the output lacks them", e.Count, e.First)
}

// Create starts an output folder, making it if need be. It removes what an earlier writer that died left behind, fails with
// [ErrOutputExists] if there are parts already and Overwrite is not set, and keeps other writers out until Close or Abort.
func Create(dir string, options WriterOptions) (*Writer, error) {
	switch options.Format {
	case "":
		options.Format = FormatParquet
	case FormatParquet, FormatJSONL:
	default:
		return nil, fmt.Errorf("output format %q is unknown; use %s or %s", options.Format, FormatParquet, FormatJSONL)
	}
	if options.MaxPartRows < 0 || options.MaxPartBytes < 0 {
		return nil, fmt.Errorf("the bounds of a part, %d rows and %d bytes, must not be negative", options.MaxPartRows, options.MaxPartBytes)
	}
	if options.MaxPartRows == 0 {
		options.MaxPartRows = defaultPartRows
	}
	if options.MaxPartBytes == 0 {
		options.MaxPartBytes = defaultPartBytes
	}
	if options.Schema == nil {
		options.Schema = newSchema()
	}
	folder, err := lockFolder(dir, options.Overwrite)
	if err != nil {
		return nil, err
	}
	return &Writer{folder: folder, options: options, columns: newOutputColumns(options.Schema), held: map[int64]finished{}}, nil
}

// Add takes the completions of one row, in any order of rows, and writes what is next in the order of [Row.Index]. A row
// with Err set and no results becomes one output row with that error. The row and its results must not change afterwards.
func (w *Writer) Add(row *Row, results []Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed && w.err == nil {
		return errors.New("the output is closed")
	}
	if w.err != nil {
		return w.err
	}
	if _, again := w.held[row.Index]; again || row.Index < w.next {
		return fmt.Errorf("row %d was added twice", row.Index)
	}
	f := finished{row, results}
	w.held[row.Index] = f
	w.bytes += f.size()
	for {
		f, ok := w.held[w.next]
		if !ok {
			return nil
		}
		delete(w.held, w.next)
		w.bytes -= f.size()
		w.next++
		if w.err = w.write(f); w.err != nil {
			return w.err
		}
	}
}

// Pending returns how many rows wait for an earlier one to be added, and about how many bytes they take.
func (w *Writer) Pending() (rows int, bytes int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.held), w.bytes
}

// Rows returns how many output rows were written so far, published or not.
func (w *Writer) Rows() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Close writes rows that still wait, in order, and publishes the last part; a job without rows gets one part without rows.
// It returns a [*MissingRowsError] if there were gaps, and the first error of the writer if there was one: parts that were
// published before stay, the current one is dropped.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return w.err
	}
	w.closed = true
	var missing *MissingRowsError
	if w.err == nil {
		missing, w.err = w.drain()
	}
	if w.err == nil && w.part == nil && w.parts == 0 {
		w.err = w.open()
	}
	if w.err == nil && w.part != nil {
		w.err = w.publish()
	}
	if w.err == nil && w.options.Format == FormatJSONL && len(w.options.Meta) > 0 {
		w.err = w.folder.writeMeta(w.options.Meta)
	}
	if w.err != nil {
		w.drop()
	}
	if err := w.folder.unlock(); w.err == nil {
		w.err = err
	}
	if w.err == nil && missing != nil {
		return missing
	}
	return w.err
}

// Abort gives up: the current part is dropped, parts published before stay. It does nothing after Close.
func (w *Writer) Abort() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return
	}
	w.closed = true
	w.drop()
	w.folder.unlock()
}

func (w *Writer) drop() {
	if w.part != nil {
		w.part.discard()
		w.part, w.encoder = nil, nil
	}
	clear(w.held)
	w.bytes = 0
}

// drain writes the held rows.
func (w *Writer) drain() (*MissingRowsError, error) {
	if len(w.held) == 0 {
		return nil, nil
	}
	indices := make([]int64, 0, len(w.held))
	for i := range w.held {
		indices = append(indices, i)
	}
	slices.Sort(indices)
	missing := &MissingRowsError{First: w.next, Count: indices[len(indices)-1] - w.next + 1 - int64(len(indices))}
	for _, i := range indices {
		if err := w.write(w.held[i]); err != nil {
			return nil, err
		}
	}
	clear(w.held)
	w.bytes = 0
	return missing, nil
}

func (w *Writer) write(f finished) error {
	if w.part != nil && (w.partRows >= w.options.MaxPartRows || w.partBytes >= w.options.MaxPartBytes) {
		if err := w.publish(); err != nil {
			return err
		}
	}
	if w.part == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if len(f.results) == 0 {
		what := "the row has no completions"
		if f.row.Err != nil {
			what = f.row.Err.Error()
		}
		f.results = []Result{{FinishReason: "error", Err: what}}
		if g := f.row.Overrides.Generation; g != nil {
			f.results[0].Generation = *g
		}
	}
	rows, bytes, err := w.encoder.add(f.row, f.results)
	if err != nil {
		return fmt.Errorf("writing %s: %w", w.part.final, err)
	}
	w.partRows += rows
	w.partBytes += bytes
	w.total += rows
	return nil
}

// open starts the next part.
func (w *Writer) open() (err error) {
	w.part, err = w.folder.create(fmt.Sprintf("part-%05d.%s", w.parts, w.options.Format))
	if err != nil {
		return err
	}
	w.partRows, w.partBytes = 0, 0
	if w.options.Format == FormatJSONL {
		w.encoder = newJSONLEncoder(w.part.buffer, w.columns)
		return nil
	}
	w.encoder, err = newParquetEncoder(w.part.buffer, w.columns, w.options.Meta)
	return err
}

// publish makes the current part visible under its name.
func (w *Writer) publish() error {
	if err := w.encoder.finish(); err != nil {
		return fmt.Errorf("writing %s: %w", w.part.final, err)
	}
	if err := w.part.commit(); err != nil {
		return err
	}
	w.part, w.encoder = nil, nil
	w.parts++
	return nil
}

// size estimates the memory of a finished row.
func (f finished) size() int64 {
	n := int64(256 + 32*len(f.row.values) + len(f.row.Prompt) + 4*len(f.row.TokenIDs))
	for _, v := range f.row.values {
		n += valueSize(v)
	}
	for _, m := range f.row.object {
		n += int64(len(m.key) + len(m.raw))
	}
	for _, r := range f.results {
		n += int64(128 + len(r.Text) + 4*len(r.TokenIDs) + 4*len(r.Logprobs) + len(r.Err))
	}
	return n
}
