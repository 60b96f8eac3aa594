package gguf

import (
	_ "embed"
	"encoding/binary"
	"math/bits"
	"sync"
)

// The encodings below store numbers in groups of 4 or 8, each of which is a row of a table defined by the format.

// grids.bin has the tables as the gguf package packs them (scripts/oracle/gguf_goldens.py writes it).
//
//go:embed grids.bin
var gridFile []byte

// grid returns a table: size bytes of the file at offset from, whose elements index values, with perByte of them in a
// byte.
func grid(from, size, perByte int, values ...float32) func() []float32 {
	return sync.OnceValue(func() []float32 {
		table := make([]float32, 0, size*perByte)
		for _, b := range gridFile[from : from+size] {
			for i := range perByte {
				table = append(table, values[int(b>>(i*8/perByte))&(1<<bits.Len(uint(len(values)-1))-1)])
			}
		}
		return table
	})
}

var (
	gridIQ2XXS = grid(0, 512, 4, 8, 25, 43, 0)
	gridIQ2XS  = grid(512, 1024, 4, 8, 25, 43, 0)
	gridIQ2S   = grid(1536, 2048, 4, 8, 25, 43, 0)
	gridIQ3XXS = grid(3584, 512, 2, 4, 12, 20, 28, 36, 44, 52, 62)
	gridIQ3S   = grid(4096, 1024, 2, 1, 3, 5, 7, 9, 11, 13, 15)
	gridIQ1    = grid(5120, 4096, 4, -1, 0, 1, 0)
)

// signed multiplies a row by a scale, and negates the elements whose bit is set in signs.
func signed(to []float32, scale float32, row []float32, signs byte) {
	for i, x := range row {
		if to[i] = scale * x; signs>>i&1 != 0 {
			to[i] = -to[i]
		}
	}
}

// evenSigns adds an eighth bit to seven so that the number of ones is even.
func evenSigns(seven uint32) byte {
	b := byte(seven & 127)
	return b | byte(bits.OnesCount8(b)&1)<<7
}

// nibble returns the i-th 4-bit number, the low bits of a byte first.
func nibble(b []byte, i int) byte { return b[i/2] >> (i % 2 * 4) & 15 }

// IQ2_XXS: super-scale f16; for each 32 numbers 4 rows of 8, 4 x 7 signs and a scale of 4 bits.
func decodeIQ2XXS(to []float32, block []byte) {
	d, table := half(block), gridIQ2XXS()
	for g := range 32 {
		run := block[2+g/4*8:]
		more := binary.LittleEndian.Uint32(run[4:])
		scale := float32(d*(0.5+float32(more>>28))) * 0.25
		signed(to[8*g:], scale, table[8*int(run[g%4]):][:8], evenSigns(more>>(g%4*7)))
	}
}

// IQ2_XS: super-scale f16, 32 x (9 bits of a row of 8, 7 signs), 16 scales of 4 bits.
func decodeIQ2XS(to []float32, block []byte) {
	d, table := half(block), gridIQ2XS()
	for g := range 32 {
		q := binary.LittleEndian.Uint16(block[2+2*g:])
		scale := float32(d*(0.5+float32(nibble(block[66:], g/2)))) * 0.25
		signed(to[8*g:], scale, table[8*int(q&511):][:8], evenSigns(uint32(q>>9)))
	}
}

// IQ2_S: super-scale f16, low bytes of 32 rows of 8, 256 signs, 32 x 2 high bits of rows, 16 scales of 4 bits.
func decodeIQ2S(to []float32, block []byte) {
	d, table := half(block), gridIQ2S()
	for g := range 32 {
		row := int(block[2+g]) | int(block[66+g/4]>>(g%4*2)&3)<<8
		scale := float32(d*(0.5+float32(nibble(block[74:], g/2)))) * 0.25
		signed(to[8*g:], scale, table[8*row:][:8], block[34+g])
	}
}

// IQ3_XXS: super-scale f16, 64 rows of 4; for each 32 numbers 4 x 7 signs and a scale of 4 bits.
func decodeIQ3XXS(to []float32, block []byte) {
	d, table := half(block), gridIQ3XXS()
	for g := range 32 {
		more := binary.LittleEndian.Uint32(block[66+g/4*4:])
		scale, signs := float32(d*(0.5+float32(more>>28)))*0.5, evenSigns(more>>(g%4*7))
		for h := range 2 {
			signed(to[8*g+4*h:], scale, table[4*int(block[2+2*g+h]):][:4], signs>>(4*h))
		}
	}
}

// IQ3_S: super-scale f16, low bytes of 64 rows of 4, 64 ninth bits, 256 signs, 8 scales of 4 bits.
func decodeIQ3S(to []float32, block []byte) {
	d, table := half(block), gridIQ3S()
	for k := range 64 {
		row := int(block[2+k]) | int(block[66+k/8]>>(k%8)&1)<<8
		scale := d * float32(1+2*nibble(block[106:], k/8))
		signed(to[4*k:], scale, table[4*row:][:4], block[74+k/2]>>(k%2*4))
	}
}

// shifted adds an eighth to each element of a row, or subtracts it if down, and multiplies by a scale.
func shifted(to []float32, scale float32, row []float32, down bool) {
	delta := float32(0.125)
	if down {
		delta = -delta
	}
	for i, x := range row {
		to[i] = scale * (x + delta)
	}
}

// IQ1_S: super-scale f16, low bytes of 32 rows of 8; for each 32 numbers 4 x 3 high bits of rows, a scale of 3 bits
// and the shift.
func decodeIQ1S(to []float32, block []byte) {
	d, table := half(block), gridIQ1()
	for g := range 32 {
		more := binary.LittleEndian.Uint16(block[34+g/4*2:])
		row := int(block[2+g]) | int(more>>(g%4*3)&7)<<8
		shifted(to[8*g:], d*float32(2*(more>>12&7)+1), table[8*row:][:8], more&0x8000 != 0)
	}
}

// IQ1_M: low bytes of 32 rows of 8, 32 x (3 high bits of the row, a shift), 16 scales of 3 bits. Each group of four
// scales leaves four bits, which hold a part of the super-scale f16.
func decodeIQ1M(to []float32, block []byte) {
	scales := func(i int) uint16 { return binary.LittleEndian.Uint16(block[48+2*i:]) }
	d := halfToFloat[scales(0)>>12|scales(1)>>12<<4|scales(2)>>12<<8|scales(3)>>12<<12]
	table := gridIQ1()
	for g := range 32 {
		more := nibble(block[32:], g)
		row, scale := int(block[g])|int(more&7)<<8, scales(g/8)>>(g/2%4*3)&7
		shifted(to[8*g:], d*float32(2*scale+1), table[8*row:][:8], more&8 != 0)
	}
}
