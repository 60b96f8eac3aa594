package tokenizer

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// bertNormalizer is the normalizer of BERT's tokenizers.
func bertNormalizer(clean, chinese, strip, lower bool) normalizer {
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

// cleanText drops control characters and writes all white space as spaces.
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

// lowercase lowers each character by itself, as Rust does: İ becomes two, and a final sigma is not seen.
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

// whitespaceOnly cuts at white space, and drops it.
func whitespaceOnly(out []piece, p piece) ([]piece, error) {
	return removed.apply(out, p, spansOf(p.text, unicode.IsSpace), false), nil
}

// bertWords cuts at white space, and sets punctuation apart.
func bertWords(out []piece, p piece) ([]piece, error) {
	words, err := whitespaceOnly(nil, p)
	for _, w := range words {
		out = isolated.apply(out, w, spansOf(w.text, isBertPunctuation), false)
	}
	return out, err
}

// wordsAndSigns is the pre-tokenizer Whitespace: the matches of \w+|[^\w\s]+.
func wordsAndSigns(out []piece, p piece) ([]piece, error) {
	kind := func(r rune) int {
		switch {
		case isWordChar(r):
			return 1
		case unicode.IsSpace(r):
			return 0
		}
		return 2
	}
	start, last := 0, 0
	add := func(end int) {
		if last != 0 {
			out = append(out, piece{p.text[start:end], p.atStart && start == 0})
		}
	}
	for i, r := range p.text {
		if k := kind(r); k != last {
			add(i)
			start, last = i, k
		}
	}
	add(len(p.text))
	return out, nil
}

// spansOf returns a span for each character that is says to be one.
func spansOf(s string, is func(rune) bool) []span {
	var spans []span
	for i, r := range s {
		if is(r) {
			spans = append(spans, span{i, i + utf8.RuneLen(r)})
		}
	}
	return spans
}

func isASCIIPunctuation(r rune) bool {
	return r >= '!' && r <= '/' || r >= ':' && r <= '@' || r >= '[' && r <= '`' || r >= '{' && r <= '~'
}
