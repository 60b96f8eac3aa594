package engine_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"

	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
)

// featured are the features, each with what makes a request ask for it, the i-th of several.
var featured = []struct {
	engine.Features
	ask func(i int, r *engine.Request)
}{
	{engine.Penalties, func(i int, r *engine.Request) {
		r.Sampling.RepetitionPenalty = []float64{1, 1.3, 0.7}[i%3]
		r.Sampling.FrequencyPenalty = []float64{0.5, 0, -0.3, 0}[i%4]
		r.Sampling.PresencePenalty = []float64{0.1, 0.9}[i%2]
	}},
	{engine.MaskedTokens, askForMasks},
	{engine.Biases, askForBiases},
	{engine.Filters, askForFilters},
	{engine.TopLogprobs, func(i int, r *engine.Request) { r.TopLogprobs = []int{5, 0, 20, 1}[i%4] }},
	{engine.PromptLogprobs, func(i int, r *engine.Request) {
		r.ScorePrompt, r.PromptTopLogprobs = i%5 != 1, []int{0, 3}[i%2]
	}},
	{engine.Thinking | engine.Biases, askForThinking},
	{engine.DRY, askForDRY},
	{engine.NoRepeat, func(i int, r *engine.Request) { r.Sampling.NoRepeatNgramSize = []int{1, 2, 3, 0}[i%4] }},
	{engine.Penalties | engine.MaskedTokens | engine.Biases | engine.Filters | engine.DRY, func(i int,
		r *engine.Request) {
		askForMasks(i, r)
		askForDRY(i, r)
		askForThinking(i, r)
		askForBiases(i, r)
		askForFilters(i, r)
		r.Sampling.FrequencyPenalty, r.Sampling.RepetitionPenalty = 0.4, 1.1
	}},
}

func askForBiases(i int, r *engine.Request) {
	r.LogitBias = map[int32]float32{int32(i): 3, 77: -100, 131: float32(i % 3)}
	if i%2 == 0 { // more than a row has room for, until it has so many
		r.Sampling.MinTokens = 9
		for token := range int32(12) {
			r.StopTokens = append(r.StopTokens, 20*token+int32(i))
		}
	}
}

// askForDRY penalizes what repeats even single tokens, so that most rows have penalties.
func askForDRY(i int, r *engine.Request) {
	r.Sampling.DRYMultiplier, r.Sampling.DRYBase = []float64{0.8, 3}[i%2], []float64{1.75, 1.1, 0}[i%3]
	r.Sampling.DRYAllowedLength, r.Sampling.DRYPenaltyLastN = i%3, []int{-1, 64, 20}[i%3]
	if i%4 != 0 {
		r.DRYBreakers = [][]int32{{int32(i)}, {2, 4}, {77}, {131, 9, 4}, {200, 3}}
	}
}

func askForFilters(i int, r *engine.Request) {
	r.Sampling.TopNSigma = []float64{0, 1.5}[i%2]
	r.Sampling.TypicalP = []float64{0.8, 1, 0.5}[i%3]
	r.Sampling.XTCProbability, r.Sampling.XTCThreshold = []float64{0.5, 0, 1, 0.3}[i%4], 0.02
}

func askForThinking(i int, r *engine.Request) {
	r.Thinking = &engine.Thought{Start: 250, End: 255, Most: i % 7, Open: i%3 != 0}
	if i%3 == 0 { // they begin by themselves
		r.LogitBias = map[int32]float32{250: 100}
	}
}

func askForMasks(i int, r *engine.Request) {
	if i%3 != 0 {
		for token := range int32(256) {
			if token%int32(2+i%5) == 0 || token > 200 {
				r.AllowedTokens = append(r.AllowedTokens, token)
			}
		}
	}
	if i%3 != 1 {
		r.BadWords = [][]int32{{int32(i)}, {2, 4}, {2, 6, 8}, {6, 8, 10, 12}}
		for token := range int32(40) {
			r.BadWords = append(r.BadWords, []int32{token, token + 1}, []int32{240 - token, token, 200})
		}
	}
}

// withFeature are the requests, which ask for a feature.
func withFeature(k int, requests []*engine.Request) []*engine.Request {
	for i, r := range requests {
		r.ID = fmt.Sprintf("%s with %s", r.ID, featured[k].Features)
		featured[k].ask(i, r)
	}
	return requests
}

// allFeatures are all of them, and requests without any and with each.
func allFeatures(requests func() []*engine.Request) (features engine.Features, all []*engine.Request) {
	all = requests()
	for k := range featured {
		features |= featured[k].Features
		all = append(all, withFeature(k, requests())...)
	}
	return features, all
}

