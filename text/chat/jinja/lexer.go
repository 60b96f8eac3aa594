package jinja

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

type kind uint8

const (
	tokEOF kind = iota
	tokData
	tokVarBegin
	tokVarEnd
	tokBlockBegin
	tokBlockEnd
	tokName
	tokString
	tokInt
	tokFloat
	tokOp
)

type token struct {
	kind kind
	text string // of a string: unescaped
	line int
}

func (t token) String() string {
	switch t.kind {
	case tokEOF:
		return "the end of the template"
	case tokData:
		return "template text"
	case tokVarBegin:
		return "'{{'"
	case tokVarEnd:
		return "the end of the expression"
	case tokBlockBegin:
		return "'{%'"
	case tokBlockEnd:
		return "the end of the statement"
	}
	return strconv.Quote(t.text)
}

// SyntaxError is a template that cannot be parsed.
type SyntaxError struct {
	Line    int
	Message string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Message) }

// lexer splits a template into tokens. Jinja's trim_blocks and lstrip_blocks are on: a statement or comment removes the
// line break after it, and the blanks before it if there is nothing else before it on the line.
type lexer struct {
	src       string
	offset    int
	line      int
	lineStart bool // offset is at the beginning of a line
	tokens    []token
}

func lex(src string) ([]token, error) {
	src = strings.ReplaceAll(strings.ReplaceAll(src, "\r\n", "\n"), "\r", "\n")
	src = strings.TrimSuffix(src, "\n")
	l := &lexer{src: src, line: 1, lineStart: true}
	for l.offset < len(l.src) {
		if err := l.root(); err != nil {
			return nil, err
		}
	}
	l.emit(tokEOF, "")
	return l.tokens, nil
}

func (l *lexer) emit(k kind, text string) {
	l.tokens = append(l.tokens, token{k, text, l.line})
}

func (l *lexer) fail(format string, args ...any) error {
	return &SyntaxError{l.line, fmt.Sprintf(format, args...)}
}

// advance moves over the next n bytes.
func (l *lexer) advance(n int) {
	if n == 0 {
		return
	}
	l.line += strings.Count(l.src[l.offset:l.offset+n], "\n")
	l.offset += n
	l.lineStart = l.src[l.offset-1] == '\n'
}

// text emits the template text up to end, the start of a tag with the given sign, and moves there.
func (l *lexer) text(end int, sign byte, strip bool) {
	text := l.src[l.offset:end]
	shown := text
	switch {
	case sign == '-':
		shown = strings.TrimRightFunc(text, unicode.IsSpace)
	case sign != '+' && strip:
		from := strings.LastIndexByte(text, '\n') + 1
		if (from > 0 || l.lineStart) && strings.TrimSpace(text[from:]) == "" {
			shown = text[:from]
		}
	}
	if shown != "" {
		l.emit(tokData, shown)
	}
	l.advance(len(text))
}

// sign returns the '-' or '+' after the two bytes of a tag's opening, if any.
func (l *lexer) sign(open int) byte {
	if open+2 < len(l.src) && (l.src[open+2] == '-' || l.src[open+2] == '+') {
		return l.src[open+2]
	}
	return 0
}

// root lexes the text up to the next tag, and the tag.
func (l *lexer) root() error {
	open := l.offset
	for {
		i := strings.IndexByte(l.src[open:], '{')
		if i < 0 || open+i+1 >= len(l.src) {
			l.text(len(l.src), 0, false)
			return nil
		}
		open += i
		if c := l.src[open+1]; c == '%' || c == '{' || c == '#' {
			break
		}
		open++
	}
	sign := l.sign(open)
	skip := 2
	if sign != 0 {
		skip = 3
	}
	switch l.src[open+1] {
	case '{':
		if sign == '+' { // not a sign of the tag but a unary plus
			sign, skip = 0, 2
		}
		l.text(open, sign, false)
		l.emit(tokVarBegin, "")
		l.advance(skip)
		return l.code("}}", tokVarEnd)
	case '#':
		l.text(open, sign, true)
		end := strings.Index(l.src[l.offset+2:], "#}")
		if end < 0 {
			return l.fail("a comment is not closed")
		}
		body := l.src[l.offset : l.offset+2+end]
		l.advance(len(body))
		l.close(body[len(body)-1])
		return nil
	}
	l.text(open, sign, true)
	if n := rawTag(l.src[l.offset+skip:], "raw"); n > 0 {
		l.advance(skip + n)
		return l.raw()
	}
	l.emit(tokBlockBegin, "")
	l.advance(skip)
	return l.code("%}", tokBlockEnd)
}

