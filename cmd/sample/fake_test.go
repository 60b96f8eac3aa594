package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/setting"
	"github.com/quire/quire/engine"
	"github.com/quire/quire/models/arch"
)

// fakeLen is the longest prompt that the fake engine takes, in tokens.
const fakeLen = 200

// fakeModels opens sessions whose tokens are bytes and whose completions repeat the prompt. Models are files called
// *.fake. opened, if it is set, may change the engine.
type fakeModels struct {
	opened func(*spec.Job, *fakeEngine)
}

func (f fakeModels) OpenSession(_ context.Context, o *spec.Job, _ *process.Process) (*process.Session, error) {
	if _, err := os.Stat(o.Model); err != nil {
		return nil, fmt.Errorf("model %s: %w", o.Model, err)
	}
	if opened := os.Getenv("QUIRE_FAKE_OPENED"); opened != "" { // a file that says that a model was loaded
		_ = os.WriteFile(opened, nil, 0o666)
	}
	e := &fakeEngine{maxSeqs: 4, longest: fakeLen,
		patience: 100 * time.Millisecond, count: os.Getenv("QUIRE_FAKE_COUNT")}
	e.delay, _ = time.ParseDuration(os.Getenv("QUIRE_FAKE_DELAY"))
	e.stall, _ = time.ParseDuration(os.Getenv("QUIRE_FAKE_STALL"))
	e.deadly, e.held = os.Getenv("QUIRE_FAKE_DEADLY"), os.Getenv("QUIRE_FAKE_HELD")
	e.hang = os.Getenv("QUIRE_FAKE_HANG")
	if name := os.Getenv("QUIRE_FAKE_REMOVE"); name != "" { // an input that is lost while the job runs
		_ = os.Remove(name)
	}
	fmt.Sscanf(os.Getenv("QUIRE_FAKE_FAIL"), "%d,%d", &e.failAfter, &e.failTimes)
	if f.opened != nil {
		f.opened(o, e)
	}
	s := &process.Session{
		Sampler: e, Model: o.Model, Fingerprint: "fake",
		Text: ask.Text{Vocab: 257, Encode: func(text string, special bool) ([]int32, error) {
			var ids []int32
			if special {
				ids = append(ids, 256)
			}
			for _, b := range []byte(text) {
				ids = append(ids, int32(b))
			}
			return ids, nil
		},
			Decode: func(ids []int32) string {
				var text []byte
				for _, id := range ids {
					text = append(text, byte(id))
				}
				return string(text)
			}},
		TokenText: func(id int32) []byte { return []byte{byte(id)} },
		Release:   func() {},
	}
	if o.ChatTemplate == spec.TemplateNone {
		s.NoTemplate = setting.Errorf("messages need a chat template, and `chat-template` is none")
	} else {
		s.Render = func(messages []promptset.Message, by *parameter.Set) (string, error) {
			var b strings.Builder
			b.WriteString(string(by.Tools) + string(by.ChatTemplateKwargs) + string(by.Documents) + by.ReasoningEffort)
			for _, m := range messages {
				if m.Object != "" {
					b.WriteString(m.Object)
				} else {
					fmt.Fprintf(&b, "<%s>%s", m.Role, m.Content)
				}
			}
			if !by.AddGenerationPrompt || by.ContinueFinalMessage {
				return b.String(), nil
			}
			return b.String() + "<assistant>", nil
		}
	}
	e.states = o.Whole
	fakeCalling(o, s, e)
	if o.Encodes() {
		fakeEncoder(o, s, e)
	}
	return s, nil
}

// Identify takes the content of the model's file for the model. With the word "tokenless" in it the model has no
// tokenizer, with "templated" a chat template that is known before it is opened; lines "asks NAME NUMBER" are defaults
// of parameters, and lines "left TEXT" what is not taken as one.
func (fakeModels) Identify(_ context.Context, o *spec.Job, _ *process.Process) (process.Identity, error) {
	b, err := os.ReadFile(o.Model)
	if err != nil {
		return process.Identity{}, fmt.Errorf("model %s: %w", o.Model, err)
	}
	asked := arch.Generation{From: "GGUF metadata", Asked: map[string]float64{}}
	for line := range strings.Lines(string(b)) {
		var name string
		var value float64
		if n, _ := fmt.Sscanf(line, "asks %s %g", &name, &value); n == 2 {
			asked.Asked[name] = value
		} else if left, ok := strings.CutPrefix(line, "left "); ok {
			asked.Left = append(asked.Left, strings.TrimSpace(left))
		}
	}
	sentence, size := fakeSentence(string(b))
	return process.Identity{Sentence: sentence, VectorSize: size, Classifier: fakeClassifier(string(b)),
		Fingerprint: fmt.Sprintf("%x", sha256.Sum256(b)), Tokenizer: !strings.Contains(string(b), "tokenless"),
		Template: strings.Contains(string(b), "templated"), Generation: asked}, nil
}

