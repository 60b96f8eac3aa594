package grammar_test

import (
	"encoding/json"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/grammar/jsontext"
)

// walk returns the state behind a text.
func walk(a *grammar.Automaton, text string) grammar.State {
	s := a.Start()
	for i := 0; i < len(text) && s != grammar.Dead; i++ {
		s = a.Settle(a.Next(s, text[i]), []byte(text[:i+1]))
	}
	return s
}

func accepts(a *grammar.Automaton, text string) bool { return a.Accepts(walk(a, text)) }

// A text is taken if and only if it is one of the choices, and its beginnings if and only if one begins so.
func TestChoices(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		texts := rapid.SliceOfN(rapid.StringMatching(`[abé]{0,5}`), 1, 12).Draw(t, "texts")
		a, err := grammar.Choices(texts)
		if err != nil {
			t.Fatal(err)
		}
		text := rapid.StringMatching(`[abé]{0,6}`).Draw(t, "text")
		if got, want := accepts(a, text), slices.Contains(texts, text); got != want {
			t.Fatalf("%q of %q: %v", text, texts, got)
		}
		begins := slices.ContainsFunc(texts, func(s string) bool { return strings.HasPrefix(s, text) })
		if got := walk(a, text) != grammar.Dead; got != begins {
			t.Fatalf("%q begins one of %q: %v", text, texts, got)
		}
	})
}

// patterns draws regular expressions with anchors, classes and bounded repeats in odd places.
func patterns() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		var draw func(depth int) string
		draw = func(depth int) string {
			n := 9
			if depth == 0 {
				n = 5
			}
			switch rapid.IntRange(0, n).Draw(t, "kind") {
			case 0, 1:
				return rapid.SampledFrom([]string{"a", "b", "é", "日"}).Draw(t, "letter")
			case 2:
				return rapid.SampledFrom([]string{"[ab]", "[^a]", ".", `\d`, `\w`, `[à-ü]`, `\pL`, "(?i:aé)"}).Draw(t, "class")
			case 3:
				return rapid.SampledFrom([]string{"^", "$", `\A`, `\z`, ""}).Draw(t, "anchor")
			case 4, 5:
				return "ab"
			case 6:
				return draw(depth-1) + draw(depth-1)
			case 7:
				return "(?:" + draw(depth-1) + "|" + draw(depth-1) + ")"
			default:
				times := rapid.SampledFrom([]string{"*", "+", "?", "{2}", "{1,3}", "{2,}", "*?"}).Draw(t, "times")
				return "(?:" + draw(depth-1) + ")" + times
			}
		}
		return draw(4)
	})
}

// The automaton takes what package regexp matches as a whole.
func TestRegexMatchesRegexp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pattern := patterns().Draw(t, "pattern")
		want := regexp.MustCompile(`\A(?:` + pattern + `)\z`)
		a, err := grammar.Regex(pattern)
		if err != nil {
			if strings.Contains(err.Error(), "no text can be complete") {
				return
			}
			t.Fatal(err)
		}
		for range 8 {
			text := rapid.StringMatching(`(a|b|é|日|1|\n){0,6}`).Draw(t, "text")
			if got := accepts(a, text); got != want.MatchString(text) {
				t.Fatalf("%q on %q: %v", pattern, text, got)
			}
		}
		text := generate(t, a)
		if !want.MatchString(text) {
			t.Fatalf("%q makes %q", pattern, text)
		}
	})
}

