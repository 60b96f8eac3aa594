package pretoken

import (
	"sync"
	"unicode"
)

// Hugging Face tokenizers classify characters by Unicode 16, and Go by the version of its standard library (15 in Go
// 1.26). These are the characters that are letters or numbers only in the newer version.
var (
	newLetters = &unicode.RangeTable{
		R16: []unicode.Range16{{Lo: 0x1c89, Hi: 0x1c8a, Stride: 1}, {Lo: 0xa7cb, Hi: 0xa7cd, Stride: 1},
			{Lo: 0xa7da, Hi: 0xa7dc, Stride: 1}},
		R32: []unicode.Range32{
			{Lo: 0x105c0, Hi: 0x105f3, Stride: 1}, {Lo: 0x10d4a, Hi: 0x10d65, Stride: 1},
			{Lo: 0x10d6f, Hi: 0x10d85, Stride: 1},
			{Lo: 0x10ec2, Hi: 0x10ec4, Stride: 1}, {Lo: 0x11380, Hi: 0x11389, Stride: 1},
			{Lo: 0x1138b, Hi: 0x1138b, Stride: 1},
			{Lo: 0x1138e, Hi: 0x1138e, Stride: 1}, {Lo: 0x11390, Hi: 0x113b5, Stride: 1},
			{Lo: 0x113b7, Hi: 0x113b7, Stride: 1},
			{Lo: 0x113d1, Hi: 0x113d1, Stride: 1}, {Lo: 0x113d3, Hi: 0x113d3, Stride: 1},
			{Lo: 0x11bc0, Hi: 0x11be0, Stride: 1},
			{Lo: 0x13460, Hi: 0x143fa, Stride: 1}, {Lo: 0x16100, Hi: 0x1611d, Stride: 1},
			{Lo: 0x16d40, Hi: 0x16d6c, Stride: 1},
			{Lo: 0x18cff, Hi: 0x18cff, Stride: 1}, {Lo: 0x1e5d0, Hi: 0x1e5ed, Stride: 1},
			{Lo: 0x1e5f0, Hi: 0x1e5f0, Stride: 1},
			{Lo: 0x2ebf0, Hi: 0x2ee5d, Stride: 1},
		},
	}
	newNumbers = &unicode.RangeTable{
		R32: []unicode.Range32{
			{Lo: 0x10d40, Hi: 0x10d49, Stride: 1}, {Lo: 0x116d0, Hi: 0x116e3, Stride: 1},
			{Lo: 0x11bf0, Hi: 0x11bf9, Stride: 1},
			{Lo: 0x16130, Hi: 0x16139, Stride: 1}, {Lo: 0x16d70, Hi: 0x16d79, Stride: 1},
			{Lo: 0x1ccf0, Hi: 0x1ccf9, Stride: 1},
			{Lo: 0x1e5f1, Hi: 0x1e5fa, Stride: 1},
		},
	}
	// The Digits pre-tokenizer uses the Rust standard library, which is one more version ahead.
	newDigits = &unicode.RangeTable{
		R32: []unicode.Range32{{Lo: 0x11de0, Hi: 0x11de9, Stride: 1}, {Lo: 0x16ff4, Hi: 0x16ff6, Stride: 1}},
	}
)

// class is the kind of a character in the split patterns.
type class uint8

const (
	other  class = iota // [^\s\p{L}\p{N}]
	letter              // \p{L}
	number              // \p{N}
	space               // \s
)

func classifySlow(r rune) class {
	switch {
	case unicode.IsLetter(r) || unicode.Is(newLetters, r):
		return letter
	case unicode.IsNumber(r) || unicode.Is(newNumbers, r):
		return number
	case unicode.IsSpace(r):
		return space
	}
	return other
}

// classTable holds the class of the characters below U+10000.
var classTable = sync.OnceValue(func() *[0x10000]class {
	t := new([0x10000]class)
	for r := range t {
		t[r] = classifySlow(rune(r))
	}
	return t
})

func isDigit(r rune) bool {
	return unicode.IsNumber(r) || unicode.Is(newNumbers, r) || unicode.Is(newDigits, r)
}

// IsWordChar is \w of Rust's regex crate (UTS 18, annex C), which the flag single_word of added tokens uses.
func IsWordChar(r rune) bool {
	return r == '_' || r == 0x200C || r == 0x200D || unicode.IsLetter(r) || listed(newWordChars, r) ||
		unicode.In(r, unicode.M, unicode.Nd, unicode.Nl, unicode.Pc, unicode.Other_Alphabetic)
}
