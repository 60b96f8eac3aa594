// Package arrowfile finds the record batches of an Arrow IPC file or stream, and reads them one at a time. It does
// not allocate memory for the sizes that a file claims until the data is known to exist.
package arrowfile

import (
	"bufio"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	flatbuffers "github.com/google/flatbuffers/go"
)

// Magic starts and ends an Arrow IPC file, StreamMagic starts a stream, and FeatherMagic a file of Feather's first
// version.
const (
	Magic        = "ARROW1"
	StreamMagic  = "\xff\xff\xff\xff"
	FeatherMagic = "FEA1"
)

// MaxRows is the maximum number of rows in a record batch.
const MaxRows = 64 << 20

// Index has the positions of a file's messages.
type Index struct {
	messages []message
	batches  []int // indices in messages
}

// message is the position of a message.
type message struct {
	offset     int64 // offset of its metadata, after the length
	meta, body int64 // sizes in bytes
	kind       int8
	rows       int64 // number of rows, for a record batch
	id         int64 // id, for a dictionary
	delta      bool  // it extends the dictionary before it
	batches    int   // number of record batches before it
}

// NumBatches returns the number of record batches.
func (x *Index) NumBatches() int { return len(x.batches) }

// Rows returns the number of rows in a record batch.
func (x *Index) Rows(batch int) int64 { return x.messages[x.batches[batch]].rows }

// NumRows returns the total number of rows.
func (x *Index) NumRows() (n int64) {
	for i := range x.batches {
		n += x.Rows(i)
	}
	return n
}

// scanner reads the messages of a file of size bytes.
type scanner struct {
	in     *bufio.Reader
	offset int64
	size   int64
	file   bool // a file rather than a stream
	Index
}

// Scan reads a file of so many bytes once, to its end, and records the positions of its messages. The error is about
// the file, or comes from ctx or in.
func Scan(ctx context.Context, in io.Reader, size int64) (*Index, error) {
	s := &scanner{in: bufio.NewReaderSize(in, 64<<10), size: size}
	head, err := s.in.Peek(8)
	switch {
	case err != nil && err != io.EOF:
		return nil, err
	case len(head) >= 4 && string(head[:4]) == FeatherMagic:
		return nil, errors.New("it is a Feather V1 file, which is not read; write it with " +
			"pyarrow.feather.write_feather(table, file, version=2)")
	case len(head) == 8 && string(head[:6]) == Magic:
		s.file = true
		err = s.skip(8)
	default:
		err = nil
	}
	for more := true; err == nil && more; {
		if err = ctx.Err(); err == nil {
			more, err = s.next()
		}
	}
	if err == nil {
		err = s.finish()
	}
	if err != nil {
		return nil, err
	}
	return &s.Index, nil
}

// where describes what is being read.
func (s *scanner) where() string {
	if len(s.messages) == 0 {
		return "its schema"
	}
	return fmt.Sprintf("record batch %d", len(s.batches))
}

// cut replaces the error of a file that ends too early; other errors are returned unchanged.
func (s *scanner) cut(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return fmt.Errorf("it is cut off in %s, at byte %d; write the file again", s.where(), s.offset)
	}
	return err
}

func (s *scanner) read(b []byte) error {
	n, err := io.ReadFull(s.in, b)
	s.offset += int64(n)
	return err
}

func (s *scanner) skip(n int64) error {
	skipped, err := io.CopyN(io.Discard, s.in, n)
	s.offset += skipped
	return err
}