// The program that draws is compiled anew with the first request that asks for a feature, and not again. Rows without
// it draw the same in all of its forms.
func TestFeaturesAreCompiledOnce(t *testing.T) {
	b := testenv.XLA(t)
	compiled := func() int64 { return int64(b.Compiles() + b.CacheLoads()) }
	e := newEngine(t, contractFamily, contractConfig())
	want := wantOfContract(t)
	drawn := map[string]*engine.Completion{}
	var have engine.Features
	grow := featured
	if testing.Short() {
		grow = featured[:2] // each compiles a program
	}
	for k, f := range grow {
		for range 2 {
			compiles := int64(1)
			if have.Has(f.Features) {
				compiles = 0
			}
			have |= f.Features
			before := compiled()
			got := collect(t, e, append(contractRequests(), withFeature(k, contractRequests())...)...)
			if n := compiled() - before; n != compiles {
				t.Errorf("%s: %d programs were compiled, want %d", f.Features, n, compiles)
			}
			plain := map[string]*engine.Completion{}
			for key, c := range got {
				if want[key] != nil {
					plain[key] = c
				} else {
					drawn[key] = c
				}
			}
			sameBytes(t, want, plain, true)
		}
	}
	if testing.Short() {
		return
	}
	cfg := contractConfig()
	features, requests := allFeatures(contractRequests)
	cfg.Features = features
	at := newEngine(t, contractFamily, cfg)
	start := compiled()
	got := collect(t, at, requests...)
	for key, c := range want {
		drawn[key] = c
	}
	sameBytes(t, drawn, got, true)
	if compiled() != start {
		t.Errorf("%d programs were compiled for features that the config names", compiled()-start)
	}
	if names := at.Plan().Features; !slices.Equal(names, features.Names()) {
		t.Errorf("the plan has features %v, want %v", names, features.Names())
	}
}

// Rows that ask for features draw the same bytes in any order, alone, as clones, with other pages, and where they are
// moved to the host and back.
func TestFeaturesWhateverElseRuns(t *testing.T) {
	features, requests := allFeatures(contractRequests)
	with := func(change func(c *engine.Config)) *engine.Engine {
		return contractEngine(t, func(c *engine.Config) {
			c.Features = features
			if change != nil {
				change(c)
			}
		})
	}
	e := with(nil)
	want := collect(t, e, requests...)
	t.Run("shuffled", func(t *testing.T) {
		_, r := allFeatures(contractRequests)
		rand.New(rand.NewPCG(1, 2)).Shuffle(len(r), func(i, j int) { r[i], r[j] = r[j], r[i] })
		sameBytes(t, want, collect(t, e, r...), true)
	})
	t.Run("alone", func(t *testing.T) {
		_, r := allFeatures(contractRequests)
		for i := len(contractRequests()); i < len(r); i += 7 {
			sameBytes(t, want, collect(t, e, r[i]), false)
		}
	})
	t.Run("clones as separate requests", func(t *testing.T) {
		testenv.Slow(t)
		var single []*engine.Request
		for _, r := range requests[len(contractRequests()):] {
			for g := range r.N {
				one := *r
				one.N, one.FirstGeneration = 1, g
				single = append(single, &one)
			}
		}
		sameBytes(t, want, collect(t, e, single...), false)
	})
	for name, change := range map[string]func(*engine.Config){
		"page size 8":      func(c *engine.Config) { c.PageSize = 8 },
		"contiguous":       func(c *engine.Config) { c.KV = "basic" },
		"64 slots":         func(c *engine.Config) { c.MaxSeqs = 64 },
		"no prefix cache":  func(c *engine.Config) { c.NoPrefixCache = true },
		"devices together": func(c *engine.Config) { c.Backend = testenv.Group(t, xla.KernelsAuto, 0, 1) },
	} {
		t.Run(name, func(t *testing.T) {
			testenv.Slow(t)
			got := collect(t, with(change), requests...)
			if name == "devices together" { // whose sums are others
				sameTokens(t, want, got)
				return
			}
			sameBytes(t, want, got, true)
		})
	}
	t.Run("moved to the host and back", func(t *testing.T) {
		testenv.Slow(t)
		_, long := allFeatures(func() []*engine.Request { return longRequests(9) })
		want := collect(t, e, long...)
		few := with(func(c *engine.Config) { c.KVMemory, c.Admission = smallPool, engine.Overcommit })
		sameBytes(t, want, collectInOrder(t, few, long...), true)
		if few.Stats().Preemptions == 0 {
			t.Error("no sequence was moved: the test does not reach what it is for")
		}
	})
}

// Without kernels, and on GoMLX's backend in pure Go, rows that ask for features draw the same tokens.
func TestFeaturesWithoutKernels(t *testing.T) {
	testenv.Slow(t)
	features, requests := allFeatures(func() []*engine.Request { return contractRequests()[:5] })
	with := func(backend compute.Backend) map[string]*engine.Completion {
		return collect(t, contractEngine(t, func(c *engine.Config) { c.Features, c.Backend = features, backend }),
			requests...)
	}
	want := with(testenv.XLA(t))
	sameTokens(t, want, with(testenv.XLAWithoutKernels(t)))
	sameTokens(t, want, with(testenv.Go(t)))
}

