package promptset

import (
	"bufio"
	"bytes"
	"io"
)

// CopyRows copies JSONL up to the end of its n-th row, byte for byte, and reads little more; 0 copies all of it.
func CopyRows(to io.Writer, from io.Reader, n int64) error {
	if n == 0 {
		_, err := io.Copy(to, from)
		return err
	}
	l, err := OpenLines("", from)
	if err != nil {
		return err
	}
	out := bufio.NewWriterSize(to, 64<<10)
	if l.offset > 0 {
		out.WriteString(byteOrderMark) // an error of out stays
	}
	for rows := int64(0); rows < n; {
		l.line = l.line[:0]
		tooLong, err := l.add(func(piece []byte) { out.Write(piece) })
		if err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		if tooLong || len(bytes.TrimSpace(l.line)) > 0 {
			rows++
		}
	}
	return out.Flush()
}