// close moves over the two bytes of a closing and, depending on the sign before them, over the space after them.
func (l *lexer) close(sign byte) {
	l.advance(2)
	switch {
	case sign == '-':
		rest := l.src[l.offset:]
		l.advance(len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace)))
	case sign != '+' && l.offset < len(l.src) && l.src[l.offset] == '\n':
		l.advance(1)
	}
}

// rawTag returns the length of "raw %}" (or of another word) up to its "%}" or sign. It is 0 if s is a different tag.
func rawTag(s, word string) int {
	t := strings.TrimLeftFunc(s, unicode.IsSpace)
	if !strings.HasPrefix(t, word) {
		return 0
	}
	t = strings.TrimLeftFunc(t[len(word):], unicode.IsSpace)
	if strings.HasPrefix(t, "%}") || strings.HasPrefix(t, "-%}") || strings.HasPrefix(t, "+%}") {
		return len(s) - len(t)
	}
	return 0
}

// raw lexes from the end of "{% raw " to the end of its endraw.
func (l *lexer) raw() error {
	if l.src[l.offset] == '-' {
		l.advance(1)
		l.close('-')
	} else {
		l.advance(strings.Index(l.src[l.offset:], "%}") + 2) // trim_blocks leaves raw alone
	}
	for open := l.offset; ; open += 2 {
		i := strings.Index(l.src[open:], "{%")
		if i < 0 {
			return l.fail("a raw block is not closed")
		}
		open += i
		sign := l.sign(open)
		skip := 2
		if sign != 0 {
			skip = 3
		}
		n := rawTag(l.src[open+skip:], "endraw")
		if n == 0 {
			continue
		}
		l.text(open, sign, true)
		l.advance(skip + n)
		end := l.src[l.offset]
		if end != '%' {
			l.advance(1)
		}
		l.close(end)
		return nil
	}
}

var operators = []string{"**", "//", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{", "}",
	">", "<", "=", ".", ":", "|", ",", ";"}

// code lexes an expression or statement up to its closing.
func (l *lexer) code(closing string, end kind) error {
	var open []byte // open brackets: the closing does not count within them
	for {
		if l.offset >= len(l.src) {
			return l.fail("a tag is not closed by %q", closing)
		}
		rest := l.src[l.offset:]
		if n := len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace)); n > 0 {
			l.advance(n)
			continue
		}
		if len(open) == 0 {
			sign := rest[0]
			switch {
			case strings.HasPrefix(rest, closing):
				l.emit(end, "")
				if end == tokVarEnd {
					l.advance(2)
				} else {
					l.close(0)
				}
				return nil
			case (sign == '-' || sign == '+' && end == tokBlockEnd) && strings.HasPrefix(rest[1:], closing):
				l.emit(end, "")
				l.advance(1)
				l.close(sign)
				return nil
			}
		}
		if err := l.item(rest, &open); err != nil {
			return err
		}
	}
}

