package gguf

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/backend/blocks"
)

// Type is the encoding of a tensor, with ggml's numbering.
type Type uint32

// The supported encodings.
const (
	F32  Type = 0
	F16  Type = 1
	Q4_0 Type = 2
	Q4_1 Type = 3
	Q5_0 Type = 6
	Q5_1 Type = 7
	Q8_0 Type = 8
	Q2_K Type = 10
	Q3_K Type = 11
	Q4_K Type = 12
	Q5_K Type = 13
	Q6_K Type = 14
	BF16 Type = 30

	IQ4_NL Type = 20
	IQ4_XS Type = 23
	MXFP4  Type = 39

	IQ2_XXS Type = 16
	IQ2_XS  Type = 17
	IQ3_XXS Type = 18
	IQ1_S   Type = 19
	IQ3_S   Type = 21
	IQ2_S   Type = 22
	IQ1_M   Type = 29
)

// codec describes one encoding: blockBytes bytes hold blockLen elements.
type codec struct {
	name                 string
	blockLen, blockBytes int
	decode               func(dst []float32, src []byte) // for floats, and for blocks that are only decoded to floats
	format               blocks.Format                   // for all other encodings
	unpack               func(to *blocks.Rows, src []byte)
}

var codecs = map[Type]codec{
	F32:  {"F32", 1, 4, decodeF32, blocks.Format{}, nil},
	F16:  {"F16", 1, 2, decodeF16, blocks.Format{}, nil},
	BF16: {"BF16", 1, 2, decodeBF16, blocks.Format{}, nil},
	Q4_0: {"Q4_0", 32, 18, nil, blocks.Q4_0, unpackQ4_0},
	Q4_1: {"Q4_1", 32, 20, nil, blocks.Q4_1, unpackQ4_1},
	Q5_0: {"Q5_0", 32, 22, nil, blocks.Q5_0, unpackQ5_0},
	Q5_1: {"Q5_1", 32, 24, nil, blocks.Q5_1, unpackQ5_1},
	Q8_0: {"Q8_0", 32, 34, nil, blocks.Q8_0, unpackQ8_0},
	Q4_K: {"Q4_K", 256, 144, nil, blocks.Q4_K, unpackQ4K},
	Q5_K: {"Q5_K", 256, 176, nil, blocks.Q5_K, unpackQ5K},
	Q6_K: {"Q6_K", 256, 210, nil, blocks.Q6_K, unpackQ6K},

	Q2_K:   {"Q2_K", 256, 84, decodeBlocks(256, 84, decodeQ2K), blocks.Format{}, nil},
	Q3_K:   {"Q3_K", 256, 110, decodeBlocks(256, 110, decodeQ3K), blocks.Format{}, nil},
	IQ4_NL: {"IQ4_NL", 32, 18, nil, blocks.IQ4_NL, unpackQ4_0},
	IQ4_XS: {"IQ4_XS", 256, 136, nil, blocks.IQ4_XS, unpackIQ4XS},
	MXFP4:  {"MXFP4", 32, 17, nil, blocks.MXFP4, unpackMXFP4},

	IQ2_XXS: {"IQ2_XXS", 256, 66, decodeBlocks(256, 66, decodeIQ2XXS), blocks.Format{}, nil},
	IQ2_XS:  {"IQ2_XS", 256, 74, decodeBlocks(256, 74, decodeIQ2XS), blocks.Format{}, nil},
	IQ3_XXS: {"IQ3_XXS", 256, 98, decodeBlocks(256, 98, decodeIQ3XXS), blocks.Format{}, nil},
	IQ1_S:   {"IQ1_S", 256, 50, decodeBlocks(256, 50, decodeIQ1S), blocks.Format{}, nil},
	IQ3_S:   {"IQ3_S", 256, 110, decodeBlocks(256, 110, decodeIQ3S), blocks.Format{}, nil},
	IQ2_S:   {"IQ2_S", 256, 82, decodeBlocks(256, 82, decodeIQ2S), blocks.Format{}, nil},
	IQ1_M:   {"IQ1_M", 256, 56, decodeBlocks(256, 56, decodeIQ1M), blocks.Format{}, nil},
}

// unsupportedNames has ggml's names of encodings that are known but not supported, for error messages.
var unsupportedNames = map[Type]string{
	9: "Q8_1", 15: "Q8_K", 24: "I8", 25: "I16", 26: "I32", 27: "I64", 28: "F64", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4",
	41: "Q1_0",
}

// String returns ggml's name of the encoding.
func (t Type) String() string {
	if c, ok := codecs[t]; ok {
		return c.name
	}
	if name, ok := unsupportedNames[t]; ok {
		return name
	}
	return fmt.Sprintf("number %d", uint32(t))
}

// Block returns the number of elements of a block and its size in bytes; zeros if the encoding is not supported.
func (t Type) Block() (elements, bytes int) {
	c := codecs[t]
	return c.blockLen, c.blockBytes
}

// Dequantize decodes whole blocks of type t from src into dst. len(dst) must be a multiple of the block length, and
// src must have exactly the bytes of that many blocks.
func Dequantize(t Type, dst []float32, src []byte) error {
	c, ok := codecs[t]
	if !ok {
		return fmt.Errorf("GGUF type %s is not supported (supported: %s)", t, supportedTypes())
	}
	if len(dst)%c.blockLen != 0 || len(src) != len(dst)/c.blockLen*c.blockBytes {
		return fmt.Errorf("%d bytes of %s do not decode to %d elements", len(src), c.name, len(dst))
	}
	if c.decode != nil {
		c.decode(dst, src)
		return nil
	}
	const some = 16 * blocks.SuperSize // few enough to stay in the cache
	rows := blocks.NewRows(c.format, 1, min(some, len(dst)))
	for ; len(dst) > 0; dst = dst[rows.In:] {
		if len(dst) < rows.In {
			rows = blocks.NewRows(c.format, 1, len(dst))
		}
		n := rows.In / c.blockLen * c.blockBytes
		c.unpack(rows, src[:n])
		rows.FloatsTo(dst[:rows.In])
		src = src[n:]
	}
	return nil
}

// Format returns the format of the encoding's blocks; the zero format for floats.
func (t Type) Format() blocks.Format { return codecs[t].format }

// Unpack fills rows of the encoding's [Type.Format] with whole blocks of type t.
func Unpack(t Type, to *blocks.Rows, src []byte) error {
	c, ok := codecs[t]
	if !ok || c.unpack == nil || to.Format != c.format {
		return fmt.Errorf("GGUF type %s is not blocks of %s", t, to.Format)
	}
	if len(to.Quants)%c.blockLen != 0 || len(src) != len(to.Quants)/c.blockLen*c.blockBytes {
		return fmt.Errorf("%d bytes of %s do not unpack to %d elements", len(src), c.name, len(to.Quants))
	}
	c.unpack(to, src)
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