// A repetition penalty beyond all logits leaves no token that the prompt or the completion has.
func TestNothingIsRepeated(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.Penalties })
	var requests []*engine.Request
	for i, base := range contractRequests()[:10] {
		r := greedy(fmt.Sprint("r", i), base.Tokens, 60)
		r.N = 1 + i%3
		r.Sampling.RepetitionPenalty = 1e30
		requests = append(requests, r)
	}
	for key, c := range collect(t, e, requests...) {
		seen := map[int32]bool{}
		for _, token := range c.Request.Tokens {
			seen[token] = true
		}
		for _, token := range c.Tokens {
			if seen[token] {
				t.Errorf("%s: token %d again: %v behind %v", key, token, c.Tokens, c.Request.Tokens)
				break
			}
			seen[token] = true
		}
	}
}

// Each token of a greedy row without repetitions is the likeliest that ends no sequence which the row has already.
func TestLikeliestWithoutRepetitions(t *testing.T) {
	e := contractEngine(t, func(c *engine.Config) {
		c.Features = engine.NoRepeat | engine.TopLogprobs | engine.WideLogprobs
	})
	var requests []*engine.Request
	for i, base := range contractRequests()[:12] {
		r := greedy(fmt.Sprint("r", i), base.Tokens, 40)
		r.Sampling.NoRepeatNgramSize, r.TopLogprobs = 1+i%3, 256
		requests = append(requests, r)
	}
	others := 0
	for key, c := range collect(t, e, requests...) {
		if c.Err != nil {
			t.Fatal(c.Err)
		}
		n, all := c.Request.Sampling.NoRepeatNgramSize, slices.Clone(c.Request.Tokens)
		repeats := func(token int32) bool {
			last := append(slices.Clone(all[max(0, len(all)-n+1):]), token)
			for i := range max(0, len(all)-n+1) {
				if slices.Equal(all[i:i+n], last) {
					return true
				}
			}
			return false
		}
		for i, token := range c.Tokens {
			at := slices.IndexFunc(c.TopIDs[i], func(t int32) bool { return !repeats(t) })
			if at < 0 || c.TopIDs[i][at] != token {
				t.Errorf("%s: token %d is %d, want place %d of %v", key, i, token, at, c.TopIDs[i][:9])
				break
			}
			others += at
			all = append(all, token)
		}
	}
	if others < 50 {
		t.Errorf("only %d likelier tokens were barred", others)
	}
}

// What could bar every token that a row may draw is refused, and rows that may be longer than is looked at.
func TestNoRepeatRefuses(t *testing.T) {
	cfg := contractConfig()
	cfg.Model = testenv.Model(t, contractFamily)
	check := func(want string, change func(r *engine.Request)) {
		t.Helper()
		r := greedy("r", []int32{1, 2, 3}, 4)
		r.Sampling.NoRepeatNgramSize = 3
		change(r)
		err := engine.NewChecker(cfg).Check(r)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	check("", func(*engine.Request) {})
	check("with allowed_token_ids", func(r *engine.Request) { r.AllowedTokens = []int32{1, 2} })
	check("with a structure", func(r *engine.Request) { r.Structure = parameter.Structure{Kind: "regex", Text: "a"} })
	check("0 <= no_repeat_ngram_size", func(r *engine.Request) { r.Sampling.NoRepeatNgramSize = -1 })
	cfg.MaxModelLen = 9000
	check("`max-model-len`", func(*engine.Request) {})
}

// DRY beyond all logits lets no sequence of more tokens than are allowed come twice, but for what breakers end.
func TestNothingLongIsRepeated(t *testing.T) {
	const allowed = 2
	e := contractEngine(t, func(c *engine.Config) { c.Features = engine.DRY })
	var requests []*engine.Request
	for i, base := range contractRequests()[:8] {
		r := greedy(fmt.Sprint("r", i), base.Tokens, 60)
		r.N = 1 + i%3
		r.Sampling.DRYMultiplier, r.Sampling.DRYBase, r.Sampling.DRYPenaltyLastN = 1e30, 1, -1
		r.Sampling.DRYAllowedLength = allowed
		requests = append(requests, r)
	}
	for key, c := range collect(t, e, requests...) {
		all := slices.Concat(c.Request.Tokens, c.Tokens)
		seen := map[[allowed + 1]int32]bool{}
		for k := range len(all) - allowed {
			part := [allowed + 1]int32(all[k:])
			if seen[part] && k+allowed >= len(c.Request.Tokens) {
				t.Errorf("%s: tokens %v again: %v behind %v", key, part, c.Tokens, c.Request.Tokens)
				break
			}
			seen[part] = true
		}
	}
}
