package value

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Case follows Unicode's full mappings, as in Python: a letter may become several.

func Upper(s string) string { return cases.Upper(language.Und).String(s) }

func Lower(s string) string { return cases.Lower(language.Und, cases.HandleFinalSigma(true)).String(s) }

func casefold(s string) string { return cases.Fold().String(s) }

// titled is the form of a letter at the beginning of a word.
func titled(r rune) string { return cases.Title(language.Und, cases.NoLower).String(string(r)) }

// recase replaces each letter of s by what change returns for the letter and its lower case in s.
func recase(s string, change func(r rune, lowered string) string) string {
	var b strings.Builder
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	low, offset := Lower(s), 0
	for _, r := range s {
		n := 1
		if r >= utf8.RuneSelf {
			n = len(Lower(string(r))) // the length for a sigma does not depend on its place
		}
		b.WriteString(change(r, low[offset:offset+n]))
		offset += n
	}
	return b.String()
}

func IsUpper(r rune) bool { return unicode.In(r, unicode.Lu, unicode.Other_Uppercase) }
func IsLower(r rune) bool { return unicode.In(r, unicode.Ll, unicode.Other_Lowercase) }
func isCased(r rune) bool { return IsUpper(r) || IsLower(r) || unicode.IsTitle(r) }

func Capitalize(s string) string {
	s = strings.ToValidUTF8(s, string(utf8.RuneError))
	r, n := utf8.DecodeRuneInString(s)
	if n == 0 {
		return s
	}
	return titled(r) + Lower(s)[len(Lower(s[:n])):]
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

// TitleWords is the filter title: -, space and brackets separate words.
func TitleWords(s string) string {
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
		b.WriteString(Upper(s[:first]) + Lower(s[min(first, end):end]))
		s = s[end:]
	}
	return b.String()
}

func parts(r rune) bool { return IsSpace(r) || strings.ContainsRune("-({[<", r) }

func swapCase(s string) string {
	return recase(s, func(r rune, lowered string) string {
		switch {
		case IsUpper(r):
			return lowered
		case IsLower(r):
			return Upper(string(r))
		}
		return string(r)
	})
}

// AllCased reports whether there are letters with a case, and all of them have the same one.
func AllCased(s string, hasCase func(rune) bool) bool {
	any := false
	for _, r := range s {
		if hasCase(r) {
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
		case IsUpper(r) || unicode.IsTitle(r):
			if word {
				return false
			}
			any, word = true, true
		case IsLower(r):
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

// furtherDigits have Unicode's numeric type "digit" but are not decimal digits.
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
