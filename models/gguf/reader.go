package gguf

import (
	"encoding/binary"
	"fmt"

	"github.com/quire/quire/internal/plural"
)

// reader walks a byte slice; after the first read beyond its end it is failed and returns zeros.
type reader struct {
	data   []byte
	pos    int
	failed bool
}

func errTruncated(r *reader, what string) error {
	return fmt.Errorf("it ends within %s (at %s); the file is truncated or damaged", what,
		plural.Count(len(r.data), "byte"))
}

func (r *reader) bytes(n uint64) []byte {
	if r.failed || n > uint64(len(r.data)-r.pos) {
		r.failed = true
		return nil
	}
	b := r.data[r.pos : r.pos+int(n)]
	r.pos += int(n)
	return b
}

func (r *reader) u32() uint32 {
	if b := r.bytes(4); b != nil {
		return binary.LittleEndian.Uint32(b)
	}
	return 0
}

func (r *reader) u64() uint64 {
	if b := r.bytes(8); b != nil {
		return binary.LittleEndian.Uint64(b)
	}
	return 0
}

func (r *reader) str() []byte { return r.bytes(r.u64()) }
