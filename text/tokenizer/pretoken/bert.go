package pretoken

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is the normalizer of BERT's tokenizers.
func bertNormalizer(clean, chinese, strip, lower bool) Normalizer {
	return func(s string) string {
		if clean {
			s = cleanText(s)
		}
		if chinese {
			s = spaceChinese(s)
		}
		if strip {
			s = dropRunes(norm.NFD.String(s), isNonspacing)
		}
		if lower {
			s = lowercase(s)
		}
		return s
	}
}

func dropRunes(s string, drop func(rune) bool) string {
	return strings.Map(func(r rune) rune {
		if drop(r) {
			return -1
		}
		return r
	}, s)
}

// cleanText drops control characters and replaces all white space by spaces.
func cleanText(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\t' || r == '\n' || r == '\r':
			return ' '
		case r == 0 || r == utf8.RuneError || isOther(r):
			return -1
		case unicode.IsSpace(r):
			return ' '
		}
		return r
	}, s)
}

// spaceChinese puts spaces around Chinese characters.
func spaceChinese(s string) string {
	var out strings.Builder
	for _, r := range s {
		if isChinese(r) {
			out.WriteByte(' ')
			out.WriteRune(r)
			out.WriteByte(' ')
		} else {
			out.WriteRune(r)
		}
	}
	return out.String()
}

func isChinese(r rune) bool {
	return r >= 0x4E00 && r <= 0x9FFF || r >= 0x3400 && r <= 0x4DBF || r >= 0x20000 && r <= 0x2A6DF ||
		r >= 0x2A700 && r <= 0x2B73F || r >= 0x2B740 && r <= 0x2B81F || r >= 0x2B920 && r <= 0x2CEAF ||
		r >= 0xF900 && r <= 0xFAFF || r >= 0x2F800 && r <= 0x2FA1F
}

// lowercase lowers each character by itself, as Rust does: İ becomes two characters, and there is no final sigma.
func lowercase(s string) string {
	var out strings.Builder
	for _, r := range s {
		if r == 'İ' {
			out.WriteString("i̇")
		} else {
			out.WriteRune(lowerRune(r))
		}
	}
	return out.String()
}
