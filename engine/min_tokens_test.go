package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/text/tokenizer"
)

// Until a completion has min_tokens tokens it draws none that ends it; from then on they are drawn, and end it.
func TestMinTokens(t *testing.T) {
	e := contractEngine(t, nil)
	prompt := []int32{60, 70, 80, 90}
	free := collect(t, e, greedy("g", prompt, 40))["g/0"].Tokens
	stops := []int32{free[3], free[9]}
	first := slices.Index(free, stops[0])

	r := greedy("g", prompt, 40)
	r.StopTokens = stops
	r.Sampling.MinTokens = first // barred before it alone, where none would be drawn
	if c := collect(t, e, r)["g/0"]; !slices.Equal(c.Tokens, free[:first+1]) || c.FinishReason != engine.FinishStop {
		t.Errorf("got %+v, want the first %d of %v", c, first+1, free)
	}
	r.Sampling.MinTokens = 20
	c := collect(t, e, r)["g/0"]
	ended := slices.IndexFunc(c.Tokens, func(token int32) bool { return slices.Contains(stops, token) })
	if !slices.Equal(c.Tokens[:first], free[:first]) || len(c.Tokens) < 20 || ended >= 0 && ended < 20 {
		t.Errorf("%v ends at %d; barred are %v, which %v has", c.Tokens, ended, stops, free)
	}
	if (c.FinishReason == engine.FinishStop) != (ended == len(c.Tokens)-1) {
		t.Errorf("%v: %s, a stop at %d", c.Tokens, c.FinishReason, ended)
	}

	// Tokens that are barred and end nothing, as the model's own with ignore_eos; and each generation on its own.
	s := sampled("s", prompt, 8, 60, 5)
	s.StopTokens = nil
	for token := range int32(8) {
		s.StopTokens = append(s.StopTokens, -2-token*16)
	}
	count := func(min int) (before, after int) {
		s.Sampling.MinTokens = min
		for _, c := range collect(t, e, s) {
			for i, token := range c.Tokens {
				switch {
				case !slices.Contains(s.StopTokens, -2-token):
				case i < min:
					before++
				default:
					after++
				}
			}
			if len(c.Tokens) != 60 || c.FinishReason != engine.FinishLength {
				t.Errorf("%d tokens, %s", len(c.Tokens), c.FinishReason)
			}
		}
		return before, after
	}
	if _, drawn := count(0); drawn == 0 {
		t.Error("none of the tokens is ever drawn")
	}
	if before, after := count(30); before != 0 || after == 0 {
		t.Errorf("%d barred tokens among the first 30, %d behind", before, after)
	}
}

// A stop string counts from the token behind min_tokens on, wherever it begins.
func TestMinTokensAndStopStrings(t *testing.T) {
	model, err := setup.FindModel("smollm2")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	e := contractEngine(t, func(c *engine.Config) { c.Tokenizer = tok })
	prompt := []int32{60, 70, 80, 90}
	free := collect(t, e, sampled("r", prompt, 1, 40, 11))["r/0"]
	for at := 0; at < len(free.Text)-4; at += 3 {
		stop := free.Text[at : at+3]
		for _, min := range []int{0, 1, 10, 30, 39} {
			r := sampled("r", prompt, 1, 40, 11)
			r.Stop, r.Sampling.MinTokens = []string{stop}, min
			c := collect(t, e, r)["r/0"]
			// The first that ends behind the text of min tokens.
			text := ""
			stream := tok.NewStream()
			for _, token := range free.Tokens[:min] {
				text += stream.Push(token)
			}
			from := max(0, len(text)-len(stop)+1)
			want := free.Text
			if i := strings.Index(free.Text[from:], stop); i >= 0 {
				want = free.Text[:from+i]
			}
			if c.Text != want || len(c.Tokens) < min {
				t.Fatalf("stop %q, min_tokens %d: %q, want %q of %q", stop, min, c.Text, want, free.Text)
			}
		}
	}
}
