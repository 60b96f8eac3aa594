package jinja

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Case as Python's str has it: by Unicode's full mappings, in which a letter may become several.

func upper(s string) string { return cases.Upper(language.Und).String(s) }

func lower(s string) string { return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(s) }

func casefold(s string) string { return cases.Fold().String(s) }

// titled is the form of a letter at the beginning of a word.
func titled(r rune) string { return cases.Title(language.Und, cases.NoLower).String(string(r)) }

// recase replaces each letter of s, of which change gets the lower case it has at its place.
func recase(s string, change func(r rune, lowered string) string) string {
	var b strings.Builder
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	low, at := lower(s), 0
	for _, r := range s {
		n := 1
		if r >= utf8.RuneSelf {
			n = len(lower(string(r))) // that of a sigma does not depend on its place
		}
		b.WriteString(change(r, low[at:at+n]))
		at += n
	}
	return b.String()
}

func isUpper(r rune) bool { return unicode.In(r, unicode.Lu, unicode.Other_Uppercase) }
func isLower(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Other_Lowercase) }
func isCased(r rune) bool { return isUpper(r) || isLower(r) || unicode.IsTitle(r) }

func capitalize(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return titled(r) + lower(s)[len(lower(s[:n])):]
}

// titleMethod is str.title: words are runs of letters that have a case.
func titleMethod(s string) string {
	word := false
	return recase(s, func(r rune, lowered string) string {
		was := word
		if word = isCased(r); was {
			return lowered
		}
		return titled(r)
	})
}

// titleFilter is the filter's way: words are what -, space and brackets part.
func titleFilter(s string) string {
	var b strings.Builder
	for s != "" {
		start := strings.IndexFunc(s, func(r rune) bool { return !parts(r) })
		if start < 0 {
			start = len(s)
		}
		b.WriteString(s[:start])
		s = s[start:]
		end := strings.IndexFunc(s, parts)
		if end < 0 {
			end = len(s)
		}
		_, first := utf8.DecodeRuneInString(s)
		b.WriteString(upper(s[:first]) + lower(s[min(first, end):end]))
		s = s[end:]
	}
	return b.String()
}

func parts(r rune) bool { return pySpace(r) || strings.ContainsRune("-({[<", r) }

func swapCase(s string) string {
	return recase(s, func(r rune, lowered string) string {
		switch {
		case isUpper(r):
			return lowered
		case isLower(r):
			return upper(string(r))
		}
		return string(r)
	})
}

// allCased reports whether letters that have a case are all of one, and whether there are any.
func allCased(s string, of func(rune) bool) bool {
	any := false
	for _, r := range s {
		if of(r) {
			any = true
		} else if isCased(r) {
			return false
		}
	}
	return any
}

// isTitle is str.istitle.
func isTitle(s string) bool {
	any, word := false, false
	for _, r := range s {
		switch {
		case isUpper(r) || unicode.IsTitle(r):
			if word {
				return false
			}
			any, word = true, true
		case isLower(r):
			if !word {
				return false
			}
			any = true
		default:
			word = false
		}
	}
	return any
}

// predicate returns the methods that tell of what kind all characters are.
func predicate(s, name string) method {
	answer := func(yes bool) method { return func(*run, *params) (any, error) { return yes, nil } }
	all := func(f func(rune) bool) method {
		return func(*run, *params) (any, error) {
			return s != "" && strings.IndexFunc(s, func(r rune) bool { return !f(r) }) < 0, nil
		}
	}
	switch name {
	case "isdecimal":
		return all(unicode.IsDigit)
	case "isdigit":
		return all(func(r rune) bool { return unicode.IsDigit(r) || unicode.Is(furtherDigits, r) })
	case "isnumeric":
		return all(func(r rune) bool { return unicode.IsNumber(r) || strings.ContainsRune(numericLetters, r) })
	case "isalpha":
		return all(unicode.IsLetter)
	case "isalnum":
		return all(func(r rune) bool { return unicode.IsLetter(r) || unicode.IsNumber(r) })
	case "isspace":
		return all(pySpace)
	case "isascii":
		return answer(strings.IndexFunc(s, func(r rune) bool { return r > unicode.MaxASCII }) < 0)
	case "isprintable":
		return answer(strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0)
	case "isidentifier":
		return answer(identifier.MatchString(s))
	case "isupper":
		return answer(allCased(s, isUpper))
	case "islower":
		return answer(allCased(s, isLower))
	case "istitle":
		return answer(isTitle(s))
	}
	return nil
}

var identifier = regexp.MustCompile(`^[\pL\p{Nl}_][\pL\p{Nl}\p{Nd}\p{Mn}\p{Mc}\p{Pc}]*$`)

// furtherDigits have Unicode's numeric type "digit" and are not decimal ones.
var furtherDigits = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0xb2, Hi: 0xb3, Stride: 1}, {Lo: 0xb9, Hi: 0xb9, Stride: 1}, {Lo: 0x1369, Hi: 0x1371, Stride: 1},
		{Lo: 0x19da, Hi: 0x19da, Stride: 1}, {Lo: 0x2070, Hi: 0x2070, Stride: 1}, {Lo: 0x2074, Hi: 0x2079, Stride: 1},
		{Lo: 0x2080, Hi: 0x2089, Stride: 1}, {Lo: 0x2460, Hi: 0x2468, Stride: 1}, {Lo: 0x2474, Hi: 0x247c, Stride: 1},
		{Lo: 0x2488, Hi: 0x2490, Stride: 1}, {Lo: 0x24ea, Hi: 0x24ea, Stride: 1}, {Lo: 0x24f5, Hi: 0x24fd, Stride: 1},
		{Lo: 0x24ff, Hi: 0x24ff, Stride: 1}, {Lo: 0x2776, Hi: 0x277e, Stride: 1}, {Lo: 0x2780, Hi: 0x2788, Stride: 1},
		{Lo: 0x278a, Hi: 0x2792, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x10a40, Hi: 0x10a43, Stride: 1}, {Lo: 0x10e60, Hi: 0x10e68, Stride: 1},
		{Lo: 0x11052, Hi: 0x1105a, Stride: 1}, {Lo: 0x1f100, Hi: 0x1f10a, Stride: 1}},
	LatinOffset: 2,
}

// numericLetters are ideographs that have a value as a number.
const numericLetters = "㐅㒃㠪㭍一七万三九二五亖亿什仟仨伍佰億兆兩八六十千卄卅卌叁参參叄四壱壹幺" +
	"廾廿弌弍弎弐拾捌柒漆玖百肆萬貮貳贰阡陆陌陸零參拾兩零六陸什𠀁𠁤𠃢𠄡𠤪𠦃𠦌" +
	"𠦜𠫪𠫽𠬙𢎐𢦘𣬛𦉭廾"
