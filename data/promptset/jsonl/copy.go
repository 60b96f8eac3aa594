package jsonl

import (
	"bufio"
	"bytes"
	"io"

	"github.com/quire/quire/data/promptset/lines"
)

// CopyRows copies JSONL up to the end of its n-th row, byte for byte, and reads little more; with n = 0 it copies
// everything.
func CopyRows(to io.Writer, from io.Reader, n int64) error {
	if n == 0 {
		_, err := io.Copy(to, from)
		return err
	}
	l, err := lines.Open("", from)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 64<<10)
	if l.Offset > 0 {
		out.WriteString(lines.ByteOrderMark) // a bufio.Writer keeps its error
	}
	for rows := int64(0); rows < n; {
		l.Line = l.Line[:0]
		tooLong, err := l.Add(func(piece []byte) { out.Write(piece) })
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if tooLong || len(bytes.TrimSpace(l.Line)) > 0 {
			rows++
		}
	}
	return out.Flush()
}
