package schedule_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/engine/schedule/model"
)

const mostTops = 3

// likelihood is what the model of the device says of a token behind others.
func likelihood(before []int32, token int32, tops int) (logprob float32, ids []int32, logprobs []float32) {
	h := fnv.New64a()
	fmt.Fprint(h, before, token)
	for k := range tops {
		ids, logprobs = append(ids, int32(len(before)+k)), append(logprobs, -float32(before[len(before)-1])-float32(k))
	}
	return -float32(h.Sum64()%1000) / 7, ids, logprobs
}

// drawScoring lets some requests ask for scores.
func drawScoring(t *rapid.T, r *schedule.Request) {
	r.Tops = rapid.SampledFrom([]int{0, 0, 0, 1, mostTops}).Draw(t, "tops")
	if r.Score = rapid.SampledFrom([]int{0, 0, 1, 1, 1 + mostTops}).Draw(t, "score"); r.Score > 0 {
		if rapid.Bool().Draw(t, "scores only") {
			r.ScoresOnly, r.MaxLen, r.Stop, r.OnDevice = true, len(r.Tokens)+1, nil, false
		}
		if n := len(r.Tokens); n > 1 && rapid.Bool().Draw(t, "scores the end") {
			r.N, r.ScoreFrom = 1, rapid.IntRange(1, n-1).Draw(t, "score from")
		} else {
			r.Context = schedule.None
		}
	}
}

// wantedScores is what must be told with a completion.
func wantedScores(r *schedule.Request, drawn []int32) string {
	c := &schedule.Completion{Request: r}
	all := slices.Concat(r.Tokens, drawn)
	for i := len(r.Tokens); i < len(all) && r.Tops > 0; i++ {
		_, ids, logprobs := likelihood(all[:i], all[i], r.Tops)
		c.TopIDs, c.TopLogprobs = append(c.TopIDs, ids), append(c.TopLogprobs, logprobs)
	}
	if r.Score == 0 {
		return scoresOf(c)
	}
	c.Prompt = &schedule.Scores{Logprobs: []float32{float32(math.NaN())}}
	if r.Score > 1 {
		c.Prompt.TopIDs, c.Prompt.TopLogprobs = [][]int32{{}}, [][]float32{{}}
	}
	for i := 1; i < len(r.Tokens); i++ {
		logprob, ids, logprobs := likelihood(r.Tokens[:i], r.Tokens[i], r.Score-1)
		if i < r.ScoreFrom {
			logprob, ids, logprobs = float32(math.NaN()), make([]int32, r.Score-1), make([]float32, r.Score-1)
		}
		c.Prompt.Logprobs = append(c.Prompt.Logprobs, logprob)
		if r.Score > 1 {
			c.Prompt.TopIDs, c.Prompt.TopLogprobs = append(c.Prompt.TopIDs, ids), append(c.Prompt.TopLogprobs, logprobs)
		}
	}
	return scoresOf(c)
}

func scoresOf(c *schedule.Completion) string {
	s := fmt.Sprint(c.TopIDs, c.TopLogprobs)
	if p := c.Prompt; p != nil {
		s += fmt.Sprint(p.Logprobs, p.TopIDs, p.TopLogprobs)
	}
	return s
}

// What prompts have in common is scored once, but for the last token of a prefix that others take over, and what was
// scored in pages is not scored again.
func TestSharedPrefixIsScoredOnce(t *testing.T) {
	const prefixLen, pageSize = 64, 4
	s := schedule.Sizes{MaxSeqs: 4, Slots: 4, PageSize: pageSize, PrefixRows: 2, MaxRounds: 4, Pages: 100,
		PagesPerSeq: 64, PromptLimit: 256, Paged: true, PrefixCache: true, BlockPages: 2, Staged: 1}
	w := &work{device: model.New(s, 16), inOrder: true, index: prefix.NewIndex(s.Pages)}
	w.device.Draw = func(s model.Sequence) (int32, schedule.Finish) { return 1, schedule.AtLength }
	w.device.ScorePlaces, w.device.Tops = 64, mostTops
	scored := 0
	w.device.Score = func(before []int32, token int32, tops int) (float32, []int32, []float32) {
		scored++
		return likelihood(before, token, tops)
	}
	common := slices.Repeat([]int32{1, 2, 3, 2}, prefixLen/4)
	for id := range 8 {
		r := &schedule.Request{Tag: number(id), Context: schedule.None, N: 2,
			Scoring: schedule.Scoring{Score: 1, ScoresOnly: true},
			Tokens:  slices.Concat(common, []int32{int32(4 + id), 5})}
		r.MaxLen = len(r.Tokens) + 1
		w.requests = append(w.requests, r)
	}
	var stats schedule.Stats
	var calls atomic.Int64
	for run := range 2 {
		scored = 0
		cfg := &schedule.Config{Sizes: s, Device: w.device, Index: w.index, FreePages: s.Pages, Pool: s.Pages,
			PrefixSeed: seed, Stats: &stats, Calls: &calls, Now: time.Now, InOrder: true}
		intake, out := make(chan *schedule.Request, len(w.requests)), make(chan *schedule.Completion, 100)
		for _, r := range w.requests {
			intake <- r
		}
		close(intake)
		if err := cfg.Run(context.Background(), intake, out); err != nil {
			t.Fatal(err)
		}
		close(out)
		for c := range out {
			if got, want := scoresOf(c), wantedScores(c.Request, nil); got != want {
				t.Errorf("run %d: %s, want %s", run, got, want)
			}
		}
		// Each row of a prompt scores the tokens behind the prefix, and one of the prefix or a page of it again.
		if most := prefixLen + len(w.requests)*2*(2+pageSize); scored > most {
			t.Errorf("run %d: %d tokens were scored, and %d are enough", run, scored, most)
		}
	}
}