// Lacks reports that there is no device, if it is told to.
func (fakeModels) Lacks(string) error {
	if os.Getenv("QUIRE_FAKE_LACKS") != "" {
		return errors.New("no fake device was found")
	}
	return nil
}

// fakeFailures is how often fake engines of this process failed.
var fakeFailures int

// errFakeDevice is how they do.
var errFakeDevice = errors.New("the fake device is out of memory")

// fakeEngine echoes. It takes requests in groups of maxSeqs and gives a group's completions in the opposite order.
type fakeEngine struct {
	delay time.Duration // before each completion
	// patience is how long the engine waits for further requests when it has some.
	patience time.Duration
	stall    time.Duration // before the first one
	count    string        // file that gets a byte for each completion that was generated, if set
	drawn    *int          // counts completions, if set; given those that were taken
	given    *int
	deadly   string // a prompt that has it kills the process, if set
	held     string // a completion that has it takes until the run is told to end, if set
	hang     string // a completion that has it never comes, if set, as from a device whose call does not return
	maxSeqs  int
	vectors  int  // the length of a vector, in an embed job
	states   int  // the length of a vector of a prompt, in other jobs
	longest  int  // prompt that it takes, in tokens
	calls    bool // it calls tools
	stats    engine.Stats
	// The device fails failTimes, each time after so many completions.
	failAfter, failTimes int
}

func (f *fakeEngine) Plan() engine.Plan {
	return engine.Plan{Backend: "fake", Model: "echo", MaxSeqs: f.maxSeqs, MaxModelLen: f.longest, KV: "paged"}
}

func (f *fakeEngine) Stats() engine.Stats { return f.stats }

func (f *fakeEngine) Close() {}

func (f *fakeEngine) Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error] {
	return func(yield func(*engine.Completion, error) bool) {
		start := time.Now()
		defer func() { f.stats.WallSeconds = time.Since(start).Seconds() }()
		reading, stop := context.WithCancel(ctx)
		defer stop()
		intake := make(chan *engine.Request)
		go func() {
			defer close(intake)
			for r := range requests {
				select {
				case intake <- r:
				case <-reading.Done():
					return
				}
			}
		}()
		defer func() {
			stop()
			for range intake {
			}
		}()
		time.Sleep(f.stall)
		given := 0
		for more := true; more; {
			var group []*engine.Completion
			for len(group) < f.maxSeqs && more {
				var r *engine.Request
				if r, more = f.next(intake, len(group) > 0); r == nil {
					break
				}
				group = append(group, f.complete(r)...)
			}
			for i := len(group) - 1; i >= 0; i-- {
				if f.delay > 0 {
					time.Sleep(f.delay)
				}
				if told := group[i].Request.Progress; told != nil {
					for n := range group[i].Text {
						told(engine.Partial{Generation: group[i].Generation, Tokens: group[i].Tokens[:n],
							Text: group[i].Text[:n]})
					}
				}
				if f.held != "" && strings.Contains(group[i].Text, f.held) {
					<-ctx.Done()
				}
				if f.hang != "" && strings.Contains(group[i].Text, f.hang) {
					select {}
				}
				if err := ctx.Err(); err != nil {
					yield(nil, err)
					return
				}
				if given++; fakeFailures < f.failTimes && given > f.failAfter {
					fakeFailures++
					yield(nil, errFakeDevice)
					return
				}
				if f.given != nil {
					*f.given++
				}
				if !yield(group[i], nil) {
					return
				}
			}
		}
	}
}

