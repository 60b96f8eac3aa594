package models

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"github.com/quire/quire/models/internal/mapped"
)

// samples are the ranges of a tensor's data that count.
func samplesOf(t *tensor) []Range {
	size := int64(len(t.data))
	if size <= 3*sampleBytes {
		return []Range{{0, size}}
	}
	return []Range{{0, sampleBytes}, {size / 2, size/2 + sampleBytes}, {size - sampleBytes, size}}
}

// bring fetches the samples of all tensors of a file in one call.
func (p identityPart) bring() error {
	if p.need == nil {
		return nil
	}
	var ranges []Range
	for _, t := range p.tensors {
		for _, r := range samplesOf(t) {
			ranges = append(ranges, Range{t.offset + r.From, t.offset + r.To})
		}
	}
	return p.need(ranges...)
}

// sampleBytes are hashed at the start, the middle and the end of each tensor.
const sampleBytes = 1 << 10

// FingerPrint identifies the checkpoint's content, independent of path and time: a SHA-256 in hex over its config,
// tokenizer, tensor tables, and samples of every tensor. It reads 3 kB per tensor, so it distinguishes models and
// fine-tunes apart in milliseconds, but it does not protect against forgery. It is empty if the files can no longer be
// read; Read then returns the error.
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
			if err := part.bring(); err != nil {
				return err
			}
			write(part.header)
			for _, t := range part.tensors {
				for _, r := range samplesOf(t) {
					write(t.data[r.From:r.To])
				}
			}
		}
		return nil
	})
	if err != nil {
		return ""
	}
	return hex.EncodeToString(h.Sum(nil))
}
