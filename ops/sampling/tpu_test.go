package sampling_test

import (
	"math/rand/v2"
	"regexp"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/backend"
	"github.com/quire/quire/backend/hlo"
	"github.com/quire/quire/backend/xla"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/sampling"
)

// likeTPU is a backend that claims to be a TPU's: the sampler is then built without sorts.
type likeTPU struct{ compute.Backend }

func (likeTPU) Traits() backend.Traits { return backend.For(backend.TPU) }

// The form for TPU searches thresholds in the whole vocabulary; it samples the same, bit for bit.
func TestFormForTPUDrawsTheSame(t *testing.T) {
	plain, tpu := newSampler(t, testenv.XLAWithoutKernels(t)), newSampler(t, likeTPU{testenv.XLAWithoutKernels(t)})
	r := rand.New(rand.NewPCG(31, 32))
	rows := make([]row, 33)
	for range 4 {
		for i := range rows {
			rows[i] = row{logits: languageLike(r, 9000), settings: filters[i%len(filters)],
				key: sampling.RequestKey(r.Uint64(), 1, 2), position: int32(i)}
		}
		got := tpu.draw(t, rows)
		for i, want := range plain.draw(t, rows) {
			if got[i] != want {
				t.Errorf("%+v: %+v, want %+v", rows[i].settings, got[i], want)
			}
		}
	}
}

// Drawing tokens of a Llama 3 takes a TPU few passes over the vocabulary, so its compiler expects: 270,000 cycles where
// no row has a filter, and for each round of a search for top-k 70,000, for top-p 95,000. It was 1,300,000, 117,000 and
// 125,000 for half of what a round finds, and the logits were written in another order six times, now once.
func TestSamplerForTPU(t *testing.T) {
	testenv.Slow(t)
	const n, vocabulary = 64, 128256
	view := testenv.Topology(t, "v6e:1x1").Donating(nil).(*xla.View)
	g := NewGraph(view, "sampler")
	defer g.Finalize()
	floats := func(name string) *Node { return Parameter(g, name, shapes.Make(dtypes.Float32, n)) }
	ints := func(name string) *Node { return Parameter(g, name, shapes.Make(dtypes.Int32, n)) }
	p := sampling.Params{Temperature: floats("temperature"), TopP: floats("top_p"), MinP: floats("min_p"),
		TopK: ints("top_k"), Key: Parameter(g, "key", shapes.Make(dtypes.Uint32, n, 2))}
	logits := Parameter(g, "logits", shapes.Make(dtypes.Float32, n, vocabulary))
	tokens, logprobs, processed := sampling.Sample(logits, p, ints("positions"),
		Parameter(g, "rows", shapes.Make(dtypes.Int32)))
	if err := g.Compile(tokens, logprobs, processed); err != nil {
		t.Fatal(err)
	}
	text, err := view.Executables()[0].OptimizedHLO()
	if err != nil {
		t.Fatal(err)
	}
	// No filters, and one round of each search.
	got := hlo.Read(text).Cycles()
	if t.Logf("%d cycles", got); got > 800_000 {
		t.Errorf("the compiler expects %d cycles, want at most 800,000", got)
	}
	if moved := regexp.MustCompile(`= \w+\[(64,1002,128|64,128256|128256,64|8208384)\]\S* (reshape|copy)\(.*`).
		FindAllString(text, -1); len(moved) > 1 {
		t.Errorf("the logits are written in another order %d times: %q", len(moved), moved)
	}
}
