package promptset

import (
	"bytes"
	"io"
	"math"
	"slices"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"
)

const (
	groupRows      = 50_000   // output rows of a row group, at most
	groupBytes     = 64 << 20 // uncompressed bytes of a row group, about
	dictionaryByte = 1 << 20  // where a column's dictionary stops to grow
)

// Passed are the columns of an input that an output passes through.
type Passed struct {
	input  []*node        // in the output
	source []string       // their names in the input
	rename map[string]int // index in input by name there
	leaf   []int          // output leaf of each leaf of the input schema, -1 for the id's
}

// outputColumns are the columns of the output: those of the input under their names there, then ours.
type outputColumns struct {
	Passed
	root  *node    // input is of it
	open  bool     // no input is known: each row has the columns that it has
	lacks []string // the output's names of columns that it does without

	results []*Column
	ours    []string // the names of results, and of those of ours that the output does without
	result  *node    // of the first of results
}

// newOutputColumns returns the columns of an output. The names of columns do not depend on those that are excluded.
func newOutputColumns(s *Schema, requested, excluded []string) *outputColumns {
	o := &outputColumns{root: groupNode("completions", required), Passed: Passed{rename: map[string]int{}},
		lacks: excluded}
	o.results = written(requested)
	o.ours = namesOf(o.results)
	o.results = slices.DeleteFunc(o.results, func(c *Column) bool { return slices.Contains(excluded, c.Name) })
	taken := slices.Concat(o.ours, s.Columns())
	for _, f := range s.root.fields {
		if f.name == idColumn {
			continue
		}
		c := f.clone()
		for slices.Contains(o.ours, c.name) || c.name != f.name && slices.Contains(taken, c.name) {
			c.name = "input_" + c.name
		}
		taken = append(taken, c.name)
		if slices.Contains(excluded, c.name) {
			continue
		}
		emptyAsText(c)
		dictionaries(c)
		o.rename[f.name] = len(o.input)
		o.input = append(o.input, c)
		o.source = append(o.source, f.name)
	}
	o.root.fields = slices.Clone(o.input)
	for _, c := range o.results {
		o.root.fields = append(o.root.fields, c.node())
	}
	o.result = o.root.fields[len(o.input)]
	number(o.root)
	o.leaf = slices.Repeat([]int{-1}, s.root.leaves)
	for i, name := range o.source {
		src := s.root.field(name)
		for j := range src.leaves {
			o.leaf[src.column+j] = o.input[i].column + j
		}
	}
	return o
}

// nameOf is the name in the output of a column of a row; false says that it is not passed through.
func (o *outputColumns) nameOf(key string, row RowSource) (name string, ok bool) {
	if !o.open {
		i, ok := o.rename[key]
		if !ok {
			return "", false
		}
		return o.input[i].name, true
	}
	name = key
	taken := func(name string) bool {
		return slices.Contains(o.ours, name) || name != key && row.Has(name)
	}
	for taken(name) {
		name = "input_" + name
	}
	return name, key != "id" && !slices.Contains(o.lacks, name)
}

// emptyAsText gives lists that are empty in all files elements of a type that readers know.
func emptyAsText(n *node) {
	for _, f := range n.fields {
		emptyAsText(f)
	}
	if n.isEmpty() {
		n.typ = parquet.String().Type()
	}
}

// dictionaries asks for dictionaries below n: an input row's values repeat with each of its completions.
func dictionaries(n *node) {
	for _, f := range n.fields {
		dictionaries(f)
	}
	if _, odd := n.typ.(annotated); n.leaf && !odd && n.typ.Kind() != parquet.Boolean && n.typ.Kind() != parquet.Int96 {
		n.enc = &parquet.RLEDictionary
	}
}

// parquetEncoder writes a Parquet part.
type parquetEncoder struct {
	columns *outputColumns
	writer  *parquet.Writer
	rows    int64 // of the current row group
	bytes   int64
	input   [][]parquet.Value // of the current input row, by output leaf; reused
	values  []parquet.Value   // of a column of the output; reused
}

// keptValues is how many values a buffer has at most that is kept for later rows. A row of log-probabilities may have
// a million in a column.
const keptValues = 1 << 16

