package pretoken

import "unicode/utf8"

// A scanner returns the length in bytes of the first piece of a non-empty s. Scanners are hand-written matchers of the
// split patterns that nearly every model uses. Each pattern covers any text, so that "Isolated" splitting is to call
// the scanner repeatedly. The test compares each scanner with its pattern in a regular expression engine.
type scanner func(t *[0x10000]class, s string) int

// The patterns that have a scanner, as tokenizer.json spells them.
const (
	PatternGPT2 = `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`

	PatternLlama3 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`

	PatternQwen2 = `(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`
)

var scanners = map[string]scanner{
	PatternGPT2:   scanGPT2,
	PatternLlama3: func(t *[0x10000]class, s string) int { return scanLlama3(t, s, 3) },
	PatternQwen2:  func(t *[0x10000]class, s string) int { return scanLlama3(t, s, 1) },
}

func classAt(t *[0x10000]class, s string, i int) (class, int) {
	c := s[i]
	if c < utf8.RuneSelf {
		return t[c], 1
	}
	r, n := utf8.DecodeRuneInString(s[i:])
	if r < 0x10000 {
		return t[r], n
	}
	return classifySlow(r), n
}

// run returns the end of the run of class c that starts at i (i itself if there is none), and how many characters it
// has.
func run(t *[0x10000]class, s string, i int, c class) (end, chars int) {
	for i < len(s) {
		k, n := classAt(t, s, i)
		if k != c {
			break
		}
		i += n
		chars++
	}
	return i, chars
}

// whitespace matches \s+(?!\S)|\s+ at the start of s: a run of whitespace, without its last character if something
// follows and the run has more than one.
func whitespace(t *[0x10000]class, s string) int {
	end, chars := run(t, s, 0, space)
	if end == len(s) || chars == 1 {
		return end
	}
	_, n := utf8.DecodeLastRuneInString(s[:end])
	return end - n
}

func scanGPT2(t *[0x10000]class, s string) int {
	if s[0] == '\'' && len(s) > 1 {
		switch s[1] {
		case 's', 't', 'm', 'd':
			return 2
		}
		if len(s) > 2 {
			switch s[1:3] {
			case "re", "ve", "ll":
				return 3
			}
		}
	}
	start := 0
	if s[0] == ' ' && len(s) > 1 {
		start = 1
	}
	k, _ := classAt(t, s, start)
	if k == space {
		return whitespace(t, s)
	}
	end, _ := run(t, s, start, k)
	return end
}

// contraction matches (?i:'s|'t|'re|'ve|'m|'ll|'d) at the start of s. It is 0 if there is no match. U+017F, the long s,
// folds to s.
func contraction(s string) int {
	if s[0] != '\'' || len(s) < 2 {
		return 0
	}
	switch s[1] | 0x20 {
	case 's', 't', 'm', 'd':
		return 2
	}
	if len(s) > 2 {
		a, b := s[1]|0x20, s[2]|0x20
		if (a == 'r' || a == 'v') && b == 'e' || a == 'l' && b == 'l' {
			return 3
		}
		if s[1:3] == "ſ" {
			return 3
		}
	}
	return 0
}

func isNewline(c byte) bool { return c == '\r' || c == '\n' }

// scanLlama3 matches PatternLlama3 with up to digits digits per piece.
func scanLlama3(t *[0x10000]class, s string, digits int) int {
	if n := contraction(s); n > 0 {
		return n
	}
	k, n := classAt(t, s, 0)
	switch {
	case k == letter:
		end, _ := run(t, s, 0, letter)
		return end
	case k != number && !isNewline(s[0]):
		if end, chars := run(t, s, n, letter); chars > 0 {
			return end
		}
	}
	if k == number {
		end := 0
		for i := 0; i < digits && end < len(s); i++ {
			c, n := classAt(t, s, end)
			if c != number {
				break
			}
			end += n
		}
		return end
	}
	start := 0
	if s[0] == ' ' && len(s) > 1 {
		start = 1
	}
	if end, chars := run(t, s, start, other); chars > 0 {
		for end < len(s) && isNewline(s[end]) {
			end++
		}
		return end
	}
	end, _ := run(t, s, 0, space)
	for i := end - 1; i >= 0; i-- { // \s*[\r\n]+ ends at the last line break of the run
		if isNewline(s[i]) {
			return i + 1
		}
	}
	return whitespace(t, s)
}
