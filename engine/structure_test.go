package engine_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// structures are of each kind. The i-th JSON schema is another one for each i.
func structures(i int) parameter.Structure {
	schema := fmt.Sprintf(`{"type": "object", "properties": {"name%d": {"type": "string", "maxLength": %d},
		"ages": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": %d}, "maxItems": 3},
		"tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": true, "maxItems": 4},
		"kind": {"enum": ["a%d", "b", null, true]}, "more": {"$ref": "#"}},
		"required": ["name%d", "ages", "kind"], "additionalProperties": false}`, i, 4+i%9, 10+i, i, i)
	return []parameter.Structure{
		{Kind: parameter.SchemaStructure, Text: schema},
		{Kind: parameter.RegexStructure, Text: fmt.Sprintf(`[a-f]{%d}(é|ü|日本)+ ?[0-9]{1,%d}`, 1+i%4, 2+i%3)},
		{Kind: parameter.ChoiceStructure, Text: fmt.Sprintf(`["yes", "no", "perhaps %d", "yes, but"]`, i)},
		{Kind: parameter.ObjectStructure},
		{Kind: parameter.SchemaStructure, Text: schema, Compact: true},
	}[i%5]
}

// wrongText says what is wrong with a text that ended: nothing, if it is of the structure.
func wrongText(s parameter.Structure, text string) error {
	switch s.Kind {
	case parameter.ChoiceStructure:
		if !slices.Contains(s.Choices(), text) {
			return errors.New("is none of the choices")
		}
		return nil
	case parameter.RegexStructure:
		if !regexp.MustCompile(`^(?:` + s.Text + `)$`).MatchString(text) {
			return errors.New("does not match")
		}
		return nil
	}
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		return err
	}
	if s.Kind == parameter.ObjectStructure {
		if _, ok := value.(map[string]any); !ok {
			return errors.New("is no object")
		}
		return nil
	}
	if s.Compact && strings.ContainsAny(text, "\n\t") {
		return errors.New("has whitespace")
	}
	schema, err := jsonschema.UnmarshalJSON(strings.NewReader(s.Text))
	if err != nil {
		return err
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", schema); err != nil {
		return err
	}
	compiled, err := c.Compile("schema.json")
	if err != nil {
		return err
	}
	return compiled.Validate(value)
}

