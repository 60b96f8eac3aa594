package jinja

import (
	"errors"
	"slices"
	"strings"
	"unicode"

	"github.com/quire/quire/text/chat/jinja/value"
)

// filterWordWrap is Python's textwrap, line by line.
func filterWordWrap(meter *value.Meter, v any, p *value.Params) (any, error) {
	w := wrapper{width: p.Int("width", 79), long: p.Bool("break_long_words", true)}
	newline := p.Any("wrapstring", nil)
	w.hyphens = p.Bool("break_on_hyphens", true)
	if err := p.Done(); err != nil {
		return nil, err
	}
	by, ok := newline.(string)
	switch {
	case newline == nil:
		by = "\n"
	case !ok:
		return nil, errors.New("wrapstring must be a string")
	}
	s := value.Printed(meter, v)
	if err := meter.Reserve(len(s) * value.ItemBytes); err != nil {
		return nil, err
	}
	var lines []string
	for _, line := range value.SplitLines(s, false) {
		if w.width < 1 && line != "" {
			return nil, errors.New("width must be at least 1")
		}
		lines = append(lines, strings.Join(w.wrap([]rune(line)), by))
	}
	if err := meter.Reserve(len(lines) * len(by)); err != nil {
		return nil, err
	}
	return meter.Text(strings.Join(lines, by))
}

type wrapper struct {
	width         int
	long, hyphens bool
}

// wrap splits a line into lines of at most the width.
func (w *wrapper) wrap(line []rune) (lines []string) {
	var chunks [][]rune
	for len(line) > 0 || len(chunks) > 0 {
		if len(chunks) == 0 {
			chunks, line = w.chunks(line), nil
		}
		if len(lines) > 0 && isBlank(chunks[0]) {
			chunks = chunks[1:]
		}
		var current [][]rune
		n := 0
		for len(chunks) > 0 && n+len(chunks[0]) <= w.width {
			n += len(chunks[0])
			current, chunks = append(current, chunks[0]), chunks[1:]
		}
		if len(chunks) > 0 && len(chunks[0]) > w.width {
			switch {
			case w.long:
				end := w.breakAt(chunks[0], w.width-n)
				current = append(current, chunks[0][:end])
				chunks[0] = chunks[0][end:]
			case len(current) == 0:
				current, chunks = append(current, chunks[0]), chunks[1:]
			}
		}
		if n := len(current); n > 0 && isBlank(current[n-1]) {
			current = current[:n-1]
		}
		if len(current) > 0 {
			lines = append(lines, string(slices.Concat(current...)))
		}
	}
	return lines
}

func isBlank(chunk []rune) bool { return value.StripChars(string(chunk), nil, true, true) == "" }

// breakAt returns the position at which to break a word that is too long for a line with this much room.
func (w *wrapper) breakAt(word []rune, room int) int {
	if w.hyphens {
		for i := min(room, len(word)) - 1; i > 0; i-- {
			if word[i] == '-' {
				if slices.ContainsFunc(word[:i], func(c rune) bool { return c != '-' }) {
					return i + 1
				}
				break
			}
		}
	}
	return room
}

// chunks splits a line into unbreakable parts: words, parts of words up to a hyphen, dashes, and space.
func (w *wrapper) chunks(s []rune) (all [][]rune) {
	for from := 0; from < len(s); {
		end := from + 1
		switch {
		case isSpace(s[from]):
			for end < len(s) && isSpace(s[end]) {
				end++
			}
		case w.hyphens && isDash(s, from):
			for s[end] == '-' {
				end++
			}
		default:
			for end < len(s) && !isSpace(s[end]) && !(w.hyphens && isDash(s, end)) {
				if end++; w.hyphens && end > from+1 && isHyphen(s, end-1) {
					break
				}
			}
		}
		all = append(all, s[from:end])
		from = end
	}
	return all
}

func isSpace(c rune) bool { return strings.ContainsRune("\t\n\v\f\r ", c) }

func isWord(c rune) bool { return c == '_' || unicode.IsLetter(c) || unicode.IsNumber(c) }

func isWordLetter(c rune) bool { return isWord(c) && !unicode.IsDigit(c) }

// isDash reports whether dashes between words begin at a position.
func isDash(s []rune, index int) bool {
	if index == 0 || !isWord(s[index-1]) && !strings.ContainsRune(`!"'&.,?`, s[index-1]) {
		return false
	}
	end := index
	for end < len(s) && s[end] == '-' {
		end++
	}
	return end >= index+2 && end < len(s) && isWord(s[end])
}

// isHyphen reports whether a word may be broken after a hyphen at a position.
func isHyphen(s []rune, index int) bool {
	letter := func(i int) bool { return i >= 0 && i < len(s) && isWordLetter(s[i]) }
	hyphen := func(i int) bool { return i >= 0 && i < len(s) && s[i] == '-' }
	if !hyphen(index) || !(letter(index-1) && (letter(index-2) || hyphen(index-2) && letter(index-3))) {
		return false
	}
	return letter(index+1) && (letter(index+2) || hyphen(index+2) && letter(index+3))
}
