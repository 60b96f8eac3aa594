package lines

import (
	"bufio"
	"compress/gzip"
	"io"
)

// padded reads concatenated gzip streams followed by zeros, as tapes and block devices pad files. The programs gzip
// and Python's gzip skip the zeros. compress/gzip takes them for the header of another stream.
type padded struct {
	from *bufio.Reader
	*gzip.Reader
}

func newPadded(r io.Reader) (*padded, error) {
	p := &padded{from: bufio.NewReaderSize(r, 64<<10)}
	var err error
	if p.Reader, err = gzip.NewReader(p.from); err == nil {
		p.Multistream(false)
	}
	return p, err
}

func (p *padded) Read(b []byte) (int, error) {
	for {
		n, err := p.Reader.Read(b)
		if n > 0 || err != io.EOF {
			if err == io.EOF { // end of this stream
				err = nil
			}
			return n, err
		}
		if err := p.skipZeros(); err != nil {
			return 0, err
		}
		if err := p.Reset(p.from); err != nil {
			return 0, err
		}
		p.Multistream(false)
	}
}

// skipZeros skips zeros. The error is io.EOF at the end of the file.
func (p *padded) skipZeros() error {
	for {
		b, err := p.from.ReadByte()
		if err != nil {
			return err
		}
		if b != 0 {
			return p.from.UnreadByte()
		}
	}
}
