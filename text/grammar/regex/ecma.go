package regex

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	maxDepth  = 250
	maxRepeat = 1 << 20
	lastCased = 0x1FFFF // no character after it has upper and lower case
)

// parseECMA parses a pattern as ECMAScript does with flag u, or without it for syntax that only that allows: escapes of
// characters that need none, and braces that are not a quantifier.
func parseECMA(pattern string) (*syntax.Regexp, error) {
	if !utf8.ValidString(pattern) {
		return nil, fmt.Errorf("it is not UTF-8")
	}
	p := &ecma{rest: pattern}
	re, err := p.alternatives(0)
	if err == nil && p.rest != "" {
		err = fmt.Errorf("an unmatched )")
	}
	return re, err
}

type ecma struct {
	rest string
	fold bool // (?i: is open
}

func (p *ecma) take(prefix string) bool {
	rest, ok := strings.CutPrefix(p.rest, prefix)
	if ok {
		p.rest = rest
	}
	return ok
}

func (p *ecma) next() rune {
	r, n := utf8.DecodeRuneInString(p.rest)
	p.rest = p.rest[n:]
	return r
}

func (p *ecma) alternatives(depth int) (*syntax.Regexp, error) {
	if depth > maxDepth {
		return nil, fmt.Errorf("groups nest deeper than %d", maxDepth)
	}
	all := &syntax.Regexp{Op: syntax.OpAlternate}
	for {
		list := &syntax.Regexp{Op: syntax.OpConcat}
		for p.rest != "" && p.rest[0] != '|' && p.rest[0] != ')' {
			re, err := p.term(depth)
			if err != nil {
				return nil, err
			}
			list.Sub = append(list.Sub, re)
		}
		all.Sub = append(all.Sub, list)
		if !p.take("|") {
			return all, nil
		}
	}
}

// term is an atom with its quantifier.
func (p *ecma) term(depth int) (*syntax.Regexp, error) {
	re, err := p.atom(depth)
	if err != nil {
		return nil, err
	}
	lo, hi := 1, 1
	switch {
	case p.take("*"):
		lo, hi = 0, -1
	case p.take("+"):
		lo, hi = 1, -1
	case p.take("?"):
		lo, hi = 0, 1
	default:
		n, min, max, err := braces(p.rest)
		if err != nil {
			return nil, err
		}
		if n == 0 {
			return re, nil
		}
		p.rest, lo, hi = p.rest[n:], min, max
	}
	p.take("?") // a lazy quantifier matches the same texts
	if re.Op == opAhead || re.Op == opNotAhead {
		return nil, fmt.Errorf("a quantifier after a look-ahead")
	}
	if re.Op == syntax.OpBeginText || re.Op == syntax.OpEndText {
		return nil, fmt.Errorf("a quantifier after an anchor")
	}
	if n, _, _, _ := braces(p.rest); n > 0 || p.rest != "" && strings.IndexByte("*+?", p.rest[0]) >= 0 {
		return nil, fmt.Errorf("a quantifier after a quantifier")
	}
	return &syntax.Regexp{Op: syntax.OpRepeat, Min: lo, Max: hi, Sub: []*syntax.Regexp{re}}, nil
}

// braces reads a quantifier {n}, {n,} or {n,m}. Its length is 0 if there is none.
func braces(s string) (length, lo, hi int, err error) {
	end := strings.IndexByte(s, '}')
	if end < 0 || s[0] != '{' {
		return 0, 0, 0, nil
	}
	first, last, ranged := strings.Cut(s[1:end], ",")
	digits := func(s string) bool { return strings.Trim(s, "0123456789") == "" }
	if first == "" || !digits(first) || !digits(last) {
		return 0, 0, 0, nil
	}
	number := func(s string) int {
		n, e := strconv.Atoi(s)
		if e != nil || n > maxRepeat {
			err = fmt.Errorf("the count %s is above %d", s, maxRepeat)
		}
		return n
	}
	lo = number(first)
	hi = lo
	if ranged && last == "" {
		hi = -1
	} else if ranged {
		hi = number(last)
		if hi < lo {
			err = fmt.Errorf("the counts of {%s} are in the wrong order", s[1:end])
		}
	}
	return end + 1, lo, hi, err
}

