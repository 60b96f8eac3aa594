package engine_test

import (
	"fmt"
	"math"
	"os"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/text/tokenizer"
)

// What keys and values of 8 bits cost: the perplexity of SmolLM2 on what was this repository's documentation once, in
// windows of 1,024 tokens, and how long its greedy tokens stay those of float keys and values.
func TestQuantizedKeysOfSmolLM2(t *testing.T) {
	testenv.Slow(t)
	const window, windows, drawn = 1024, 8, 64
	ckpt := testenv.SmolLM2(t)
	tok, err := tokenizer.Open(ckpt.TokenizerSource())
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(testenv.Path("models", "decoder", "testdata", "perplexity.txt"))
	if err != nil {
		t.Fatal(err)
	}
	ids, err := tok.Encode(string(text), false)
	if err != nil {
		t.Fatal(err)
	}
	ids = ids[:window*windows]
	const dtype = dtypes.BFloat16
	full, want := 0.0, map[string]*engine.Completion(nil)
	for _, kv := range []dtypes.DType{dtype, dtypes.Int8, dtypes.F8E4M3FN} {
		e, err := engine.New(t.Context(), engine.Config{Model: ckpt, Backend: testenv.XLA(t), MaxSeqs: 32,
			MaxModelLen: window, KVMemory: 1 << 30, DType: dtype, KVDType: kv, Contexts: 2, NoPrefixCache: true})
		if err != nil {
			t.Fatal(err)
		}
		loss := 0.0
		var requests []*engine.Request
		for from := 0; from < len(ids); from += window {
			part := ids[from : from+window]
			loss += lossInContext(t, e, part)
			for i := range 4 {
				requests = append(requests, greedy(fmt.Sprint(from, " ", i), part[i*200:][:100+60*i], drawn))
			}
		}
		perplexity := math.Exp(loss / float64(len(ids)-windows))
		got := collect(t, e, requests...)
		e.Close()
		if want == nil {
			full, want = perplexity, got
		}
		same, all, whole := 0, 0, 0
		for key, w := range want {
			n := 0
			for n < len(w.Tokens) && w.Tokens[n] == got[key].Tokens[n] {
				n++
			}
			same, all = same+n, all+len(w.Tokens)
			if n == len(w.Tokens) {
				whole++
			}
		}
		t.Logf("%s, keys and values %s: perplexity %.4f (%+.3f %%); %d of %d greedy tokens until each row's first "+
			"other one, %d of %d rows whole", dtype, kv, perplexity, 100*(perplexity/full-1), same, all, whole,
			len(want))
		most := 1.01
		if kv == dtypes.F8E4M3FN {
			most = 1.05
		}
		if !(perplexity < full*most) {
			t.Errorf("%s keys and values raise the perplexity from %g to %g", kv, full, perplexity)
		}
		if same*3 < all {
			t.Errorf("of %d greedy tokens with %s keys and values only %d come before another one", all, kv, same)
		}
	}
}

// lossInContext sums -log p over the tokens behind the first.
func lossInContext(t *testing.T, e *engine.Engine, ids []int32) (sum float64) {
	t.Helper()
	c, err := e.Contexts().Open()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Append(ids[0]); err != nil {
		t.Fatal(err)
	}
	logprobs, err := c.Score(t.Context(), ids[1:])
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range logprobs {
		sum -= float64(x)
	}
	return sum
}
