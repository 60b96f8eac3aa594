package models

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/quire/quire/models/internal/mapped"
)

// identityPart is a piece of what makes a checkpoint: text that counts whole, and weights that count by samples.
type identityPart struct {
	header []byte
	data   [][]byte
}

// sampleBytes is taken at the start, the middle and the end of each tensor.
const sampleBytes = 1 << 10

// FingerPrint identifies the checkpoint's content, independent of path and time: a SHA-256 in hex over its config,
// tokenizer, tensor tables, and samples of every tensor. It reads 3 kB a tensor, so it tells models and fine-tunes
// apart in milliseconds, but it is no proof against a forger. It is empty where the files cannot be read any more; Read
// says so then.
func (c *Checkpoint) FingerPrint() string {
	h := sha256.New()
	write := func(b []byte) {
		var size [8]byte
		binary.LittleEndian.PutUint64(size[:], uint64(len(b)))
		h.Write(size[:])
		h.Write(b)
	}
	err := mapped.Guard(func() error {
		for _, part := range c.identity {
			write(part.header)
			for _, data := range part.data {
				if len(data) <= 3*sampleBytes {
					write(data)
					continue
				}
				middle := len(data) / 2
				write(data[:sampleBytes])
				write(data[middle : middle+sampleBytes])
				write(data[len(data)-sampleBytes:])
			}
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
