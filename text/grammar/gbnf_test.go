package grammar_test

import (
	"strings"
	"testing"

	"github.com/quire/quire/text/grammar"
)

const arithmetic = `# sums of numbers
root  ::= (expr "=" ws term "\n"){1,2}
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]{0,3} ws   # a name
num   ::= [0-9]+ ws
ws    ::= [ \t\n]?
`

func TestGBNF(t *testing.T) {
	for _, c := range []struct {
		grammar  string
		yes, no  string // separated by |
		problems string
	}{
		{arithmetic, "a=1\n|(ab +1) *c=x\n|((((1))))=2\na=b\n", "a=\n|a=1|(a=1\n|abcde=1\n|a=1\nb=2\nc=3\n", ""},
		{`root ::= "a" | "b"` + "\n  | \"c\"", "a|b|c", "d|ab", "end of the line|the name of a rule"},
		{"root ::= \"a\" |\n \"b\"", "a|b", "ab", ""},
		{`root ::= [^a-c] . [\x41-\u0043é]`, "ddA|日本é|xaB", "aaA|dda|dd", ""},
		{`root ::= "ab"{2} "c"{0,2} "d"{1,}`, "ababd|ababccdd", "abd|ababcccd|abab", ""},
		{"root ::= a_b _c\na_b ::= \"x\"\n_c ::= \"y\"?", "x|xy", "y", ""},
		{`root ::= ("x" | y-1)+ "\"\\\[\]"` + "\ny-1 ::= \"y\" | \"(\" root \")\"", `xy"\[]|(x"\[])x"\[]`, `"\[]`, ""},
		{"root ::= \"\\U0001F600\"?", "😀|", "😀😀", ""},
		{"root ::= [] \"a\" \"\"", "a", "", ""},
		{"root ::= a\na ::= \"x\" | a \"y\"", "", "", "begins with itself"},
		{"root ::= a root\na ::= \"x\"?", "", "", "begins with itself"},
		{"root ::= b", "", "", `"b" is not defined`},
		{"rot ::= \"b\"", "", "", `no rule "root"`},
		{"root ::= *", "", "", "repetition of nothing"},
		{"root ::= (\"a\"", "", "", ") expected at the end"},
		{"root ::= <[7]>", "", "", "not supported"},
		{`root ::= "\q"`, "", "", "not known"},
		{`root ::= "a"{3,2}`, "", "", "wrong order"},
		{"root ::= \"a\" root", "", "", "no text can be complete"},
	} {
		a, err := grammar.GBNF(c.grammar)
		if err != nil {
			found := false
			for _, p := range strings.Split(c.problems, "|") {
				found = found || p != "" && strings.Contains(err.Error(), p)
			}
			if !found {
				t.Errorf("%q: %v", c.grammar, err)
			}
			continue
		}
		if c.problems != "" && c.yes == "" {
			t.Errorf("%q has no error with %q", c.grammar, c.problems)
		}
		for _, text := range strings.Split(c.yes, "|") {
			if !accepts(a, text) {
				t.Errorf("%q refuses %q", c.grammar, text)
			}
		}
		for _, text := range strings.Split(c.no, "|") {
			if text != "" && accepts(a, text) {
				t.Errorf("%q takes %q", c.grammar, text)
			}
		}
	}
}

func FuzzGBNF(f *testing.F) {
	f.Add(arithmetic, "a=1\n")
	f.Add("root ::= [^a]{2,3} | \"x\" (root)", "xx")
	f.Add("root ::= a\na ::= a", "")
	f.Fuzz(func(t *testing.T, text, sample string) {
		if a, err := grammar.GBNF(text); err == nil {
			walk(a, sample)
		}
	})
}

func FuzzRegex(f *testing.F) {
	f.Add("^(a|b$)*c{2,3}?", "abcc")
	f.Add(`[^\pL\d]+|(?i:x)`, "X")
	f.Fuzz(func(t *testing.T, pattern, sample string) {
		if a, err := grammar.Regex(pattern); err == nil {
			walk(a, sample)
		}
	})
}

func FuzzJSONSchema(f *testing.F) {
	f.Add(`{"type":"object","properties":{"a":{"$ref":"#"},"b":{"enum":[1,"x",null]}},"required":["b"]}`, `{"b":1}`)
	f.Add(`{"oneOf":[{"type":"string","pattern":"^a[^]$","maxLength":3},{"multipleOf":0.01,"minimum":-2}]}`, `"ab"`)
	f.Add(`{"items":{"not":{"type":"null"}},"minItems":2,"contains":{"const":1}}`, "[1,2]")
	f.Fuzz(func(t *testing.T, text, sample string) {
		if a, err := grammar.JSONSchema([]byte(text), grammar.Options{}); err == nil {
			walk(a, sample)
		}
	})
}
