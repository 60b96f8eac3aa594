package parquet

import (
	"io"
	"math"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/record"
	"github.com/quire/quire/data/promptset/schema"
	"github.com/quire/quire/data/promptset/table"
)

const (
	GroupRows      = 50_000   // maximum of output rows in a row group
	groupBytes     = 64 << 20 // uncompressed size of a row group, about
	dictionaryByte = 1 << 20  // size at which a column's dictionary stops growing
)

// encoder writes a Parquet part.
type encoder struct {
	columns *completion.Layout
	writer  *parquet.Writer
	rows    int64 // rows of the current row group
	bytes   int64
	input   [][]parquet.Value // values of the current input row, by output leaf; reused
	values  []parquet.Value   // values of a column of the output; reused
}

// keptValues is the largest buffer, in values, that is kept for later rows. A row of log-probabilities may have a
// million values in a column.
const keptValues = 1 << 16

func NewEncoder(w io.Writer, columns *completion.Layout, o *completion.EncoderOptions) (_ completion.Encoder,
	err error) {
	defer table.Guard(&err)
	options := []parquet.WriterOption{
		parquet.NewSchema("completions", schema.AsParquet(columns.Root)),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}),
		parquet.CreatedBy("quire", "1", "promptset"),
		parquet.DictionaryMaxBytes(dictionaryByte),
		parquet.MaxRowsPerRowGroup(math.MaxInt64),
	}
	for k, v := range o.Meta {
		options = append(options, parquet.KeyValueMetadata(k, v)) // order does not matter: the library sorts them
	}
	if slices.ContainsFunc(columns.Results, (*completion.Column).IsOfVectors) {
		if text := arrowSchema(columns, o.Meta); text != "" {
			options = append(options, parquet.KeyValueMetadata(arrowKey, text))
		}
	}
	// Minima and maxima help readers to skip pages by number. For text they would put whole texts in the footer.
	var bounds func(n *schema.Node, path []string)
	bounds = func(n *schema.Node, path []string) {
		path = append(slices.Clone(path), n.Name)
		if _, odd := n.Type.(schema.Annotated); n.IsLeaf && (odd || n.Type.Kind() == parquet.ByteArray) &&
			n.Name != "id" {
			options = append(options, parquet.SkipPageBounds(path...))
		}
		for _, f := range n.Fields {
			bounds(f, path)
		}
	}
	for _, f := range columns.Root.Fields {
		bounds(f, nil)
	}
	// The deprecated form of the writer, because the generic one also builds an encoder of Go values, which is not
	// needed here and panics for lists in two levels, although these are legal.
	return &encoder{columns: columns, writer: parquet.NewWriter(w, options...),
		input: make([][]parquet.Value, columns.Root.Leaves)}, nil
}

func (e *encoder) Add(row *record.Row, results []completion.Result) (rows, bytes int64, err error) {
	defer table.Guard(&err)
	for i := range e.input {
		e.input[i] = e.input[i][:0]
	}
	e.columns.Shred(row, e.input)
	for i := range results {
		size, err := e.completion(row, &results[i])
		if err != nil {
			return rows, bytes, err
		}
		rows++
		bytes += size
	}
	e.rows += rows
	e.bytes += bytes
	if e.rows >= GroupRows || e.bytes >= groupBytes {
		e.rows, e.bytes = 0, 0
		err = e.writer.Flush()
	}
	return rows, bytes, err
}

// completion writes an output row. It goes column by column, because the values of all columns would take much more
// memory.
func (e *encoder) completion(row *record.Row, r *completion.Result) (bytes int64, err error) {
	columns, first := e.writer.ColumnWriters(), e.columns.Result.Column
	write := func(values []parquet.Value, column int) {
		for _, v := range values {
			bytes += schema.ValueSize(v)
		}
		if err == nil {
			_, err = columns[column].WriteRowValues(values)
		}
	}
	for i, values := range e.input[:first] {
		write(values, i)
	}
	o := completion.Row{ID: row.ID, Result: r}
	ours := e.columns.Root.Fields[len(e.columns.Input):]
	for i, c := range e.columns.Results {
		e.values = c.AppendValues(e.values[:0], &o, ours[i].Column)
		for left := e.values; len(left) > 0; {
			leaf := left[0].Column()
			n := 1
			for n < len(left) && left[n].Column() == leaf {
				n++
			}
			write(left[:n], leaf)
			left = left[n:]
		}
		if cap(e.values) > keptValues {
			e.values = nil
		}
	}
	return bytes, err
}

func (e *encoder) Finish() (err error) {
	defer table.Guard(&err)
	return e.writer.Close()
}
