package arrowfile

import (
	"errors"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Reader reads the record batches of a file, in any order. Sequential order is the fastest.
type Reader struct {
	index  *Index
	in     io.ReaderAt
	queue  []int // messages that the current reader has yet to read
	reader *ipc.Reader
	next   int   // the record batch that comes next
	views  views // of the schema
	err    error // error of reading a message
}

// Open returns a reader of a file after reading its schema.
func (x *Index) Open(in io.ReaderAt) (*Reader, error) {
	r := &Reader{index: x, in: in}
	return r, r.seek(0)
}

// Schema returns the file's schema.
func (r *Reader) Schema() *arrow.Schema { return r.reader.Schema() }

// Close releases memory.
func (r *Reader) Close() {
	if r.reader != nil {
		r.reader.Release()
		r.reader = nil
	}
}

// Batch reads a record batch, which is valid until the next one is read. Reading its values may panic if the buffers
// are invalid.
func (r *Reader) Batch(i int) (batch arrow.RecordBatch, err error) {
	defer guard(&err)
	if r.reader == nil || i != r.next {
		if err := r.seek(i); err != nil {
			return nil, err
		}
	}
	next := r.reader.Next()
	if err := r.reader.Err(); err != nil || !next {
		if r.err != nil {
			err = r.err
		}
		r.Close()
		if err == nil {
			err = errors.New("it is corrupt: dictionaries that it needs are missing")
		}
		return nil, err
	}
	r.next = i + 1
	batch = r.reader.RecordBatch()
	for j, column := range batch.Columns() {
		if int64(column.Len()) != r.index.Rows(i) {
			return nil, fmt.Errorf("it is corrupt: column %q has %d rows of %d", batch.ColumnName(j), column.Len(),
				r.index.Rows(i))
		}
	}
	return batch, nil
}

// seek creates a reader positioned at a record batch: it reads the schema, the dictionaries that apply to the batch,
// and everything from the batch on.
func (r *Reader) seek(batch int) (err error) {
	r.Close()
	x := r.index
	last := map[int64]int{} // by dictionary, the message that starts it
	for i, m := range x.messages {
		if m.kind == kindDictionary && m.batches <= batch && !m.delta {
			last[m.id] = i
		}
	}
	r.queue = append(r.queue[:0], 0)
	for i, m := range x.messages {
		switch {
		case m.kind == kindBatch && m.batches >= batch, m.kind == kindDictionary && m.batches > batch,
			m.kind == kindDictionary && i >= last[m.id]:
			r.queue = append(r.queue, i)
		}
	}
	r.err, r.next = nil, batch
	if r.reader, err = ipc.NewReaderFromMessageReader(source{r}); err != nil && r.err != nil {
		err = r.err
	}
	return err
}

// source returns the messages of a reader's queue.
type source struct{ *Reader }

func (source) Retain()  {}
func (source) Release() {}

func (s source) Message() (*ipc.Message, error) {
	if len(s.queue) == 0 {
		return nil, io.EOF
	}
	m := &s.index.messages[s.queue[0]]
	s.queue = s.queue[1:]
	b := make([]byte, m.meta+m.body)
	if n, err := s.in.ReadAt(b, m.offset); n < len(b) {
		s.err = fmt.Errorf("cannot read it: %w", err)
		return nil, s.err
	}
	meta, body := b[:m.meta:m.meta], b[m.meta:]
	var again message
	s.err = again.parse(meta)
	if s.err == nil && (again.kind != m.kind || again.body != m.body || again.rows != m.rows) {
		s.err = errors.New("it is not what it was when the job started; do not change inputs during a job")
	}
	if s.err == nil && again.kind == kindSchema {
		s.views = viewsOf(root(meta)) // the schema comes first
	}
	if s.err == nil {
		body, s.err = again.expand(meta, body, s.views.columns(&again))
	}
	if s.err != nil {
		return nil, s.err
	}
	return ipc.NewMessage(memory.NewBufferBytes(meta), memory.NewBufferBytes(body)), nil
}
