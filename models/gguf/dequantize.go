package gguf

import (
	"encoding/binary"
	"math"

	"github.com/quire/quire/backend/blocks"
)

// halfToFloat maps every float16 bit pattern to its float32 value.
var halfToFloat = func() *[1 << 16]float32 {
	var table [1 << 16]float32
	for i := range table {
		table[i] = blocks.Half(uint16(i))
	}
	return &table
}()

func half(b []byte) float32 { return halfToFloat[binary.LittleEndian.Uint16(b)] }

func decodeF32(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(binary.LittleEndian.Uint32(src[4*i:]))
	}
}

func decodeF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = half(src[2*i:])
	}
}

func decodeBF16(dst []float32, src []byte) {
	for i := range dst {
		dst[i] = math.Float32frombits(uint32(binary.LittleEndian.Uint16(src[2*i:])) << 16)
	}
}
