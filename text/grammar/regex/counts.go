package regex

import (
	"fmt"
	"regexp"
	"regexp/syntax"
	"strconv"
	"strings"
	"unicode/utf8"
)

// parse parses a pattern of RE2's syntax and additions of Python's: counts above 1,000, {,n}, \uXXXX, \UXXXXXXXX, and
// \Z for \z. A part that is repeated by counts becomes a group, whose name has the counts in repeats.
func parse(pattern string) (re *syntax.Regexp, repeats map[string][2]int, err error) {
	r := &rewriter{pattern: pattern, repeats: map[string][2]int{}}
	text, err := r.rewrite()
	if err != nil {
		return nil, nil, err
	}
	re, err = syntax.Parse(text, syntax.Perl)
	return re, r.repeats, err
}

// rewriter writes a pattern as package syntax reads it. It leaves errors of the pattern to that package.
type rewriter struct {
	pattern string
	to      []byte
	repeats map[string][2]int
}

func (r *rewriter) rewrite() (string, error) {
	var groups []int // where the open groups start
	last := -1       // where the last part begins that may be repeated
	for i := 0; i < len(r.pattern); {
		rest, begins := r.pattern[i:], len(r.to)
		if n, lo, hi, err := counts(rest); n > 0 {
			if err != nil {
				return "", err
			}
			if last < 0 {
				return "", fmt.Errorf("a count without anything before it: {%s", rest[1:n])
			}
			i += n
			if strings.HasPrefix(r.pattern[i:], "?") { // that it would rather match less says nothing of the whole
				i++
			} else if n, _, _, _ := counts(r.pattern[i:]); n > 0 || i < len(r.pattern) &&
				strings.Contains("*+", r.pattern[i:i+1]) {
				return "", fmt.Errorf("a quantifier after a count: %.10s", r.pattern[i:])
			}
			r.repeat(last, lo, hi)
			last = -1
			continue
		}
		switch rest[0] {
		case '(':
			groups, last = append(groups, begins), -1
			n := 1
			if strings.HasPrefix(rest, "(?") { // flags and a name up to their end, so that no count is looked for there
				if n = strings.IndexAny(rest, ":>)"); n < 0 {
					n = len(rest) - 1
				}
				if n++; rest[n-1] == ')' {
					groups = groups[:len(groups)-1]
				}
			}
			r.to = append(r.to, rest[:n]...)
			i += n
		case ')':
			if last = -1; len(groups) > 0 {
				last, groups = groups[len(groups)-1], groups[:len(groups)-1]
			}
			r.to = append(r.to, ')')
			i++
		case '[':
			last = begins
			i += r.class(rest)
		case '\\':
			if last = begins; strings.HasPrefix(rest, `\Q`) {
				quoted, _, _ := strings.Cut(rest[2:], `\E`)
				_, n := utf8.DecodeLastRuneInString(quoted)
				r.to = append(r.to, regexp.QuoteMeta(quoted[:len(quoted)-n])...)
				last = len(r.to)
				r.to = append(r.to, regexp.QuoteMeta(quoted[len(quoted)-n:])...)
				i += min(len(`\Q\E`)+len(quoted), len(rest))
				continue
			}
			i += r.escape(rest)
		case '|', '*', '+', '?':
			last = -1
			r.to = append(r.to, rest[0])
			i++
		default:
			_, n := utf8.DecodeRuneInString(rest)
			last = begins
			r.to = append(r.to, rest[:n]...)
			i += n
		}
	}
	return string(r.to), nil
}

// counts reads a quantifier {n}, {n,}, {n,m}, or Python's {,m}. Its length is 0 if there is none.
func counts(s string) (length, lo, hi int, err error) {
	if strings.HasPrefix(s, "{,") {
		length, lo, hi, err = braces("{0" + s[1:])
		return max(0, length-1), lo, hi, err
	}
	return braces(s)
}

// repeat makes a named group of what was written from a position on.
func (r *rewriter) repeat(from, lo, hi int) {
	name := "repeat" + strconv.Itoa(len(r.repeats))
	for strings.Contains(r.pattern, name) {
		name += "_"
	}
	r.repeats[name] = [2]int{lo, hi}
	repeated := string(r.to[from:])
	r.to = append(append(append(r.to[:from], "(?P<"+name+">"...), repeated...), ')')
}

// class writes a class, and returns how many bytes it has.
func (r *rewriter) class(rest string) int {
	n := 1
	r.to = append(r.to, '[')
	for _, first := range []string{"^", "]"} {
		if strings.HasPrefix(rest[n:], first) {
			r.to = append(r.to, first...)
			n++
		}
	}
	for n < len(rest) {
		switch {
		case rest[n] == '\\':
			n += r.escape(rest[n:])
			continue
		case strings.HasPrefix(rest[n:], "[:"):
			if end := strings.Index(rest[n:], ":]"); end > 0 {
				r.to = append(r.to, rest[n:n+end+2]...)
				n += end + 2
				continue
			}
		}
		r.to = append(r.to, rest[n])
		if n++; rest[n-1] == ']' {
			break
		}
	}
	return n
}

// escape writes what follows a backslash, and returns its length in bytes.
func (r *rewriter) escape(rest string) int {
	n := 2
	switch {
	case len(rest) == 1:
		n = 1
	case rest[1] == 'Z':
		r.to = append(r.to, `\z`...)
		return n
	case rest[1] == 'u' || rest[1] == 'U':
		if digits := map[byte]int{'u': 4, 'U': 8}[rest[1]]; len(rest) >= 2+digits {
			if _, err := strconv.ParseUint(rest[2:2+digits], 16, 32); err == nil {
				r.to = append(append(append(r.to, `\x{`...), rest[2:2+digits]...), '}')
				return 2 + digits
			}
		}
	case strings.HasPrefix(rest[2:], "{") && strings.Contains("pPx", rest[1:2]):
		if end := strings.IndexByte(rest, '}'); end > 0 {
			n = end + 1
		}
	case rest[1] == 'p' || rest[1] == 'P':
		n = min(3, len(rest))
	default:
		_, size := utf8.DecodeRuneInString(rest[1:])
		n = 1 + size
	}
	r.to = append(r.to, rest[:n]...)
	return n
}
