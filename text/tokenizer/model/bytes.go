package model

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// ToByteLevel writes the bytes of s in the byte-level alphabet.
func ToByteLevel(s string) string {
	out := make([]byte, 0, 2*len(s))
	for i := 0; i < len(s); i++ {
		out = utf8.AppendRune(out, byteToRune[s[i]])
	}
	return string(out)
}

// byteToRune is GPT-2's byte-level alphabet: printable bytes are themselves, all others are characters from U+0100 on.
// runeToByte is its inverse.
var byteToRune, runeToByte = func() (to [256]rune, from map[rune]byte) {
	from = make(map[rune]byte, 256)
	next := rune(0x100)
	for b := range to {
		r := rune(b)
		if printable := b >= '!' && b <= '~' || b >= 0xA1 && b <= 0xAC || b >= 0xAE; !printable {
			r = next
			next++
		}
		to[b] = r
		from[r] = byte(b)
	}
	return to, from
}()

// ByteTokens are the ids of the tokens <0x00> to <0xFF>, which stand for the bytes of characters outside a vocabulary.
// An id is -1 if the vocabulary lacks the token.
type ByteTokens [256]int32

func NewByteTokens(vocab map[string]int32) *ByteTokens {
	t := new(ByteTokens)
	for b := range t {
		id, ok := vocab[byteToken(byte(b))]
		if !ok {
			id = -1
		}
		t[b] = id
	}
	return t
}

func byteToken(b byte) string {
	const hex = "0123456789ABCDEF"
	return "<0x" + string(hex[b>>4]) + string(hex[b&15]) + ">"
}

// have reports whether there is a token for each byte of s.
func (t *ByteTokens) have(s string) bool {
	if t == nil {
		return false
	}
	for i := 0; i < len(s); i++ {
		if t[s[i]] < 0 {
			return false
		}
	}
	return true
}

func (t *ByteTokens) append(ids []int32, s string) []int32 {
	for i := 0; i < len(s); i++ {
		ids = append(ids, t[s[i]])
	}
	return ids
}

// AppendByteLevel appends the bytes of a token in the byte-level alphabet. A token with any other character stands for
// itself.
func AppendByteLevel(to []byte, token string) []byte {
	n := len(to)
	for _, r := range token {
		b, ok := runeToByte[r]
		if !ok {
			return append(to[:n], token...)
		}
		to = append(to, b)
	}
	return to
}

// ByteOfToken is the byte of a token <0xNN>.
func ByteOfToken(token string) (byte, bool) {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return byte(b), true
		}
	}
	return 0, false
}
