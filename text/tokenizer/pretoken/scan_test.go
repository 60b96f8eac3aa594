package pretoken

import (
	"testing"
	"unicode"

	"github.com/dlclark/regexp2/v2"
	"pgregory.net/rapid"
)

// TestScanners compares each hand-written scanner with its pattern run by a regular expression engine.
func TestScanners(t *testing.T) {
	alphabet := []rune("aZé日ſs'tTlLrReEvVmMdD0٣Ⅷ½ \t\n\r\u00a0\u3000\v.,!?-_'\"<>😀\u0301\u200b")
	for pattern, scan := range scanners {
		re := regexp2.MustCompile(pattern)
		check := func(t interface{ Fatalf(string, ...any) }, s string) {
			found, err := re.FindAllStringIndex(s, -1)
			if err != nil {
				t.Fatalf("%v", err)
			}
			at := 0
			for _, f := range found {
				n := scan(classTable(), s[at:])
				if f[0] != at || f[1] != at+n {
					t.Fatalf("%q at %d: the scanner takes %q, the pattern %q", s, at, s[at:at+n], s[f[0]:f[1]])
				}
				at += n
			}
			if at != len(s) {
				t.Fatalf("%q: the pattern ends at %d", s, at)
			}
		}
		t.Run(pattern, rapid.MakeCheck(func(t *rapid.T) {
			s := string(rapid.SliceOfN(rapid.SampledFrom(alphabet), 1, 24).Draw(t, "text"))
			if pattern != PatternGPT2 {
				// regexp2 does not fold the long s to s; Oniguruma, and so the scanner, do.
				runes := []rune(s)
				for i, r := range runes {
					if r == 'ſ' && i > 0 && runes[i-1] == '\'' {
						runes[i] = 'z'
					}
				}
				s = string(runes)
			}
			check(t, s)
		}))
	}
}

func TestLongS(t *testing.T) {
	if n := scanLlama3(classTable(), "'ſx", 3); n != len("'ſ") {
		t.Errorf("'ſ is a contraction of 3 bytes, not %d", n)
	}
}

// TestClasses pins the characters that Unicode 16 has over Go's 15.
func TestClasses(t *testing.T) {
	for r, want := range map[rune]class{0x1c89: letter, 0x13460: letter, 0x10d40: number, 0x1ccf0: number,
		0x11bf9: number,
		'a':     letter, '1': number, 'Ⅷ': number, 0x85: space, 0x3000: space, 0x200b: other, 0x301: other,
		0x1F600: other} {
		if got := classifySlow(r); got != want {
			t.Errorf("U+%04X has class %d, want %d", r, got, want)
		}
	}
	if !isDigit(0x11de0) || isDigit('a') || !unicode.IsNumber('½') {
		t.Error("isDigit")
	}
}
