package gguf

import (
	"fmt"
	"slices"
	"strings"
)

// Type is the encoding of a tensor, with ggml's numbering.
type Type uint32

// The encodings that can be read.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30
)

// codec describes one encoding: blockBytes bytes hold blockLen elements.
type codec struct {
	name                 string
	blockLen, blockBytes int
	decode               func(dst []float32, src []byte) // whole blocks
}

var codecs = map[Type]codec{
	F32:  {"F32", 1, 4, decodeF32},
	F16:  {"F16", 1, 2, decodeF16},
	BF16: {"BF16", 1, 2, decodeBF16},
	Q4_0: {"Q4_0", 32, 18, decodeQ4_0},
	Q4_1: {"Q4_1", 32, 20, decodeQ4_1},
	Q5_0: {"Q5_0", 32, 22, decodeQ5_0},
	Q5_1: {"Q5_1", 32, 24, decodeQ5_1},
	Q8_0: {"Q8_0", 32, 34, decodeQ8_0},
	Q4_K: {"Q4_K", 256, 144, decodeQ4K},
	Q5_K: {"Q5_K", 256, 176, decodeQ5K},
	Q6_K: {"Q6_K", 256, 210, decodeQ6K},
}

// unsupportedNames are ggml's names of encodings that are known but not read, for error messages.
var unsupportedNames = map[Type]string{
	9: "Q8_1", 10: "Q2_K", 11: "Q3_K", 15: "Q8_K", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S",
	20: "IQ4_NL",
	21: "IQ3_S", 22: "IQ2_S", 23: "IQ4_XS", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 29: "IQ1_M",
	34: "TQ1_0", 35: "TQ2_0", 39: "MXFP4", 40: "NVFP4", 41: "Q1_0",
}

// String is ggml's name of the encoding.
func (t Type) String() string {
	if c, ok := codecs[t]; ok {
		return c.name
	}
	if name, ok := unsupportedNames[t]; ok {
		return name
	}
	return fmt.Sprintf("number %d", uint32(t))
}

// Block returns how many elements a block of the encoding holds and its size in bytes; zeros for one that is not
// supported.
func (t Type) Block() (elements, bytes int) {
	c := codecs[t]
	return c.blockLen, c.blockBytes
}

// Dequantize decodes whole blocks of type t from src into dst. len(dst) must be a multiple of the block length and src
// exactly the bytes of that many blocks.
func Dequantize(t Type, dst []float32, src []byte) error {
	c, ok := codecs[t]
	if !ok {
		return fmt.Errorf("GGUF type %s is not supported (supported: %s)", t, supportedTypes())
	}
	if len(dst)%c.blockLen != 0 || len(src) != len(dst)/c.blockLen*c.blockBytes {
		return fmt.Errorf("%d bytes of %s do not decode to %d elements", len(src), c.name, len(dst))
	}
	c.decode(dst, src)
	return nil
}

func supportedTypes() string {
	var names []string
	for _, c := range codecs {
		names = append(names, c.name)
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}
