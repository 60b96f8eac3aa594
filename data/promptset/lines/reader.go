// Package lines reads text files whose rows are objects. A format defines how to find a row in the text and its
// members; the package opens files, finds rows in their middle, and makes rows from the text.
package lines

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/quire/quire/data/promptset/record"
)

// MaxLine is the longest line of a JSONL file and record of a CSV file, in bytes.
const MaxLine = 64 << 20

// ErrTooLong reports that a row is longer than the limit. The reader is after the row then.
var ErrTooLong = fmt.Errorf("it is longer than %d MiB; split the row", MaxLine>>20)

// Reader reads a file of text.
type Reader struct {
	Buf    *bufio.Reader
	First  int64 // number of the line at which the last one starts, from 1
	Number int64 // number of the line at which it ends
	Offset int64 // offset of its end in the text
	Line   []byte
	close  func()
}

// Compressible returns the extensions of a text format: the given one alone and with those of compressed files.
func Compressible(extension string) []string {
	return []string{extension, extension + ".gz", extension + ".zst"}
}

// IsCompressed reports whether a file is compressed, by its name.
func IsCompressed(name string) bool {
	name = strings.ToLower(name)
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// ByteOrderMark may start a UTF-8 file and is not part of its text.
const ByteOrderMark = "\xef\xbb\xbf"

// Open reads the text of a file from its start.
func Open(name string, r io.Reader) (*Reader, error) {
	l := &Reader{close: func() {}}
	switch lower := strings.ToLower(name); {
	case strings.HasSuffix(lower, ".gz"):
		z, err := newPadded(r)
		if err != nil {
			return nil, &record.FileError{File: name, What: "not a readable gzip file", Err: err}
		}
		r = z
	case strings.HasSuffix(lower, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, &record.FileError{File: name, What: "not a readable zstd file", Err: err}
		}
		l.close = z.Close
		r = z
	}
	l.Buf = bufio.NewReaderSize(r, 64<<10)
	if head, _ := l.Buf.Peek(3); string(head) == ByteOrderMark {
		l.Buf.Discard(3)
		l.Offset = 3
	}
	return l, nil
}

// At reads the text of a file from a place in the middle, after so many lines, with a buffer of so many bytes.
func At(r io.Reader, number int64, buffer int) *Reader {
	return &Reader{Buf: bufio.NewReaderSize(r, buffer), Number: number, close: func() {}}
}

// lost describes where a file can no longer be read: at this row, if its rows have no lines.
func (l *Reader) lost(row int64) string {
	if l.First == 0 {
		return fmt.Sprintf("cannot read row %d", row)
	}
	return fmt.Sprintf("cannot read it after line %d", l.First-1)
}

func (l *Reader) Close() { l.close() }

// Next returns the next line that is not blank, valid until the next call; ErrTooLong leaves the reader after the
// line.
func (l *Reader) Next() ([]byte, error) {
	for {
		l.Line = l.Line[:0]
		l.Number++
		l.First = l.Number
		tooLong, err := l.Add(func([]byte) {})
		if err != nil {
			return nil, err
		}
		if tooLong {
			return nil, ErrTooLong
		}
		if line := bytes.TrimSpace(l.Line); len(line) > 0 {
			return line, nil
		}
	}
}

// Add adds the next line, with its newline, to the current one, and passes it to scan piece by piece. The current one
// is truncated if it is too long. At the end of the file the error is io.EOF, unless there is a line without a
// newline.
func (l *Reader) Add(scan func(piece []byte)) (tooLong bool, err error) {
	some := false
	for {
		piece, err := l.Buf.ReadSlice('\n')
		some = some || len(piece) > 0
		l.Offset += int64(len(piece))
		if len(l.Line)+len(piece) > MaxLine {
			tooLong = true
			l.Line = l.Line[:0]
		}
		l.Line = append(l.Line, piece...)
		scan(piece)
		if err == bufio.ErrBufferFull {
			continue
		}
		if err == io.EOF && some {
			err = nil
		}
		return tooLong, err
	}
}

// Skip skips bytes that were looked at.
func (l *Reader) Skip(n int) {
	n, _ = l.Buf.Discard(n)
	l.Offset += int64(n)
}

// Ahead returns the text that is in the buffer.
func (l *Reader) Ahead() []byte {
	ahead, _ := l.Buf.Peek(l.Buf.Size()) // as much as there is
	return ahead
}