// What Python's syntax has beside RE2's, and what that has where counts and escapes are looked for.
func TestRegexOfPython(t *testing.T) {
	for _, c := range []struct {
		pattern string
		yes, no []string
	}{
		{`[\u4e00-\u9fff]+`, []string{"日本"}, []string{"a", "u4e00"}},
		{`\u00e9\U0001F600\Z`, []string{"é😀"}, []string{"é"}},
		{`.{1,2000}`, []string{"a", strings.Repeat("日", 2000)}, []string{"", strings.Repeat("a", 2001)}},
		{`(?:[a-z]{1,50} ){30}x{2,}?`, []string{strings.Repeat("abc ", 30) + "xx"}, []string{strings.Repeat("abc ", 29) + "xx"}},
		{`a{,2}b`, []string{"b", "aab"}, []string{"aaab", "a{,2}b"}},
		{`(?i:a{2})(?P<n>[\]{1}]{3})\Qx{2\E{2}`, []string{"Aa]]1x{22", "aA{1}x{22"}, []string{"aa]]1x{2"}},
		{`[^]a]{2}[]b]{1}[[:digit:]]{2}\{2}\x{62}{2}\pL{2}`, []string{"xy]12{2}bbéé"}, []string{"]yb12{2}bbéé"}},
		{`\d\w\s`, []string{"1a "}, []string{"١a ", "1é ", "1a\u00a0"}},
	} {
		a, err := grammar.Regex(c.pattern)
		if err != nil {
			t.Error(err)
			continue
		}
		for _, text := range c.yes {
			if !accepts(a, text) {
				t.Errorf("%s does not take %.30q", c.pattern, text)
			}
		}
		for _, text := range c.no {
			if accepts(a, text) {
				t.Errorf("%s takes %.30q", c.pattern, text)
			}
		}
	}
	for _, pattern := range []string{`{2}`, `a{2}{3}`, `a{2}*`, `a{3,2}`, `a{2000000}`, `(a`, `[a`, `a\`, `\ud83d\ude00`, `a|{2}`} {
		if _, err := grammar.Regex(pattern); err == nil {
			t.Errorf("%s is taken", pattern)
		}
	}
}

// generate walks an automaton by drawn bytes until a text is complete, or for some time. Every state must lead on.
func generate(t *rapid.T, a *grammar.Automaton) string {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	s := a.Start()
	var text []byte
	for i := 0; ; i++ {
		if a.Accepts(s) && (rnd.IntN(4) == 0 || i > 200) {
			return string(text)
		}
		var can []byte
		for c := range 256 {
			if a.Next(s, byte(c)) != grammar.Dead {
				can = append(can, byte(c))
			}
		}
		if len(can) == 0 {
			if !a.Accepts(s) {
				t.Fatalf("%q leads nowhere", text)
			}
			return string(text)
		}
		if i > 400 { // the way out is drawn too seldom: any text so far was fine
			t.Skip("long")
		}
		c := can[rnd.IntN(len(can))]
		text = append(text, c)
		s = a.Settle(a.Next(s, c), text)
	}
}

// long numbers are JSON and are not taken.
var long = regexp.MustCompile(`[0-9]{21}|[eE][+-]?[0-9]{4}`)

// What the automaton of JSON makes is JSON, and what is JSON it takes, but for halves of characters and long numbers.
func TestJSONValue(t *testing.T) {
	for _, form := range []jsontext.Whitespace{jsontext.AnySpace, jsontext.NoSpace, jsontext.OneSpace} {
		a, err := grammar.JSONValue(grammar.Options{Whitespace: form})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			if text := generate(t, a); !json.Valid([]byte(text)) || !utf8.ValidString(text) {
				t.Fatalf("%q is not JSON", text)
			}
		})
	}
	any, err := grammar.JSONValue(grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`([\[\]{},: ]|"[ab\\"]*"|-?[0-9.e+-]{1,4}|null|true){0,12}`).Draw(t, "text")
		if strings.Contains(text, "  ") { // TestSpaceIsBounded
			t.Skip("more than one space")
		}
		want := json.Valid([]byte(text)) && strings.TrimSpace(text) == text
		if got := accepts(any, text); got != want && !long.MatchString(text) {
			t.Fatalf("%q: %v", text, got)
		}
	})
}