// structureEngine is an engine of the contract's configuration, changed, whose model has an end-of-sequence token and
// the texts of SmolLM2's first tokens.
func structureEngine(t *testing.T, change func(*engine.Config)) *engine.Engine {
	t.Helper()
	cfg := contractConfig()
	cfg.Tokenizer, cfg.Features = smolLM2Tokenizer(t), engine.MaskedTokens
	cfg.Model = testenv.Model(t, contractFamily)
	cfg.Model.Config.EOS = []int32{2}
	if change != nil {
		change(&cfg)
	}
	withDefaults(t, &cfg)
	e, err := engine.New(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// structured are requests for texts of n structures, greedy and sampled, some with a number of tokens that they need.
func structured(n int) (requests []*engine.Request) {
	for i := range n {
		r := sampled(fmt.Sprintf("structured-%d", i), []int32{20, int32(40 + i), 60}, 1+i%3, 60+10*(i%4), uint64(i))
		r.IgnoreEOS = false
		if r.Structure = structures(i); i%7 == 3 {
			r.Sampling = sampling.Settings{TopP: 1}
		}
		if i%4 == 1 {
			r.Sampling.MinTokens = 12
		}
		requests = append(requests, r)
	}
	return requests
}

// checkTexts fails unless the texts that ended are of their structures.
func checkTexts(t *testing.T, got map[string]*engine.Completion) (ended int) {
	t.Helper()
	for key, c := range got {
		switch {
		case c.Err != nil:
			t.Errorf("%s: %v", key, c.Err)
		case c.FinishReason == engine.FinishStop:
			ended++
			if err := wrongText(c.Request.Structure, c.Text); err != nil {
				t.Errorf("%s: %q %v, for %s", key, c.Text, err, c.Request.Structure)
			}
		case len(c.Tokens) != c.Request.MaxTokens:
			t.Errorf("%s: %d tokens, %s", key, len(c.Tokens), c.FinishReason)
		}
	}
	return ended
}

// Texts are of their structures, and have the same bytes beside others, in another order, with little room for states,
// moved to the host and back, and on other backends.
func TestStructuredTexts(t *testing.T) {
	with := func(change func(*engine.Config)) *engine.Engine { return structureEngine(t, change) }
	e := with(nil)
	want := collect(t, e, structured(20)...)
	if ended := checkTexts(t, want); ended < len(want)/3 {
		t.Errorf("%d of %d texts ended", ended, len(want))
	}
	stats := e.Stats()
	if stats.MaskReturns > stats.Calls {
		t.Errorf("%d of %d calls returned for masks", stats.MaskReturns, stats.Calls)
	}
	t.Run("again", func(t *testing.T) {
		testenv.Slow(t)
		sameTexts(t, want, collect(t, e, structured(20)...))
	})
	t.Run("shuffled among others", func(t *testing.T) {
		all := append(structured(20), contractRequests()...)
		rand.New(rand.NewPCG(3, 4)).Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		got := collect(t, e, all...)
		for key := range got {
			if want[key] == nil {
				delete(got, key)
			}
		}
		sameTexts(t, want, got)
	})
	t.Run("ended half-way and begun again", func(t *testing.T) {
		again := with(nil) // as another process has it
		got, requests := collectSome(t, e, len(want)/2, structured(20)...), structured(20)
		for key, c := range collect(t, again, missing(requests, got)...) {
			got[key] = c
		}
		sameTexts(t, want, got)
	})
	for name, change := range map[string]func(*engine.Config){
		"room for few states": func(c *engine.Config) { c.MaskStates = 70 },
		"few pages":           func(c *engine.Config) { c.KVMemory, c.Admission = smallPool, engine.Overcommit },
		"no prefix cache":     func(c *engine.Config) { c.NoPrefixCache = true },
		"no stop strings":     func(c *engine.Config) { c.StopStates = -1 },
		"devices together":    func(c *engine.Config) { c.Backend = testenv.Group(t, xla.KernelsAuto, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			if name != "room for few states" && name != "few pages" {
				testenv.Slow(t)
			}
			e := with(change)
			got := collect(t, e, structured(20)...)
			if name == "devices together" { // whose sums are others
				sameTokens(t, want, got)
				return
			}
			sameTexts(t, want, got)
			switch stats := e.Stats(); {
			case name == "few pages" && stats.Preemptions == 0:
				t.Error("no sequence was moved: the test does not reach what it is for")
			case name == "room for few states" && stats.MaskWaits == 0:
				t.Error("no row waited beside others: the test does not reach what it is for")
			}
		})
	}
	t.Run("without kernels", func(t *testing.T) {
		testenv.Slow(t)
		got := collect(t, with(func(c *engine.Config) { c.Backend = testenv.XLAWithoutKernels(t) }), structured(20)...)
		sameTokens(t, want, got)
	})
}

// collectSome ends the run behind some of the completions.
func collectSome(t *testing.T, e *engine.Engine, n int, requests ...*engine.Request) map[string]*engine.Completion {
	t.Helper()
	got := map[string]*engine.Completion{}
	for c, err := range e.Run(t.Context(), slices.Values(requests)) {
		if err != nil {
			t.Fatal(err)
		}
		if got[fmt.Sprintf("%s/%d", c.Request.ID, c.Generation)] = c; len(got) == n {
			break
		}
	}
	return got
}

// missing are requests for the completions that are not there.
func missing(requests []*engine.Request, got map[string]*engine.Completion) (left []*engine.Request) {
	for _, r := range requests {
		for g := range r.N {
			if got[fmt.Sprintf("%s/%d", r.ID, g)] == nil {
				one := *r
				one.N, one.FirstGeneration = 1, g
				left = append(left, &one)
			}
		}
	}
	return left
}

// What can not be drawn is an error that says so, of that request alone.
func TestStructuresThatCanNotBeDrawn(t *testing.T) {
	e := structureEngine(t, nil)
	request := func(id, regex string, change func(*engine.Request)) *engine.Request {
		r := sampled(id, []int32{20, 30}, 1, 20, 1)
		r.IgnoreEOS = false
		if regex != "" {
			r.Structure = parameter.Structure{Kind: parameter.RegexStructure, Text: regex}
		}
		if change != nil {
			change(r)
		}
		return r
	}
	got := collect(t, e,
		request("fine", "ab", nil),
		// The text is complete before it has so many tokens.
		request("short", "ab", func(r *engine.Request) { r.Sampling.MinTokens = 15 }),
		request("wrong", "a(b", nil),
		request("endless", "ab", func(r *engine.Request) { r.IgnoreEOS = true }),
		request("none", "ab", func(r *engine.Request) { r.AllowedTokens = []int32{200} }),
		request("empty", "", func(r *engine.Request) { r.AllowedTokens = []int32{} }),
		request("beyond", "", func(r *engine.Request) { r.AllowedTokens = []int32{256} }),
		request("wordless", "", func(r *engine.Request) { r.BadWords = [][]int32{{}} }),
	)
	for id, want := range map[string]string{
		"fine": "", "short": "", "wrong": "missing closing )", "endless": "ignore_eos with a structure",
		"none":  "no token may follow token 0 of the completion",
		"empty": "allowed_token_ids is empty", "beyond": "allowed_token_ids[0] is 256", "wordless": "bad_words[0] has",
	} {
		c := got[id+"/0"]
		switch {
		case c == nil || (c.Err == nil) != (want == ""):
			t.Errorf("%s: %+v", id, c)
		case c.Err != nil && !strings.Contains(c.Err.Error(), want):
			t.Errorf("%s: %v, want %q", id, c.Err, want)
		case c.Err == nil && (c.Text != "ab" || c.FinishReason != engine.FinishStop):
			t.Errorf("%s: %q, %s", id, c.Text, c.FinishReason)
		}
	}
	if err := got["none/0"].Err; !errors.Is(err, engine.ErrDeadEnd) {
		t.Errorf("%v is not ErrDeadEnd", err)
	}
}

// SmolLM2 draws nothing but valid JSON at temperature 1, 64 rows of different schemas beside each other.
func TestSmolLM2DrawsValidJSON(t *testing.T) {
	testenv.Slow(t)
	tok := smolLM2Tokenizer(t)
	e, err := engine.New(t.Context(), engine.Config{Model: testenv.SmolLM2(t), Tokenizer: tok,
		Backend: testenv.XLA(t), DType: dtypes.BFloat16, MaxSeqs: 64, MaxModelLen: 256, KVMemory: 1 << 30,
		Features: engine.MaskedTokens})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	prompt, err := tok.Encode("Tell me about a person, as JSON:", false)
	if err != nil {
		t.Fatal(err)
	}
	var requests []*engine.Request
	for i := range 64 {
		r := &engine.Request{ID: fmt.Sprint(i), Tokens: prompt, N: 1, MaxTokens: 200,
			Sampling: sampling.Settings{Temperature: 1, TopP: 1, Seed: uint64(i)}, Structure: structures(i)}
		requests = append(requests, r)
	}
	got := collect(t, e, requests...)
	ended := checkTexts(t, got)
	stats := e.Stats()
	t.Logf("%d of %d texts ended; %d of %d calls returned for masks, %d tokens waited", ended, len(got),
		stats.MaskReturns, stats.Calls, stats.MaskWaits)
	if ended < len(got)/2 {
		t.Errorf("%d of %d texts ended", ended, len(got))
	}
}
