package engine_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/text/tokenizer"
)

// smolLM2Tokenizer is the demo model's, whose first 256 tokens the contract's model draws: special ones, bytes and
// pairs of letters.
func smolLM2Tokenizer(t testing.TB) *tokenizer.Tokenizer {
	t.Helper()
	model, err := setup.FindModel("smollm2")
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.Open(model)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// withStops gives requests stop strings of their own texts, from free, which they draw without: several each, of which
// some begin or end within a token, and some are never there.
func withStops(requests []*engine.Request, free map[string]*engine.Completion) []*engine.Request {
	for i, r := range requests {
		for g := range r.N {
			text := []rune(free[fmt.Sprintf("%s/%d", r.ID, g)].Text)
			if len(text) < 2 || (i+g)%5 == 4 {
				continue
			}
			at := len(text) * (1 + i%7) / 8
			r.Stop = append(r.Stop, string(text[at:min(len(text), at+1+i%6)]), fmt.Sprintf("never %d", i))
		}
		if i%3 == 1 {
			r.Sampling.MinTokens = max(r.Sampling.MinTokens, r.MaxTokens/2)
		}
		if i%4 == 3 {
			r.StopSequences = append(r.StopSequences, []int32{7, 9}, []int32{55})
		}
	}
	return requests
}

// sameTexts is sameBytes for texts too.
func sameTexts(t *testing.T, want, got map[string]*engine.Completion) {
	t.Helper()
	sameBytes(t, want, got, true)
	for key, g := range got {
		if w := want[key]; w != nil && w.Text != g.Text {
			t.Errorf("%s: text %q, want %q", key, g.Text, w.Text)
		}
	}
}

// Where the device finds stop strings, completions are those of a host that looks for them behind each token, byte for
// byte, and no token is drawn behind them: with clones, swaps, small rooms for automata, strings without room, and
// devices together.
func TestStopStringsOnTheDevice(t *testing.T) {
	tok := smolLM2Tokenizer(t)
	on := func(change func(*engine.Config)) *engine.Engine {
		return contractEngine(t, func(c *engine.Config) {
			c.Tokenizer = tok
			if change != nil {
				change(c)
			}
		})
	}
	host := on(func(c *engine.Config) { c.StopStates = -1 })
	requests := func() []*engine.Request { return append(contractRequests()[:16], longRequests(12)...) }
	free := collect(t, host, requests()...)
	want := collect(t, host, withoutSequences(withStops(requests(), free))...)
	if s := host.Stats(); s.DrawnTokens <= s.GeneratedTokens {
		t.Errorf("the host keeps %d of %d tokens: no stop string is found", s.GeneratedTokens, s.DrawnTokens)
	}
	for name, c := range map[string]struct {
		change func(*engine.Config)
		slow   bool
		loses  bool // tokens behind a stop string
	}{
		"as it is": {}, "few pages": {change: func(c *engine.Config) { c.KVMemory = smallPool }},
		"room for few":    {change: func(c *engine.Config) { c.StopStates = 200 }, slow: true},
		"room for hardly": {change: func(c *engine.Config) { c.StopStates = 20 }, slow: true, loses: true},
		"contiguous":      {change: func(c *engine.Config) { c.KV = "basic" }, slow: true},
		"two devices": {change: func(c *engine.Config) {
			c.Backend = testenv.Group(t, xla.KernelsAuto, firstDevices(2)...)
		}, slow: true},
		"GoMLX's backend": {change: func(c *engine.Config) { c.Backend = testenv.Go(t) }, slow: true},
	} {
		t.Run(name, func(t *testing.T) {
			if c.slow {
				testenv.Slow(t)
			}
			e := on(c.change)
			got := collect(t, e, withoutSequences(withStops(requests(), free))...)
			if name == "two devices" || name == "GoMLX's backend" {
				sameTokens(t, want, got)
			} else {
				sameTexts(t, want, got)
			}
			s := e.Stats()
			if lost := s.DrawnTokens - s.GeneratedTokens; lost != 0 && !c.loses {
				t.Errorf("%d tokens are drawn behind stop strings", lost)
			}
			if name == "few pages" && s.Preemptions == 0 {
				t.Error("no sequence was moved: the test does not reach what it is for")
			}
		})
	}
}

func withoutSequences(requests []*engine.Request) []*engine.Request {
	for _, r := range requests {
		r.StopSequences = nil
	}
	return requests
}

// What is in the text changes no token: stop strings, special tokens. Stop strings are looked for in special tokens
// where the text has them.
func TestTextsAsAsked(t *testing.T) {
	tok := smolLM2Tokenizer(t)
	e := contractEngine(t, func(c *engine.Config) { c.Tokenizer = tok })
	free := collect(t, e, contractRequests()[:16]...)
	cut := collect(t, e, withoutSequences(withStops(contractRequests()[:16], free))...)
	included := withoutSequences(withStops(contractRequests()[:16], free))
	whole := contractRequests()[:16]
	for i := range whole {
		included[i].IncludeStop, whole[i].KeepSpecialTokens = true, true
	}
	stops := 0
	got := collect(t, e, included...)
	sameBytes(t, cut, got, true)
	for key, c := range got {
		rest := strings.TrimPrefix(c.Text, cut[key].Text)
		last := c.Tokens[len(c.Tokens)-1]
		byToken := slices.Contains(c.Request.StopTokens, last) && rest == tok.Decode([]int32{last}, true)
		if len(c.Text) != len(cut[key].Text)+len(rest) ||
			rest != "" && !byToken && !slices.Contains(c.Request.Stop, rest) {
			t.Errorf("%s: %q, and without what ended it %q", key, c.Text, cut[key].Text)
		}
		stops += min(1, len(rest))
	}
	special := 0
	got = collect(t, e, whole...)
	sameBytes(t, free, got, true)
	for key, c := range got {
		tokens := c.Tokens
		if c.FinishReason == engine.FinishStop && len(c.Request.Stop) == 0 {
			tokens = tokens[:len(tokens)-1]
		}
		if want := tok.Decode(tokens, false); len(c.Request.Stop) == 0 && c.Text != want {
			t.Errorf("%s: %q, want %q", key, c.Text, want)
		}
		if want := tok.Decode(tokens, true); len(c.Request.Stop) == 0 && free[key].Text != want {
			t.Errorf("%s without special tokens: %q, want %q", key, free[key].Text, want)
		}
		if c.Text != free[key].Text {
			special++
		}
	}
	if stops == 0 || special == 0 {
		t.Errorf("%d stop strings and %d texts with special tokens: the test tests nothing", stops, special)
	}
}

// A completion ends behind the first sequence of tokens that it has, and at any of however many tokens, from min_tokens
// on.
func TestStopSequences(t *testing.T) {
	e := contractEngine(t, nil)
	prompt := []int32{60, 70, 80, 90}
	free := collect(t, e, sampled("s", prompt, 4, 60, 5))
	for _, min := range []int{0, 20} {
		for name, sequences := range map[string][][]int32{
			"of one": {{free["s/0"].Tokens[30]}, {1000}},
			"of two": {free["s/0"].Tokens[10:12], free["s/1"].Tokens[40:42], free["s/2"].Tokens[:2]},
			"within": {free["s/3"].Tokens[20:25], free["s/3"].Tokens[21:23], {free["s/3"].Tokens[22], 300}},
		} {
			r := sampled("s", prompt, 4, 60, 5)
			r.StopSequences, r.Sampling.MinTokens = sequences, min
			for key, c := range collect(t, e, r) {
				all := free[key].Tokens
				n := len(all)
				for end := 1; end <= len(all) && n == len(all); end++ {
					for _, s := range sequences {
						if end > min && end >= len(s) && slices.Equal(all[end-len(s):end], s) {
							n = end
						}
					}
				}
				if !slices.Equal(c.Tokens, all[:n]) || (c.FinishReason == engine.FinishStop) != (n < len(all)) {
					t.Errorf("%s, min_tokens %d, %s: %v (%s), want the first %d of %v", name, min, key, c.Tokens,
						c.FinishReason, n, all)
				}
			}
		}
	}
	r := sampled("s", prompt, 4, 60, 5)
	for token := int32(100); token < 250; token++ {
		r.StopTokens = append(r.StopTokens, token)
	}
	for key, c := range collect(t, e, r) {
		at := slices.IndexFunc(free[key].Tokens, func(token int32) bool { return token >= 100 && token < 250 })
		if !slices.Equal(c.Tokens, free[key].Tokens[:at+1]) {
			t.Errorf("%s: %v, want the first %d of %v", key, c.Tokens, at+1, free[key].Tokens)
		}
	}
	if s := e.Stats(); s.DrawnTokens != s.GeneratedTokens {
		t.Errorf("%d tokens drawn for %d", s.DrawnTokens, s.GeneratedTokens)
	}
}

// The demo model's completions end in the step that draws the last token of a stop string: one that begins in the
// middle of a token, one that ends there, and several.
func TestStopStringsOfSmolLM2(t *testing.T) {
	testenv.Slow(t)
	tok := smolLM2Tokenizer(t)
	e, err := engine.New(t.Context(), engine.Config{Model: testenv.SmolLM2(t), Backend: testenv.XLA(t), Tokenizer: tok,
		MaxSeqs: 16, MaxModelLen: 512, KVMemory: 256 << 20, Debug: true})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	prompt, err := tok.Encode("The capital of France is", false)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(stop ...string) []*engine.Request {
		one, many := greedy("one", prompt, 64), sampled("many", prompt, 6, 64, 3)
		one.Stop, many.Stop = stop, stop
		return []*engine.Request{one, many}
	}
	free := collect(t, e, ask()...)
	text, tokens := free["one/0"].Text, free["one/0"].Tokens
	at := 20 + slices.IndexFunc(tokens[20:50], func(token int32) bool {
		return len(tok.Decode([]int32{token}, true)) > 4
	})
	cut := len(tok.Decode(tokens[:at], true))
	middle := text[cut+2 : cut+9] // begins behind the first two letters of that token
	if first := tok.Decode(tokens[at:at+1], true); len(first) < 5 || !strings.HasPrefix(text[cut:], first) {
		t.Fatalf("token %d is %q", at, first)
	}
	for _, stops := range [][]string{{middle}, {"\n\n", ". ", middle}, {"e"}, {" the"}} {
		got := collect(t, e, ask(stops...)...)
		s := e.Stats()
		if s.DrawnTokens != s.GeneratedTokens {
			t.Errorf("stops %q: %d tokens drawn for %d that are kept", stops, s.DrawnTokens, s.GeneratedTokens)
		}
		for key, c := range got {
			all, at := free[key].Text, -1
			for _, stop := range stops {
				if i := strings.Index(all, stop); i >= 0 && (at < 0 || i < at) {
					at = i
				}
			}
			if at < 0 {
				at = len(all)
			}
			if c.Text != all[:at] || !slices.Equal(c.Tokens, free[key].Tokens[:len(c.Tokens)]) {
				t.Errorf("stops %q, %s: %q, want %q", stops, key, c.Text, all[:at])
			}
		}
		t.Logf("stops %q: %d tokens drawn, %d kept", stops, s.DrawnTokens, s.GeneratedTokens)
	}
}