// TestSpaceIsBounded has JSON in one line and indented, and no way on with whitespace alone.
func TestSpaceIsBounded(t *testing.T) {
	a, err := grammar.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"array","items":{"const":1}}}}`),
		grammar.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`{"a":[1,1]}`, `{"a": [1, 1]}`, `{ "a" : [ 1 , 1 ] }`, "{\n  \"a\": [\n    1,\n    1\n  ]\n}",
		"{\n\n\t\t\"a\": [1,\n" + strings.Repeat(" ", 20) + "1]}", "{ \n}"} {
		if !accepts(a, text) {
			t.Errorf("%q is refused", text)
		}
	}
	for _, text := range []string{"{   }", "{\"a\":  []}", "{\n\n\n\"a\":[]}",
		"{\n" + strings.Repeat(" ", 21) + "\"a\":[]}", "{\t\"a\":[]}", "{\r\n\"a\":[]}"} {
		if accepts(a, text) {
			t.Errorf("%q is taken", text)
		}
	}
}

// apart is distinct values, each of any text.
const apart = `{"type":"array","uniqueItems":true,"items":{"type":["string","integer","null"]},"minItems":2}`

// A bit of a mask is set if and only if the bytes of its token lead on, one by one.
func TestMaskIsOfNext(t *testing.T) {
	texts := [][]byte{nil, {0xC3}, {0xA9}, []byte("é"), []byte(`"`), []byte(`"a`), []byte(`a":`), []byte("{"), []byte(`{"`),
		[]byte("}"), []byte(`"}`), []byte("a"), []byte("a"), []byte("ab"), []byte("abc"), []byte("1"), []byte("12"),
		[]byte(","), []byte(`,"`), []byte(" "), []byte("[["), []byte("]"), []byte("true"), []byte("tr"), []byte("\\"),
		[]byte("\\u00"), []byte(`\"`), []byte("\n"), []byte(":"), []byte(": "), []byte("-"), []byte("日"), []byte("}}")}
	const end = 0
	v := grammar.NewVocabulary(texts, []int32{end})
	makers := []func(string) (*grammar.Automaton, error){
		grammar.Regex,
		func(string) (*grammar.Automaton, error) { return grammar.JSONObject(grammar.Options{}) },
		func(s string) (*grammar.Automaton, error) { return grammar.Choices([]string{s, "ab", "{{"}) },
		func(s string) (*grammar.Automaton, error) {
			return grammar.JSONSchema([]byte(`{"additionalProperties":{"type":["string","null"],"minLength":1,`+
				`"maxLength":3},"properties":{"ab":{"type":["array","string"]}}}`), grammar.Options{})
		},
		func(string) (*grammar.Automaton, error) { return grammar.JSONSchema([]byte(apart), grammar.Options{}) },
		func(string) (*grammar.Automaton, error) {
			return grammar.JSONSchema([]byte(`{"type":"array","uniqueItems":true,"items":{"type":"string","maxLength":3}}`),
				grammar.Options{})
		},
	}
	rapid.Check(t, func(t *rapid.T) {
		a, err := makers[rapid.IntRange(0, len(makers)-1).Draw(t, "maker")](patterns().Draw(t, "pattern"))
		if err != nil {
			t.Skip(err)
		}
		s := a.Start()
		mask := make([]uint32, v.Words())
		var text []byte
		for range 20 {
			if s = a.Settle(s, text); s == grammar.Dead {
				t.Fatalf("%q leads nowhere", text)
			}
			v.Mask(a, s, mask)
			var can []int32
			for id, token := range texts {
				to := s
				for _, c := range token {
					to = a.Next(to, c)
				}
				want := len(token) > 0 && to != grammar.Dead
				if id == end {
					want = a.Accepts(s)
				}
				if got := mask[id>>5]>>(id&31)&1 != 0; got != want {
					t.Fatalf("token %d (%q) behind %q: %v", id, token, text, got)
				}
				if len(token) > 0 && want {
					can = append(can, int32(id))
				}
			}
			if len(can) == 0 {
				return
			}
			for _, c := range texts[rapid.SampledFrom(can).Draw(t, "token")] {
				text = append(text, c)
				if s = a.Settle(a.Next(s, c), text); s == grammar.Dead {
					t.Fatalf("%q leads nowhere", text)
				}
			}
		}
	})
}
