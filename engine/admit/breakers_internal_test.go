package admit

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/text/tokenizer"
)

// breakersOf makes the breakers of a tokenizer.
func breakersOf(t *testing.T, name string) *breakers {
	t.Helper()
	tok, err := tokenizer.Open(testenv.Path("text", "tokenizer", "testdata", name+".gguf"))
	if err != nil {
		t.Fatal(err)
	}
	return newBreakers(models.Config{VocabSize: tok.VocabSize()}, tok, 1024)
}

// What DRY takes from logits is what llama.cpp takes, with breakers as texts, which are single tokens or sequences of
// them: goldens of scripts/oracle/dry_goldens.cpp.
func TestDRYOfTextsLikeLlamaCpp(t *testing.T) {
	for _, name := range []string{"llama3", "qwen2", "spm"} {
		t.Run(name, func(t *testing.T) {
			var cases []struct {
				Breakers         []string
				Multiplier, Base float64
				Allowed, Last    int
				Tokens           []int32
				Penalties        map[string]float64
			}
			data, err := os.ReadFile("testdata/dry-" + name + ".json")
			if err == nil {
				err = json.Unmarshal(data, &cases)
			}
			if err != nil {
				t.Fatal(err)
			}
			const length = 256
			e := breakersOf(t, name)
			n, vocabulary := len(cases), e.tokenizer.VocabSize()
			of := sampling.DRYOf[[]float32, []int32]{Multiplier: make([]float32, n), Base: make([]float32, n),
				Allowed: make([]int32, n), LastN: make([]int32, n), MostPower: make([]int32, n)}
			heads, limits, lens := make([]int32, n), make([]int32, n), make([]int32, n)
			var logits [][]float32
			var tokens, matches [][]int32
			var classes [][]uint32
			some := 0
			for i, c := range cases {
				r := &Request{DRYSequenceBreakers: c.Breakers, Sampling: sampling.Settings{DRYMultiplier: c.Multiplier,
					DRYBase: c.Base, DRYAllowedLength: c.Allowed, DRYPenaltyLastN: c.Last}}
				b, err := e.forRequest(r)
				if err != nil {
					t.Fatal(err)
				}
				if b == nil {
					b = &sampling.Breakers{Classes: make([]uint32, sampling.ClassWords(vocabulary))}
				}
				h := sampling.NewHistory(c.Tokens, b, length)
				sampling.SetDRY(of, i, r.Sampling, length)
				heads[i], limits[i], lens[i] = h.Head, h.Limit, int32(len(c.Tokens))
				tokens, matches = append(tokens, h.Tokens), append(matches, h.Matches)
				classes, logits = append(classes, b.Classes), append(logits, make([]float32, vocabulary))
				some += len(c.Penalties)
			}
			out, err := ExecOnce(testenv.Go(t), func(in []*Node) *Node {
				b := sampling.BreakersOf{Classes: in[5]}
				rows := Iota(in[0].Graph(), in[6].Shape(), 0)
				return sampling.Processors{DRY: &sampling.DRY{
					Histories: sampling.Histories{Tokens: in[1], Matches: in[2], Head: in[3], Limit: in[4]},
					Lens:      in[6],
					DRYOf: sampling.DRYOf[*Node, *Node]{Multiplier: in[7], Base: in[8], Allowed: in[9], LastN: in[10],
						MostPower: in[11]},
					Breaks: func(tokens *Node) *Node { return b.Break(rows, tokens) }}}.Apply(in[0])
			}, logits, tokens, matches, heads, limits, classes, lens, of.Multiplier, of.Base, of.Allowed, of.LastN,
				of.MostPower)
			if err != nil {
				t.Fatal(err)
			}
			for i, after := range out.Value().([][]float32) {
				for token, l := range after {
					want := cases[i].Penalties[fmt.Sprint(token)]
					if math.Abs(float64(-l)-want) > 1e-5*max(1, want) {
						t.Errorf("%+v: token %d has penalty %v, want %v", cases[i], token, -l, want)
					}
				}
			}
			if some < n {
				t.Errorf("%d penalties in %d cases", some, n)
			}
		})
	}
}

// Breakers that can not be done exactly are refused by name.
func TestRefusedBreakers(t *testing.T) {
	e := breakersOf(t, "llama3")
	dry := sampling.Settings{DRYMultiplier: 1, DRYPenaltyLastN: -1}
	var pairs []string
	for c := 'a'; c < 'u'; c++ {
		pairs = append(pairs, string([]rune{c, c + 1}))
	}
	for _, c := range []struct {
		r    Request
		want string
	}{
		{Request{DRYSequenceBreakers: []string{strings.Repeat("x", 41)}}, "more than 40 bytes"},
		{Request{DRYSequenceBreakers: []string{""}}, "is empty"},
		{Request{DRYSequenceBreakers: pairs}, "more than 15 sequences of tokens"},
		{Request{DRYSequenceBreakers: []string{"a<|eot_id|>"}}, "special token <|eot_id|>"},
		{Request{DRYBreakers: [][]int32{{1 << 20}}}, "has token 1048576"},
		{Request{DRYBreakers: [][]int32{{}}}, "has no tokens"},
	} {
		c.r.Sampling = dry
		_, err := e.forRequest(&c.r)
		var of interface{ Parameter() string }
		if !errors.Is(err, ErrInvalidRequest) || !errors.As(err, &of) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q %v: %v, want %q", c.r.DRYSequenceBreakers, c.r.DRYBreakers, err, c.want)
		}
	}
	e.maxLen = 10_000
	if _, err := e.forRequest(&Request{Sampling: dry}); err == nil || !strings.Contains(err.Error(), "give a number") {
		t.Errorf("a whole sequence of 10,000 tokens: %v", err)
	}
}
