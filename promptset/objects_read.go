package promptset

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
)

// maxLine is the longest line of a JSONL file and record of a CSV file, in bytes.
const maxLine = 64 << 20

// ErrTooLong says that a row is longer than what is read. The reader is after it.
var ErrTooLong = fmt.Errorf("it is longer than %d MiB; split the row", maxLine>>20)

// LineReader reads a file of text.
type LineReader struct {
	buf    *bufio.Reader
	first  int64 // line at which the last one begins, from 1
	number int64 // line at which it ends
	offset int64 // bytes of text up to its end
	line   []byte
	close  func()
}

// IsCompressed says whether the name of a file tells that it is compressed.
func IsCompressed(name string) bool {
	return strings.HasSuffix(name, ".gz") || strings.HasSuffix(name, ".zst")
}

// byteOrderMark may begin a file of UTF-8, and is no part of its text.
const byteOrderMark = "\xef\xbb\xbf"

// OpenLines reads the text of a file from its start.
func OpenLines(name string, r io.Reader) (*LineReader, error) {
	l := &LineReader{close: func() {}}
	switch {
	case strings.HasSuffix(name, ".gz"):
		z, err := newPadded(r)
		if err != nil {
			return nil, &FileError{File: name, What: "not a readable gzip file", Err: err}
		}
		r = z
	case strings.HasSuffix(name, ".zst"):
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(256<<20))
		if err != nil {
			return nil, &FileError{File: name, What: "not a readable zstd file", Err: err}
		}
		l.close = z.Close
		r = z
	}
	l.buf = bufio.NewReaderSize(r, 64<<10)
	if head, _ := l.buf.Peek(3); string(head) == byteOrderMark {
		l.buf.Discard(3)
		l.offset = 3
	}
	return l, nil
}

// linesFrom reads the text of a file behind so many lines.
func linesFrom(r io.Reader, number int64) *LineReader {
	return &LineReader{buf: bufio.NewReaderSize(r, 64<<10), number: number, close: func() {}}
}

func (l *LineReader) Close() { l.close() }

// Next returns the next line that is not blank, valid until the next call; ErrTooLong leaves the reader after the
// line.
func (l *LineReader) Next() ([]byte, error) {
	for {
		l.line = l.line[:0]
		l.number++
		l.first = l.number
		tooLong, err := l.add(func([]byte) {})
		if err != nil {
			return nil, err
		}
		if tooLong {
			return nil, ErrTooLong
		}
		if line := bytes.TrimSpace(l.line); len(line) > 0 {
			return line, nil
		}
	}
}

// add adds the next line, with its end, to the current one, and shows it to scan piece by piece. The current one is cut
// where it is too long. At the end of the file the error is io.EOF, unless there is an unended line.
func (l *LineReader) add(scan func(piece []byte)) (tooLong bool, err error) {
	some := false
	for {
		piece, err := l.buf.ReadSlice('\n')
		some = some || len(piece) > 0
		l.offset += int64(len(piece))
		if len(l.line)+len(piece) > maxLine {
			tooLong = true
			l.line = l.line[:0]
		}
		l.line = append(l.line, piece...)
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

// skip passes over bytes that were looked at.
func (l *LineReader) skip(n int) {
	n, _ = l.buf.Discard(n)
	l.offset += int64(n)
}

// Ahead is the text that is in the buffer.
func (l *LineReader) Ahead() []byte {
	ahead, _ := l.buf.Peek(l.buf.Size()) // what there is
	return ahead
}