func (p *ecma) atom(depth int) (*syntax.Regexp, error) {
	switch {
	case p.take("^"):
		return &syntax.Regexp{Op: syntax.OpBeginText}, nil
	case p.take("$"):
		return &syntax.Regexp{Op: syntax.OpEndText}, nil
	case p.take("."):
		return class(negate([]rune{'\n', '\n', '\r', '\r', 0x2028, 0x2029})), nil
	case p.take("("):
		return p.group(depth)
	case p.take("["):
		return p.class()
	case p.take(`\`):
		if p.rest != "" && (p.rest[0] == 'b' || p.rest[0] == 'B') {
			return nil, fmt.Errorf(`\b and \B are not supported`)
		}
		set, err := p.escape()
		return class(p.folded(set)), err
	}
	r := p.next()
	if strings.ContainsRune("*+?", r) {
		return nil, fmt.Errorf("a quantifier without anything before it")
	}
	if n, _, _, _ := braces(string(r) + p.rest); n > 0 {
		return nil, fmt.Errorf("a quantifier without anything before it")
	}
	return class(p.folded([]rune{r, r})), nil
}

func class(ranges []rune) *syntax.Regexp { return &syntax.Regexp{Op: syntax.OpCharClass, Rune: ranges} }

func (p *ecma) group(depth int) (*syntax.Regexp, error) {
	fold, look := p.fold, syntax.Op(0)
	switch {
	case p.take("?:"):
	case p.take("?i:"):
		p.fold = true
	case p.take("?-i:"):
		p.fold = false
	case strings.HasPrefix(p.rest, "?<="), strings.HasPrefix(p.rest, "?<!"):
		return nil, fmt.Errorf("look-behind is not supported")
	case p.take("?="):
		look = opAhead
	case p.take("?!"):
		look = opNotAhead
	case p.take("?<"):
		name, rest, ok := strings.Cut(p.rest, ">")
		if !ok || name == "" {
			return nil, fmt.Errorf("a group's name does not end")
		}
		p.rest = rest
	case strings.HasPrefix(p.rest, "?"):
		return nil, fmt.Errorf("ECMAScript has no group that begins with (%.4s", p.rest)
	}
	re, err := p.alternatives(depth + 1)
	if err == nil && !p.take(")") {
		err = fmt.Errorf("an unmatched (")
	}
	p.fold = fold
	if look != 0 {
		re = &syntax.Regexp{Op: look, Sub: []*syntax.Regexp{re}}
	}
	return re, err
}

// folded are ranges with all characters that fold to theirs.
func (p *ecma) folded(ranges []rune) []rune {
	if !p.fold {
		return ranges
	}
	all := slices.Clone(ranges)
	for i := 0; i < len(ranges); i += 2 {
		for r := ranges[i]; r <= min(ranges[i+1], lastCased); r++ {
			for f := unicode.SimpleFold(r); f != r; f = unicode.SimpleFold(f) {
				all = append(all, f, f)
			}
		}
	}
	return all
}

func (p *ecma) class() (*syntax.Regexp, error) {
	negated := p.take("^")
	var set []rune
	for !p.take("]") {
		lo, one, err := p.member()
		if err != nil {
			return nil, err
		}
		if !strings.HasPrefix(p.rest, "-") || strings.HasPrefix(p.rest, "-]") {
			set = append(set, lo...)
			continue
		}
		p.take("-")
		hi, last, err := p.member()
		switch {
		case err != nil:
			return nil, err
		case !one || !last: // without flag u, the hyphen of [\w-.] is literal
			set = append(append(append(set, lo...), hi...), '-', '-')
		case lo[0] > hi[0]:
			return nil, fmt.Errorf("the range %c-%c is in the wrong order", lo[0], hi[0])
		default:
			set = append(set, lo[0], hi[0])
		}
	}
	set = p.folded(set)
	if negated {
		set = negate(set)
	}
	return class(set), nil
}

// member is a character or an escape of a class, and whether it is one character.
func (p *ecma) member() (set []rune, one bool, err error) {
	if p.rest == "" {
		return nil, false, fmt.Errorf("an unmatched [")
	}
	if !p.take(`\`) {
		r := p.next()
		return []rune{r, r}, true, nil
	}
	switch {
	case p.take("b"):
		return []rune{'\b', '\b'}, true, nil
	case p.take("-"):
		return []rune{'-', '-'}, true, nil
	}
	set, err = p.escape()
	return set, len(set) == 2 && set[0] == set[1], err
}

// negate returns the characters that ranges lack.
func negate(ranges []rune) []rune {
	type pair struct{ lo, hi rune }
	var pairs []pair
	for i := 0; i < len(ranges); i += 2 {
		pairs = append(pairs, pair{ranges[i], ranges[i+1]})
	}
	slices.SortFunc(pairs, func(x, y pair) int { return int(x.lo - y.lo) })
	var not []rune
	next := rune(0)
	for _, r := range pairs {
		if r.lo > next {
			not = append(not, next, r.lo-1)
		}
		next = max(next, r.hi+1)
	}
	if next <= unicode.MaxRune {
		not = append(not, next, unicode.MaxRune)
	}
	return not
}
