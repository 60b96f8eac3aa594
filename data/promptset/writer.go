package promptset

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/folder"
	"github.com/quire/quire/data/promptset/schema"
)

// WriterOptions are the options of [NewWriter].
type WriterOptions struct {
	Format string  // one of [Formats]; empty is the first
	Schema *Schema // input schema, from [Reader.Schema]; its columns are passed through
	// Shape is what columns the output has in addition to the input's.
	Shape completion.Shape
	// Meta is stored with the output: in the footer of every Parquet part, or in the file _meta.json next to JSONL
	// parts.
	Meta map[string]string
	// TokenText has the texts of tokens, for log-probabilities in FormatOpenAI; nil for a model without a tokenizer.
	TokenText TokenText
	// Parts cuts the rows of the job into parts; Write lists those to be written, ascending.
	Parts folder.Parts
	Write []int
	// Publishing, if set, is called when a part is complete, before it is published; an error of it fails the writer.
	// Published is called after that, with the first row that is not yet in a part, or the number of the job's rows.
	Publishing func(folder.PartSummary) error
	Published  func(part int, next int64) error
}

func (o *WriterOptions) encoder() *completion.EncoderOptions {
	return &completion.EncoderOptions{Meta: o.Meta, TokenText: o.TokenText}
}

// Writer writes completions to the parts of an output. Its methods may be called from several goroutines.
type Writer struct {
	mu          sync.Mutex
	destination folder.Destination
	options     WriterOptions
	columns     *completion.Layout
	format      *outputFormat

	left  []int // parts to publish
	next  int64 // index of the next row to write
	end   int64 // end of the current part's rows
	held  map[int64]finished
	bytes int64 // estimated size of held

	encoder completion.Encoder
	name    string // name of the part
	part    folder.Unpublished
	written *folder.Measured // bytes written to the part
	summary folder.PartSummary
	total   int64
	err     error // the first failure; nothing is written after it
	closed  bool
}

type finished struct {
	row     *Row
	results []Result
}

// NewWriter starts to write parts.
func NewWriter(d folder.Destination, options WriterOptions) (*Writer, error) {
	options.Format = cmp.Or(options.Format, Formats()[0])
	format := formatNamed(options.Format)
	if format == nil {
		return nil, fmt.Errorf("output format %q is unknown; use %s", options.Format, strings.Join(Formats(), " or "))
	}
	if options.Parts.Rows < 0 || options.Parts.PartRows < 1 {
		return nil, fmt.Errorf("%d rows in parts of %d are not possible", options.Parts.Rows, options.Parts.PartRows)
	}
	if _, err := options.Shape.Task.OnRequest(options.Shape.Requested); err != nil {
		return nil, fmt.Errorf("a column of the output %w", err)
	}
	if options.Schema == nil {
		options.Schema = schema.New()
	}
	if err := options.Shape.CheckExcluded(options.Schema); err != nil {
		return nil, fmt.Errorf("what the output does without %w", err)
	}
	w := &Writer{destination: d, options: options, format: format, left: options.Write, held: map[int64]finished{},
		columns: completion.NewLayout(options.Schema, options.Shape)}
	if folder.HasMetaFile(format.name) && len(options.Meta) > 0 {
		names, err := d.Names()
		if err != nil {
			return nil, err
		}
		if !slices.Contains(names, folder.MetaName) {
			if err := folder.WriteMeta(d, options.Meta); err != nil {
				return nil, err
			}
		}
	}
	w.begin()
	if options.Parts.Rows == 0 && len(w.left) > 0 {
		if w.err = w.open(); w.err == nil {
			w.err = w.publish()
		}
	}
	return w, w.err
}

// begin sets the range of rows to write next.
func (w *Writer) begin() {
	w.next, w.end = w.options.Parts.Rows, w.options.Parts.Rows
	if len(w.left) > 0 {
		w.next, w.end = w.options.Parts.Range(w.left[0])
	}
}

// Add accepts the completions of one row, in any order of rows, and writes what is next in the order of [Row.Index].
// A row with Err set and no results becomes one output row with that error. The row and its results must not change
// afterwards.
func (w *Writer) Add(row *Row, results []Result) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed && w.err == nil {
		return errors.New("the output is closed")
	}
	if w.err != nil {
		return w.err
	}
	if _, again := w.held[row.Index]; again || row.Index < w.next || row.Index >= w.options.Parts.Rows {
		return fmt.Errorf("row %d was added twice, or is not in a part to be written", row.Index)
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
			w.drop()
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

// Rows returns how many output rows have been written, published or not.
func (w *Writer) Rows() int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.total
}

// Unpublished returns the parts that are not published yet.
func (w *Writer) Unpublished() []int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.left)
}

// Close closes the writer. An incomplete part is dropped with its rows; published parts stay. It returns the writer's
// first error, if any.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.drop()
	return w.err
}

func (w *Writer) drop() {
	if w.part != nil {
		w.part.Discard()
		w.part, w.encoder, w.written = nil, nil, nil
	}
	clear(w.held)
	w.bytes = 0
}

func (w *Writer) write(f finished) error {
	if w.part == nil {
		if err := w.open(); err != nil {
			return err
		}
	}
	if len(f.results) == 0 {
		r := Result{FinishReason: "error", Err: "the row has no completions"}
		if f.row.Err != nil {
			r.Err = f.row.Err.Error()
		}
		if rowErr := (*RowError)(nil); errors.As(f.row.Err, &rowErr) {
			r.ErrParam, r.ErrCode = rowErr.Param, rowErr.Code
		}
		r.Generation = f.row.Overrides.Values().Generation
		f.results = []Result{r}
	}
	f.results = Settled(w.format.name, f.results)
	rows, _, err := w.encoder.Add(f.row, f.results)
	if err != nil {
		return fmt.Errorf("writing %s: %w", w.name, err)
	}
	w.total += rows
	addToSummary(&w.summary, f.row, f.results)
	if w.next < w.end {
		return nil
	}
	return w.publish()
}

// open starts the next part.
func (w *Writer) open() (err error) {
	w.summary = folder.PartSummary{Part: w.left[0]}
	w.name = w.options.Parts.Name(w.left[0], w.options.Format)
	if w.part, err = w.destination.Create(w.name); err != nil {
		return err
	}
	w.written = folder.NewMeasured(w.part)
	w.encoder, err = w.format.encoder(w.written, w.columns, w.options.encoder())
	return err
}

// publish makes the current part visible under its name.
func (w *Writer) publish() error {
	if err := w.encoder.Finish(); err != nil {
		return fmt.Errorf("writing %s: %w", w.name, err)
	}
	w.summary.SHA256, w.summary.Seal = w.written.Sums()
	if w.options.Publishing != nil {
		if err := w.options.Publishing(w.summary); err != nil {
			return err
		}
	}
	if err := w.part.Publish(); err != nil {
		return err
	}
	w.part, w.encoder, w.written = nil, nil, nil
	part := w.left[0]
	w.left = w.left[1:]
	w.begin()
	if w.options.Published != nil {
		return w.options.Published(part, w.next)
	}
	return nil
}

// size estimates the memory of a finished row.
func (f finished) size() int64 {
	n := int64(256 + len(f.row.Prompt) + 4*len(f.row.TokenIDs))
	if f.row.Source != nil {
		n += f.row.Source.Size()
	}
	for _, r := range f.results {
		n += int64(128 + len(r.Text) + 4*len(r.TokenIDs) + 4*len(r.Logprobs) + 4*len(r.Vector) + len(r.Err))
		for _, vector := range r.Vectors {
			n += int64(24 + 4*len(vector))
		}
	}
	return n
}