func newParquetEncoder(w io.Writer, columns *outputColumns, o *EncoderOptions) (_ Encoder, err error) {
	defer guard(&err)
	options := []parquet.WriterOption{
		parquet.NewSchema("completions", AsParquet(columns.root)),
		parquet.Compression(&zstd.Codec{Level: zstd.SpeedDefault, Concurrency: 1}),
		parquet.CreatedBy("quire", "1", "promptset"),
		parquet.DictionaryMaxBytes(dictionaryByte),
		parquet.MaxRowsPerRowGroup(math.MaxInt64),
	}
	for k, v := range o.Meta {
		options = append(options, parquet.KeyValueMetadata(k, v)) // the library sorts them
	}
	// Smallest and greatest values help readers to skip pages by number, not by text, and would put whole texts in the
	// footer.
	var bounds func(n *node, path []string)
	bounds = func(n *node, path []string) {
		path = append(slices.Clone(path), n.name)
		if _, odd := n.typ.(annotated); n.leaf && (odd || n.typ.Kind() == parquet.ByteArray) && n.name != "id" {
			options = append(options, parquet.SkipPageBounds(path...))
		}
		for _, f := range n.fields {
			bounds(f, path)
		}
	}
	for _, f := range columns.root.fields {
		bounds(f, nil)
	}
	// The deprecated form of the writer: the generic one also builds an encoder of Go values, which we have none of and
	// which panics for lists in two levels, legal as they are.
	return &parquetEncoder{columns: columns, writer: parquet.NewWriter(w, options...),
		input: make([][]parquet.Value, columns.root.leaves)}, nil
}

func (e *parquetEncoder) Add(row *Row, results []Result) (rows, bytes int64, err error) {
	defer guard(&err)
	for i := range e.input {
		e.input[i] = e.input[i][:0]
	}
	e.columns.shred(row, e.input)
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
	if e.rows >= groupRows || e.bytes >= groupBytes {
		e.rows, e.bytes = 0, 0
		err = e.writer.Flush()
	}
	return rows, bytes, err
}

// completion writes a row of the output. It goes column by column: the values of all would take much more memory.
func (e *parquetEncoder) completion(row *Row, r *Result) (bytes int64, err error) {
	columns, first := e.writer.ColumnWriters(), e.columns.result.column
	write := func(values []parquet.Value, column int) {
		for _, v := range values {
			bytes += valueSize(v)
		}
		if err == nil {
			_, err = columns[column].WriteRowValues(values)
		}
	}
	for i, values := range e.input[:first] {
		write(values, i)
	}
	o := outputRow{row.ID, r}
	ours := e.columns.root.fields[len(e.columns.input):]
	for i, c := range e.columns.results {
		e.values = c.appendValues(e.values[:0], &o, ours[i].column)
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

func (e *parquetEncoder) Finish() (err error) {
	defer guard(&err)
	return e.writer.Close()
}

// shred sets values, which are by leaf, to the columns of a row that are passed through; nulls where it has none.
func (o *outputColumns) shred(row *Row, values [][]parquet.Value) {
	if row.Source != nil {
		row.Source.AppendValues(values, &o.Passed)
	}
	o.fill(values)
}

// fill adds a null to each leaf of the passed-through columns that has no value.
func (o *outputColumns) fill(values [][]parquet.Value) {
	for i, of := range values[:o.result.column] {
		if len(of) == 0 {
			values[i] = append(of, parquet.NullValue().Level(0, 0, i))
		}
	}
}

// moved is a value at its place in the output leaf out.
func (p *leafPlace) moved(v parquet.Value, out int) parquet.Value {
	return p.convert(v).Level(v.RepetitionLevel(), int(p.defs[v.DefinitionLevel()]), out)
}

// convert widens a value to the type of the job's column, and mends text that is not UTF-8, which readers may refuse.
func (p *leafPlace) convert(v parquet.Value) parquet.Value {
	switch {
	case v.IsNull():
	case p.text && !utf8.Valid(v.ByteArray()):
		return parquet.ByteArrayValue(bytes.ToValidUTF8(v.ByteArray(), []byte("\uFFFD")))
	case v.Kind() == p.kind:
	case v.Kind() == parquet.Int32 && p.kind == parquet.Int64:
		return parquet.Int64Value(int64(v.Int32()))
	case v.Kind() == parquet.Float && p.kind == parquet.Double:
		return parquet.DoubleValue(float64(v.Float()))
	}
	return v
}

// valueSize is about how many bytes a value takes in memory and, before compression, in a file.
func valueSize(v parquet.Value) int64 {
	if !v.IsNull() && (v.Kind() == parquet.ByteArray || v.Kind() == parquet.FixedLenByteArray) {
		return 4 + int64(len(v.ByteArray()))
	}
	return 8
}
