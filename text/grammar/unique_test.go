package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/text/grammar"
)

// An array is taken if and only if no two items are equal and their number is right.
func TestUniqueItems(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lo, hi := rapid.IntRange(0, 3).Draw(t, "lo"), rapid.IntRange(3, 5).Draw(t, "hi")
		a, err := grammar.JSONSchema(fmt.Appendf(nil, `{"type":"array","uniqueItems":true,"minItems":%d,"maxItems":%d,
			"items":{"type":["string","number","boolean"]}}`, lo, hi), grammar.Options{})
		if err != nil {
			t.Fatal(err)
		}
		item := rapid.OneOf(rapid.Map(rapid.StringMatching(`[a"\\é]{0,2}`), func(s string) any { return s }),
			rapid.Map(rapid.SampledFrom([]float64{0, 1, 11, 1.5, -1, -1.5}), func(f float64) any { return f }),
			rapid.Map(rapid.Bool(), func(b bool) any { return b }))
		items := rapid.SliceOfN(item, 0, 6).Draw(t, "items")
		text, err := json.Marshal(items)
		if err != nil {
			t.Fatal(err)
		}
		want := len(items) >= lo && len(items) <= hi
		for i, x := range items {
			want = want && !slices.Contains(items[:i], x)
		}
		if len(items) == 0 {
			text = []byte("[]")
		}
		if got := accepts(a, string(text)); got != want {
			t.Fatalf("%s: %v", text, got)
		}
	})
}

// Whatever tokens a mask lets come, the array comes to an end with distinct items: also where few are left, and where a
// token has the end of one item and the beginning of the next.
func TestUniqueItemsOfTokens(t *testing.T) {
	texts := [][]byte{nil}
	for _, s := range []string{"[", "]", `"`, `",`, `","`, `","a`, `"]`, `["`, "a", "b", "ab", `"a"`, `a","a"`, ",", ", ", "1", "12",
		"1,1", ",1", "0", ".", "5", "-", "null", "}", ":", "{", `,"y":[`, `"a","a`, ` `, "x", "y"} {
		texts = append(texts, []byte(s))
	}
	v := grammar.NewVocabulary(texts, []int32{0})
	for _, schema := range []string{
		`{"type":"array","uniqueItems":true,"items":{"type":"string","pattern":"^[ab]*$"}}`,
		`{"type":"array","uniqueItems":true,"minItems":4,"items":{"type":["string","number","null"],"pattern":"^a?b*$"}}`,
		`{"type":"array","uniqueItems":true,"items":{"type":["number","null"],"minimum":0,"maximum":1.25}}`,
		`{"type":"array","uniqueItems":true,"minItems":3,"items":{"type":["string","null"],"pattern":"^[ab]{0,10}$"}}`,
		`{"type":"object","properties":{"x":{"type":"array","uniqueItems":true,"items":{"type":"string"}},
			"y":{"type":"array","uniqueItems":true,"items":{"type":["string","integer"]}}},"required":["x"],
			"additionalProperties":false}`,
	} {
		of := validator(schema)
		a, err := grammar.JSONSchema([]byte(schema), grammar.Options{})
		if err != nil || of == nil {
			t.Fatal(schema, err)
		}
		mask, rnd, ended := make([]uint32, v.Words()), rand.New(rand.NewPCG(1, 1)), 0
		for range 200 {
			var text []byte
			s := a.Start()
			for tokens := 0; tokens < 200; tokens++ {
				v.Mask(a, s, mask)
				var can, ends []int
				for id, token := range texts {
					if mask[id/32]>>(id%32)&1 == 0 {
						continue
					}
					can = append(can, id)
					if strings.HasSuffix(string(token), "]") || strings.HasSuffix(string(token), "}") || id == 0 {
						ends = append(ends, id)
					}
				}
				if len(can) == 0 {
					t.Fatalf("%s: %q leads nowhere", schema, text)
				}
				if len(ends) > 0 && (rnd.IntN(4) == 0 || tokens > 60) {
					can = ends
				}
				id := can[rnd.IntN(len(can))]
				if id == 0 {
					var value any
					if err := json.Unmarshal(text, &value); err != nil || of.Validate(value) != nil {
						t.Fatalf("%s: %s: %v, %v", schema, text, err, of.Validate(value))
					}
					ended++
					break
				}
				for _, c := range texts[id] {
					text = append(text, c)
					if s = a.Settle(a.Next(s, c), text); s == grammar.Dead {
						t.Fatalf("%s: %q is dead", schema, text)
					}
				}
			}
		}
		if ended < 50 {
			t.Errorf("%s: %d texts came to an end", schema, ended)
		}
	}
}