// item lexes one name, literal or operator.
func (l *lexer) item(rest string, open *[]byte) error {
	c := rest[0]
	if c >= '0' && c <= '9' {
		return l.number(rest)
	}
	if c == '"' || c == '\'' {
		n := 1
		for ; n < len(rest) && rest[n] != c; n++ {
			if rest[n] == '\\' {
				n++
			}
		}
		if n >= len(rest) {
			return l.fail("a string is not closed")
		}
		text, err := unescape(rest[1:n])
		if err != nil {
			return l.fail("%v", err)
		}
		l.emit(tokString, text)
		l.advance(n + 1)
		return nil
	}
	if r, _ := utf8.DecodeRuneInString(rest); r == '_' || unicode.IsLetter(r) {
		n := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && !unicode.In(r, unicode.L, unicode.N, unicode.M)
		})
		if n < 0 {
			n = len(rest)
		}
		l.emit(tokName, rest[:n])
		l.advance(n)
		return nil
	}
	for _, op := range operators {
		if !strings.HasPrefix(rest, op) {
			continue
		}
		switch op {
		case "(", "[", "{":
			*open = append(*open, "()[]{}"[strings.Index("()[]{}", op)+1])
		case ")", "]", "}":
			if n := len(*open); n == 0 || (*open)[n-1] != op[0] {
				return l.fail("unexpected %q", op)
			}
			*open = (*open)[:len(*open)-1]
		}
		l.emit(tokOp, op)
		l.advance(len(op))
		return nil
	}
	r, _ := utf8.DecodeRuneInString(rest)
	return l.fail("unexpected character %q", r)
}

func (l *lexer) number(rest string) error {
	digits := func(i int) int {
		for i < len(rest) && (rest[i] >= '0' && rest[i] <= '9' || rest[i] == '_' && i+1 < len(rest) &&
			rest[i+1] >= '0' && rest[i+1] <= '9') {
			i++
		}
		return i
	}
	isDigit := func(i int) bool { return i < len(rest) && rest[i] >= '0' && rest[i] <= '9' }
	n, k := digits(0), tokInt
	if len(rest) > 1 && rest[0] == '0' && strings.ContainsRune("xXoObB", rune(rest[1])) {
		for n = 2; n < len(rest) && strings.ContainsRune("0123456789abcdefABCDEF_", rune(rest[n])); n++ {
		}
	} else {
		if n < len(rest) && rest[n] == '.' && isDigit(n+1) {
			n, k = digits(n+1), tokFloat
		}
		if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			e := n + 1
			if e < len(rest) && (rest[e] == '+' || rest[e] == '-') {
				e++
			}
			if isDigit(e) {
				n, k = digits(e), tokFloat
			}
		}
	}
	l.emit(k, strings.ReplaceAll(rest[:n], "_", ""))
	l.advance(n)
	return nil
}

// unescape reads the escapes of a Python string literal.
func unescape(s string) (string, error) {
	if !strings.Contains(s, `\`) {
		return s, nil
	}
	var out strings.Builder
	simple := map[byte]string{'n': "\n", 't': "\t", 'r': "\r", 'a': "\a", 'b': "\b", 'f': "\f", 'v': "\v", '\\': `\`,
		'\'': "'", '"': `"`, '\n': ""}
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		c := s[i]
		if text, ok := simple[c]; ok {
			out.WriteString(text)
			continue
		}
		if width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; width > 0 {
			if i+width >= len(s) {
				return "", fmt.Errorf("the escape \\%c is cut short", c)
			}
			code, err := strconv.ParseUint(s[i+1:i+1+width], 16, 32)
			if err != nil || code > unicode.MaxRune {
				return "", fmt.Errorf("the escape \\%c%s is no character", c, s[i+1:i+1+width])
			}
			out.WriteRune(rune(code))
			i += width
			continue
		}
		if c == 'N' {
			return "", errors.New("the escape \\N{...}, a character by its name, is not supported: " +
				"write the character itself")
		}
		if c >= '0' && c <= '7' {
			n := 1
			for n < 3 && i+n < len(s) && s[i+n] >= '0' && s[i+n] <= '7' {
				n++
			}
			code, _ := strconv.ParseUint(s[i:i+n], 8, 32)
			out.WriteRune(rune(code))
			i += n - 1
			continue
		}
		out.WriteByte('\\') // unknown escapes stay as they are
		out.WriteByte(c)
	}
	return out.String(), nil
}
