package grammar_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/quire/quire/text/grammar"
)

// words makes a vocabulary of n tokens: single bytes, and what words and code are cut into.
func words(n int) *grammar.Vocabulary {
	rnd := rand.New(rand.NewPCG(1, 2))
	var texts [][]byte
	seen := map[string]bool{}
	add := func(s string) {
		if !seen[s] {
			seen[s] = true
			texts = append(texts, []byte(s))
		}
	}
	texts = append(texts, nil)
	for c := range 256 {
		add(string([]byte{byte(c)}))
	}
	letters := "etaoinshrdlucmfwypvbgkqjxz"
	for _, s := range []string{"{\"", "\":", "\",", "\":\"", "\"}", "\"]", "},{",
		"\",\"", " \"", ": ", "\n", "  ", "[]", "{}"} {
		add(s)
	}
	for len(texts) < n {
		w := ""
		if rnd.IntN(2) == 0 {
			w = " "
		}
		for range 2 + rnd.IntN(8) {
			w += string(letters[min(rnd.IntN(26), rnd.IntN(26))])
		}
		switch rnd.IntN(40) {
		case 0:
			w += "\""
		case 1:
			w = "é" + w
		case 2:
			w = fmt.Sprint(rnd.IntN(1000))
		}
		add(w)
	}
	return grammar.NewVocabulary(texts, []int32{0})
}

const person = `{"type":"object","properties":{"name":{"type":"string"},"nick":{"type":"string","maxLength":20},
	"mail":{"type":"string","format":"email"},"age":{"type":"integer","minimum":0,"maximum":150},
	"code":{"type":"string","pattern":"^.*[0-9]{3}$"},"tags":{"type":"array","items":{"enum":["a","b","c"]}},
	"more":{"type":"object","additionalProperties":{"type":"number"}}},"required":["name","mail"]}`

// Masks of 100,000 tokens, of states by what stands there.
func BenchmarkMask(b *testing.B) {
	v := words(100_000)
	mask := make([]uint32, v.Words())
	for _, c := range []struct{ name, text string }{
		{"start", ``}, {"string", `{"name":"A`}, {"bounded", `{"name":"A","nick":"x`}, {"mail", `{"name":"A","mail":"x`},
		{"number", `{"name":"A","mail":"a@b.c","age":1`}, {"pattern", `{"name":"A","mail":"a@b.c","code":"x1`},
		{"key", `{"name":"A","mail":"a@b.c","more":{"`},
	} {
		b.Run(c.name, func(b *testing.B) {
			a, err := grammar.JSONSchema([]byte(person), grammar.Options{})
			if err != nil {
				b.Fatal(err)
			}
			s := walk(a, c.text)
			if s == grammar.Dead {
				b.Fatal("no state")
			}
			for b.Loop() {
				v.Mask(a, s, mask)
			}
			b.ReportMetric(float64(a.States()), "states")
		})
	}
}

// The same with new automata: rows of states are made on the way.
func BenchmarkMaskOfNewState(b *testing.B) {
	v := words(100_000)
	mask := make([]uint32, v.Words())
	for _, c := range []struct{ name, text string }{
		{"string", `{"name":"A`}, {"bounded", `{"name":"A","nick":"x`}, {"pattern", `{"name":"A","mail":"a@b.c","code":"x1`},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				a, err := grammar.JSONSchema([]byte(person), grammar.Options{})
				if err != nil {
					b.Fatal(err)
				}
				v.Mask(a, walk(a, c.text), mask)
			}
		})
	}
}

func BenchmarkCompile(b *testing.B) {
	for b.Loop() {
		if _, err := grammar.JSONSchema([]byte(person), grammar.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
