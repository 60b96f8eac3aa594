package cli

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"
)

// fitted is where lines are printed that people read: tables, messages. On a terminal it breaks lines that are wider
// between two words, and indents what follows to the line's last column. Elsewhere lines stay as they are.
type fitted struct {
	to io.Writer

	mu   sync.Mutex
	line []byte // as far as it is written
}

func NewFitted(to io.Writer) io.Writer {
	if !IsTerminal(to) {
		return to
	}
	return &fitted{to: to}
}

// Write writes the lines that end in b. What follows the last of them waits for its end.
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

// lastColumn is where the last column of a line begins that leaves half of the width to its text; without columns it is
// where the text begins.
func lastColumn(line string, width int) int {
	begin := len(line) - len(strings.TrimLeft(line, " "))
	for _, at := range gap.FindAllStringIndex(line, -1) {
		if utf8.RuneCountInString(line[:at[1]]) <= width/2 {
			begin = at[1]
		}
	}
	return begin
}

// lastSpace is the last space after column that leaves a line of at most width in front of it or, if a word is longer
// than that, the first one. It is -1 where there is none.
func lastSpace(line string, column, width int) int {
	found := -1
	for at := range len(line) {
		if at <= column || line[at] != ' ' {
			continue
		}
		if found >= 0 && utf8.RuneCountInString(line[:at]) > width {
			break
		}
		found = at
	}
	return found
}