// next scans a message; more is false at the end.
func (s *scanner) next() (more bool, err error) {
	var b [4]byte
	if err := s.read(b[:]); err == io.EOF && !s.file && len(s.messages) > 0 {
		return false, nil // a stream may end without a mark
	} else if err != nil {
		return false, s.cut(err)
	}
	length := binary.LittleEndian.Uint32(b[:])
	if length == 0xffffffff { // absent before Arrow 0.15
		if err := s.read(b[:]); err != nil {
			return false, s.cut(err)
		}
		length = binary.LittleEndian.Uint32(b[:])
	}
	if length == 0 {
		return false, nil
	}
	if int64(length) > min(maxMetadata, s.size-s.offset) || length < 8 {
		return false, fmt.Errorf("%s claims %d bytes of metadata, and the file has %d more; it is cut off or corrupt, "+
			"write it again", s.where(), length, s.size-s.offset)
	}
	m := message{offset: s.offset, meta: int64(length), batches: len(s.batches)}
	meta := make([]byte, length)
	if err := s.read(meta); err != nil {
		return false, s.cut(err)
	}
	if err := m.parse(meta); err != nil {
		return false, fmt.Errorf("%s: %w; write the file again", s.where(), err)
	}
	if m.body < 0 || m.body > s.size-s.offset {
		return false, fmt.Errorf("%s claims %d bytes, and the file has %d more; it is cut off or corrupt, write it "+
			"again", s.where(), m.body, s.size-s.offset)
	}
	if (len(s.messages) == 0) != (m.kind == kindSchema) {
		return false, fmt.Errorf("%s is in the place of another part; write the file again", s.where())
	}
	if err := s.skip(m.body); err != nil {
		return false, s.cut(err)
	}
	if m.kind == kindBatch {
		s.batches = append(s.batches, len(s.messages))
	}
	s.messages = append(s.messages, m)
	return true, nil
}

// parse parses the metadata of a message.
func (m *message) parse(meta []byte) (err error) {
	defer guard(&err)
	t := root(meta)
	m.kind, m.body = t.int8(messageHeaderType, 0), t.int64(messageBody)
	if m.kind == kindSchema {
		return checkSchema(t)
	}
	newBudget().pairs(t, messageMetadata)
	header, ok := t.table(messageHeader)
	if !ok {
		return errors.New("its header is missing")
	}
	switch m.kind {
	case kindDictionary:
		m.id, m.delta = header.int64(dictionaryID), header.int8(dictionaryDelta, 0) != 0
		if header, ok = header.table(dictionaryData); !ok {
			return errors.New("its dictionary is missing")
		}
	case kindBatch:
	default:
		return fmt.Errorf("it is a message of kind %d, which is not of a table", m.kind)
	}
	if m.rows = header.int64(batchLength); m.rows < 0 || m.rows > MaxRows {
		return fmt.Errorf("it claims %d rows, at most %d are read", m.rows, MaxRows)
	}
	return nil
}

// finish checks what comes after the messages.
func (s *scanner) finish() error {
	if !s.file {
		_, err := s.in.Peek(1)
		if err == io.EOF {
			return nil
		}
		return cmp.Or(err, errors.New("there is more data after its end: several streams in one file, or a corrupt "+
			"one; write each to a file of its own"))
	}
	rest, err := io.ReadAll(io.LimitReader(s.in, maxMetadata+1))
	if err != nil {
		return err
	}
	if len(rest) > maxMetadata {
		return fmt.Errorf("its footer is larger than %d bytes; write the file again", maxMetadata)
	}
	return s.checkFooter(rest)
}

// checkFooter checks that the footer of a file lists the messages that were found.
func (s *scanner) checkFooter(rest []byte) (err error) {
	defer guard(&err)
	end := len(rest) - len(Magic) - 4
	if end < 0 || string(rest[end+4:]) != Magic {
		return errors.New("it has no footer: it is cut off, or was not closed; write it again")
	}
	length := int(binary.LittleEndian.Uint32(rest[end:]))
	if length < 8 || length > end {
		return fmt.Errorf("its footer claims %d bytes and has %d; it is corrupt, write it again", length, end)
	}
	footer := root(rest[end-length : end])
	_, dictionaries := footer.vector(footerDictionaries, 24)
	start, batches := footer.vector(footerBatches, 24)
	wrong := batches != len(s.batches) || dictionaries != len(s.messages)-1-batches
	for i := 0; i < batches && !wrong; i++ {
		block := start + flatbuffers.UOffsetT(24*i)
		m := s.messages[s.batches[i]]
		offset := footer.GetInt64(block)
		wrong = offset+8 != m.offset && offset+4 != m.offset || footer.GetInt64(block+16) != m.body
	}
	if wrong {
		return errors.New("its footer does not have the record batches that are there, in order; write the file again")
	}
	return nil
}
