package cli

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// fitted prints lines for people: tables, messages. On a terminal it breaks wider lines between two words, and indents
// the rest to the line's last column. Elsewhere it does not change lines.
type fitted struct {
	to io.Writer

	mu   sync.Mutex
	line []byte // the part of the line written so far
}

func NewFitted(to io.Writer) io.Writer {
	if !IsTerminal(to) {
		return to
	}
	return &fitted{to: to}
}

// Write writes the complete lines. The rest waits until its line ends.
func (f *fitted) Write(b []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.line = append(f.line, b...)
	text, rest := "", f.line
	if end := strings.LastIndexByte(string(f.line), '\n') + 1; end > 0 {
		text, rest = string(f.line[:end]), f.line[end:]
	}
	f.line = append([]byte(nil), rest...)
	if text == "" {
		return len(b), nil
	}
	if _, err := io.WriteString(f.to, fit(text, TerminalWidth(f.to))); err != nil {
		return 0, err
	}
	return len(b), nil
}

// gap stands between two columns of a table.
var gap = regexp.MustCompile(`\S {2,}`)

// fit breaks the lines of a text that are wider than width.
func fit(text string, width int) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line, ended := strings.CutSuffix(line, "\n")
		for utf8.RuneCountInString(line) > width {
			column := lastColumn(line, width)
			end := lastSpace(line, column, width)
			if end < 0 {
				break
			}
			out.WriteString(strings.TrimRight(line[:end], " ") + "\n")
			line = strings.Repeat(" ", utf8.RuneCountInString(line[:column])) + strings.TrimLeft(line[end:], " ")
		}
		out.WriteString(line)
		if ended {
			out.WriteString("\n")
		}
	}
	return out.String()
}

// lastColumn is the start of the last column that leaves half of the width to its text; without columns it is the start
// of the text.
func lastColumn(line string, width int) int {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	for _, match := range gap.FindAllStringIndex(line, -1) {
		if utf8.RuneCountInString(line[:match[1]]) <= width/2 {
			begin = match[1]
		}
	}
	return begin
}

// lastSpace is the last space after column that leaves a line of at most width in front of it or, if a word is longer
// than that, the first one. It is -1 if there is none.
func lastSpace(line string, column, width int) int {
	found := -1
	for index := range len(line) {
		if index <= column || line[index] != ' ' {
			continue
		}
		if found >= 0 && utf8.RuneCountInString(line[:index]) > width {
			break
		}
		found = index
	}
	return found
}
