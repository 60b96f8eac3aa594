package tokenizer

import "strings"

// utf8Next looks at the first UTF-8 character of b. It returns the number of bytes it takes and whether they are a
// whole valid character. For invalid input n is the length of the maximal subpart (Unicode chapter 3, "U+FFFD
// Substitution of Maximal Subparts"), which becomes one U+FFFD, as Rust's from_utf8_lossy and Python's errors="replace"
// have it. short is true when b ends inside a character that more bytes could still complete.
func utf8Next[B []byte | string](b B) (n int, valid, short bool) {
	c := b[0]
	lo, hi := byte(0x80), byte(0xBF) // range of the second byte
	need := 0
	switch {
	case c < 0x80:
		return 1, true, false
	case c >= 0xC2 && c <= 0xDF:
		need = 1
	case c >= 0xE0 && c <= 0xEF:
		need = 2
		if c == 0xE0 {
			lo = 0xA0
		} else if c == 0xED {
			hi = 0x9F
		}
	case c >= 0xF0 && c <= 0xF4:
		need = 3
		if c == 0xF0 {
			lo = 0x90
		} else if c == 0xF4 {
			hi = 0x8F
		}
	default:
		return 1, false, false
	}
	for i := 1; i <= need; i++ {
		if i >= len(b) {
			return i, false, true
		}
		if b[i] < lo || b[i] > hi {
			return i, false, false
		}
		lo, hi = 0x80, 0xBF
	}
	return need + 1, true, false
}

const replacementChar = "\uFFFD"

// appendLossy appends the characters of b to out, invalid bytes as U+FFFD. With final false it stops before an
// incomplete character at the end of b and returns how many bytes it used; with final true it uses all of b.
func appendLossy(out *strings.Builder, b []byte, final bool) (used int) {
	start := 0
	for i := 0; i < len(b); {
		n, valid, short := utf8Next(b[i:])
		if valid {
			i += n
			continue
		}
		out.Write(b[start:i])
		if short && !final {
			return i
		}
		out.WriteString(replacementChar)
		i += n
		start = i
	}
	out.Write(b[start:])
	return len(b)
}

// validUTF8 returns s with every maximal invalid subpart replaced by U+FFFD.
func validUTF8(s string) string {
	for i := 0; i < len(s); {
		n, valid, _ := utf8Next(s[i:])
		if !valid {
			var out strings.Builder
			out.Grow(len(s) + 8)
			appendLossy(&out, []byte(s), true)
			return out.String()
		}
		i += n
	}
	return s
}