// next returns the next request. Requests that wait for completions of others do not come before those are given: so
// an engine that has some waits no longer than rows take to be read.
func (f *fakeEngine) next(intake <-chan *engine.Request, some bool) (r *engine.Request, more bool) {
	var enough <-chan time.Time
	if some {
		enough = time.After(f.patience)
	}
	select {
	case r, more = <-intake:
		return r, more
	case <-enough:
		return nil, true
	}
}

// fakeScores tells of likely tokens, where the request asks for it.
func fakeScores(c *engine.Completion) {
	r := c.Request
	lists := func(n, width int) (ids [][]int32, logprobs [][]float32) {
		for i := range n {
			ids = append(ids, slices.Repeat([]int32{int32(i)}, width))
			logprobs = append(logprobs, slices.Repeat([]float32{-float32(i) / 8}, width))
		}
		return ids, logprobs
	}
	if r.TopLogprobs > 0 {
		c.TopIDs, c.TopLogprobs = lists(len(c.Tokens), r.TopLogprobs)
	}
	if r.ScorePrompt {
		c.Prompt = &engine.PromptScores{Logprobs: slices.Repeat([]float32{-0.25}, len(r.Tokens))}
		c.Prompt.Logprobs[0] = float32(math.NaN())
		c.Prompt.TopIDs, c.Prompt.TopLogprobs = lists(len(r.Tokens), r.PromptTopLogprobs)
		c.Prompt.TopIDs[0], c.Prompt.TopLogprobs[0] = []int32{}, []float32{}
	}
}

func (f *fakeEngine) complete(r *engine.Request) (all []*engine.Completion) {
	f.stats.Requests++
	f.stats.PromptTokens += len(r.Tokens)
	f.stats.PrefillTokens += len(r.Tokens)
	if len(r.Tokens) > f.longest {
		return []*engine.Completion{{Request: r, Generation: r.FirstGeneration, PromptTokens: r.PromptTokens(),
			FinishReason: engine.FinishError,
			Err:          fmt.Errorf("%w: %d tokens, at most %d", engine.ErrPromptTooLong, len(r.Tokens), f.longest)}}
	}
	if f.drawn != nil {
		*f.drawn += r.N
	}
	if f.count != "" {
		file, err := os.OpenFile(f.count, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o666)
		if err == nil {
			_, err = file.Write(make([]byte, r.N))
			file.Close()
		}
		if err != nil {
			panic(err)
		}
	}
	for g := r.FirstGeneration; g < r.FirstGeneration+r.N; g++ {
		c := &engine.Completion{Request: r, Generation: g, PromptTokens: r.PromptTokens(),
			FinishReason: engine.FinishStop}
		text := ""
		for _, id := range r.Tokens {
			if id < 256 {
				text += string([]byte{byte(id)})
			}
		}
		if f.deadly != "" && strings.Contains(text, f.deadly) {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
		if r.State {
			c.State = fakeVector(r, f.states)
		}
		if f.vectors > 0 {
			c.Vector, all = fakeVector(r, f.vectors), append(all, c)
			continue
		}
		number, seed := g, r.Sampling.Seed
		if r.Sampling.Greedy() { // what sampling alone depends on
			number, seed = 0, 0
		}
		prompt := text
		text = fmt.Sprintf("%d:%s (seed %d, t %g)", number, prompt, seed, r.Sampling.Temperature)
		if calls := fakeCalls(prompt, g); f.calls && calls != "" {
			text = calls
		} else if f.calls {
			text = fmt.Sprintf("%d:%s (seed %d)", g, prompt[max(0, len(prompt)-20):], seed)
		}
		if len(text) > r.MaxTokens {
			text, c.FinishReason = text[:r.MaxTokens], engine.FinishLength
		}
		for _, b := range []byte(text) {
			c.Tokens = append(c.Tokens, int32(b))
			c.Logprobs = append(c.Logprobs, -0.5)
		}
		for _, stop := range r.Stop {
			if i := strings.Index(text, stop); i >= 0 {
				text, c.FinishReason = text[:i], engine.FinishStop
			}
		}
		c.Text = strings.ToValidUTF8(text, "�")
		fakeScores(c)
		f.stats.GeneratedTokens += len(c.Tokens)
		f.stats.DrawnTokens += len(c.Tokens)
		all = append(all, c)
	}
	return all
}
