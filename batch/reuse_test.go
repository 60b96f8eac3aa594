package batch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/quire/quire/batch"
	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/outcome"
	"github.com/quire/quire/batch/process"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// hashModels opens models whose completions are digests of all that they may depend on. The content of the model's
// file is the model. It counts completions by what they depend on.
type hashModels struct {
	generated map[string]int
	end       context.CancelFunc // called after so many completions, if it is set
	endAfter  int
}

func (m *hashModels) Lacks(string) error { return nil }

func (m *hashModels) Identify(_ context.Context, j *spec.Job, _ *process.Process) (process.Identity, error) {
	b, err := os.ReadFile(j.Model)
	return process.Identity{Fingerprint: string(b), Tokenizer: true}, err
}

func (m *hashModels) OpenSession(_ context.Context, j *spec.Job, _ *process.Process) (*process.Session, error) {
	b, err := os.ReadFile(j.Model)
	template := ""
	if j.ChatTemplate != spec.TemplateOfModel {
		text, _ := os.ReadFile(j.ChatTemplate)
		template = string(text)
	}
	encode := func(text string, _ bool) (ids []int32, err error) {
		for _, c := range []byte(text) {
			ids = append(ids, int32(c))
		}
		return ids, nil
	}
	render := func(all []promptset.Message, _ *parameter.Set) (text string, err error) {
		for _, one := range all { // the template shows in long messages alone
			if text += one.Content; len(one.Content) > 3 {
				text += template
			}
		}
		return text, nil
	}
	return &process.Session{Sampler: &hashEngine{m, string(b)}, Model: j.Model, Fingerprint: string(b),
		Text:      ask.Text{Vocab: 256, Encode: encode, Render: render},
		TokenText: func(id int32) []byte { return []byte{byte(id)} }, Release: func() {}}, err
}

type hashEngine struct {
	models *hashModels
	model  string
}

func (e *hashEngine) Plan() engine.Plan {
	return engine.Plan{Backend: "hash", MaxSeqs: 3, MaxModelLen: 100, KV: "paged"}
}
func (e *hashEngine) Stats() engine.Stats { return engine.Stats{} }
func (e *hashEngine) Close()              {}

// dependsOn is what a completion depends on, as text.
func (e *hashEngine) dependsOn(r *engine.Request, generation int) string {
	s := r.Sampling
	s.Seed = 0
	text := fmt.Sprint(e.model, r.Tokens, min(r.MaxTokens, 100-len(r.Tokens)), s, r.Stop, r.LogitBias, r.StopTokens,
		r.IgnoreEOS)
	if !r.Sampling.Greedy() {
		text += fmt.Sprint(" ", r.ID, " ", r.Sampling.Seed, " ", generation)
	}
	return text
}

func (e *hashEngine) Run(ctx context.Context, requests iter.Seq[*engine.Request]) iter.Seq2[*engine.Completion, error] {
	return func(yield func(*engine.Completion, error) bool) {
		intake := make(chan *engine.Request, 3)
		reading, stop := context.WithCancel(ctx)
		defer func() {
			stop()
			for range intake {
			}
		}()
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
		for r := range intake {
			if len(r.Tokens) > 60 {
				err := fmt.Errorf("%w: it has %d", engine.ErrPromptTooLong, len(r.Tokens))
				if !yield(&engine.Completion{Request: r, Generation: r.FirstGeneration, PromptTokens: len(r.Tokens),
					FinishReason: engine.FinishError, Err: err}, nil) {
					return
				}
				continue
			}
			for g := r.FirstGeneration + r.N - 1; g >= r.FirstGeneration; g-- {
				if ctx.Err() != nil {
					yield(nil, ctx.Err())
					return
				}
				if !yield(e.complete(r, g), nil) {
					return
				}
			}
		}
	}
}

func (e *hashEngine) complete(r *engine.Request, g int) *engine.Completion {
	what := e.dependsOn(r, g)
	e.models.generated[what]++
	if e.models.endAfter--; e.models.endAfter == 0 && e.models.end != nil {
		e.models.end()
	}
	c := &engine.Completion{Request: r, Generation: g, PromptTokens: len(r.Tokens), FinishReason: engine.FinishStop}
	sum := sha256.Sum256([]byte(what))
	for _, b := range sum[:min(r.MaxTokens, int(sum[0]%8))] {
		c.Tokens, c.Logprobs = append(c.Tokens, int32(b)), append(c.Logprobs, -float32(b)/7)
	}
	c.Text = fmt.Sprintf("%x", sum[:len(c.Tokens)])
	for i := range c.Tokens {
		if r.TopLogprobs > 0 {
			c.TopIDs = append(c.TopIDs, slices.Repeat([]int32{int32(sum[i])}, r.TopLogprobs))
			c.TopLogprobs = append(c.TopLogprobs, slices.Repeat([]float32{-1}, r.TopLogprobs))
		}
	}
	return c
}

// rowOfReuse is a row of the tests' inputs.
type rowOfReuse struct {
	ID          string              `json:"id,omitempty"`
	Prompt      string              `json:"prompt,omitempty"`
	Messages    []map[string]string `json:"messages,omitempty"`
	N           int                 `json:"n,omitempty"`
	Temperature *float64            `json:"temperature,omitempty"`
	Seed        *int                `json:"seed,omitempty"`
	MaxTokens   int                 `json:"max_tokens,omitempty"`
	Note        string              `json:"note,omitempty"` // passed through
}

func drawReuseRow(t *rapid.T) (r rowOfReuse) {
	text := rapid.SampledFrom([]string{"a", "b", "long text", "another long text", strings.Repeat("x", 70)})
	if rapid.Bool().Draw(t, "messages") {
		r.Messages = []map[string]string{{"role": "user", "content": text.Draw(t, "content")}}
	} else {
		r.Prompt = text.Draw(t, "prompt")
	}
	r.ID = rapid.SampledFrom([]string{"", "p", "q", "r"}).Draw(t, "id")
	r.N = rapid.SampledFrom([]int{0, 0, 1, 3}).Draw(t, "n")
	r.MaxTokens = rapid.SampledFrom([]int{0, 0, 2, 90}).Draw(t, "most")
	if rapid.Bool().Draw(t, "own temperature") {
		warm := float64(rapid.IntRange(0, 1).Draw(t, "temperature"))
		r.Temperature = &warm
	}
	if rapid.IntRange(0, 3).Draw(t, "own seed") == 0 {
		seed := rapid.IntRange(1, 2).Draw(t, "seed")
		r.Seed = &seed
	}
	r.Note = rapid.SampledFrom([]string{"", "noted"}).Draw(t, "note")
	return r
}

// reuseJob is a job that edits change.
type reuseJob struct {
	rows                        []rowOfReuse
	model, template, format     string
	temperature                 float64
	seed                        uint64
	n, maxTokens, partRows, top int
	stop                        []string
}

// edit changes a job in one way.
func (j reuseJob) edit(t *rapid.T) reuseJob {
	j.rows = slices.Clone(j.rows)
	some := func() int { return rapid.IntRange(0, len(j.rows)-1).Draw(t, "row") }
	edits := []string{"row", "note", "add", "remove", "order", "model", "template", "temperature", "seed", "n",
		"tokens", "stop", "parts", "format", "top"}
	switch rapid.SampledFrom(edits).Draw(t, "edit") {
	case "row":
		j.rows[some()] = drawReuseRow(t)
	case "note":
		j.rows[some()].Note = "another"
	case "add":
		j.rows = slices.Insert(j.rows, some(), drawReuseRow(t))
	case "remove":
		if i := some(); len(j.rows) > 1 {
			j.rows = slices.Delete(j.rows, i, i+1)
		}
	case "order":
		j.rows = rapid.Permutation(j.rows).Draw(t, "order")
	case "model":
		j.model = rapid.SampledFrom([]string{"first", "second"}).Draw(t, "model")
	case "template":
		j.template = rapid.SampledFrom([]string{"!", "?"}).Draw(t, "template")
	case "temperature":
		j.temperature = float64(rapid.IntRange(0, 1).Draw(t, "warm"))
	case "seed":
		j.seed = rapid.Uint64Range(0, 1).Draw(t, "job's seed")
	case "n":
		j.n = rapid.IntRange(1, 4).Draw(t, "job's n")
	case "tokens":
		j.maxTokens = rapid.IntRange(1, 9).Draw(t, "job's tokens")
	case "stop":
		j.stop = rapid.SampledFrom([][]string{nil, {"z"}}).Draw(t, "stop")
	case "parts":
		j.partRows = rapid.IntRange(1, 5).Draw(t, "part rows")
	case "format":
		j.format = rapid.SampledFrom([]string{"jsonl", "parquet"}).Draw(t, "format")
	case "top":
		j.top = rapid.SampledFrom([]int{0, 2}).Draw(t, "top")
	}
	return j
}

// run does the job, and returns what was generated.
func (j *reuseJob) run(t *rapid.T, dir, name string, reuse []string, endAfter int) map[string]int {
	write := func(file, text string) string {
		path := filepath.Join(dir, file)
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var text bytes.Buffer
	for _, r := range j.rows {
		if err := json.NewEncoder(&text).Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	s := spec.Default()
	s.Model, s.Inputs = write("model", j.model), []string{write("in.jsonl", text.String())}
	s.ChatTemplate = write("template.jinja", j.template)
	s.Output, s.Format, s.PartRows = filepath.Join(dir, name), j.format, int64(j.partRows)
	s.Sampling.N, s.Sampling.MaxTokens, s.Sampling.Stop = j.n, j.maxTokens, j.stop
	s.Sampling.Temperature, s.Sampling.Seed, s.Sampling.TopLogprobs = j.temperature, j.seed, j.top
	m := &hashModels{generated: map[string]int{}, endAfter: endAfter}
	for {
		ctx, cancel := context.WithCancel(context.Background())
		m.end = cancel
		_, err := batch.Run(ctx, s, process.Options{Models: m, Reuse: reuse})
		cancel()
		switch outcome.Of(err) {
		case outcome.Interrupted:
			continue
		case outcome.Partial:
			return m.generated
		}
		if err != nil {
			t.Fatal(err)
		}
		return m.generated
	}
}

// partsOf reads the parts of an output.
func partsOf(t *rapid.T, output string) map[string]string {
	files, err := filepath.Glob(filepath.Join(output, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts[filepath.Base(file)] = string(b)
	}
	return parts
}

// After any edits of rows, template, parameters and model exactly the completions are generated that no earlier output
// has, each once, and the files are those of a job from nothing. So they are after interrupts, and with damaged
// sources.
func TestExactlyWhatChangedIsGenerated(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "reuse")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		job := reuseJob{rows: rapid.SliceOfN(rapid.Custom(drawReuseRow), 1, 12).Draw(t, "rows"), model: "first",
			template: "!", format: "jsonl", temperature: 1, n: 2, maxTokens: 8, partRows: 3}
		have := map[string]int{} // what the outputs have, with the number of likeliest tokens
		for k, what := range job.run(t, dir, "out0", nil, 0) {
			if have[k] = job.top; what != 1 {
				t.Fatalf("%s was generated %d times", k, what)
			}
		}
		sources := []string{filepath.Join(dir, "out0")}
		for step := range rapid.IntRange(1, 3).Draw(t, "steps") {
			for range rapid.IntRange(1, 3).Draw(t, "edits") {
				job = job.edit(t)
			}
			damaged := rapid.IntRange(0, 4).Draw(t, "damage") == 0
			if damaged {
				damageOutput(t, sources[len(sources)-1])
			}
			name := fmt.Sprint("out", step+1)
			endAfter := rapid.SampledFrom([]int{0, 0, 1, 4}).Draw(t, "interrupted after")
			got := job.run(t, dir, name, sources, endAfter)
			all := job.run(t, dir, name+"nothing", nil, 0)
			x, y := partsOf(t, filepath.Join(dir, name)), partsOf(t, filepath.Join(dir, name+"nothing"))
			for part := range y {
				if x[part] != y[part] && job.format == "jsonl" {
					t.Fatalf("%s: %s\nfrom nothing: %s", part, x[part], y[part])
				} else if x[part] != y[part] || len(x) != len(y) {
					t.Fatalf("%s is another than from nothing", part)
				}
			}
			for what := range all {
				top, known := have[what]
				want := 1
				if known && (job.top == 0 || top == job.top) {
					want = 0
				}
				// What was in flight at an interrupt is generated again.
				if n := got[what]; n != want && !damaged && (endAfter == 0 || n < want || want == 0) {
					t.Fatalf("%s was generated %d times, want %d", what, n, want)
				}
				if damaged { // what is there now is not known
					continue
				}
				have[what] = max(have[what], job.top)
			}
			if damaged {
				return
			}
			sources = append(sources, filepath.Join(dir, name))
		}
	})
}

// damageOutput changes a byte of a file of an output, or truncates or removes it.
func damageOutput(t *rapid.T, output string) {
	files, _ := filepath.Glob(filepath.Join(output, "part-*"))
	keys, _ := filepath.Glob(filepath.Join(output, "_job", "keys", "*"))
	file := rapid.SampledFrom(append(files, keys...)).Draw(t, "file")
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	switch rapid.SampledFrom([]string{"byte", "cut", "gone"}).Draw(t, "how") {
	case "byte":
		b[rapid.IntRange(0, len(b)-1).Draw(t, "place")] ^= byte(rapid.IntRange(1, 255).Draw(t, "bits"))
	case "cut":
		b = b[:rapid.IntRange(0, len(b)-1).Draw(t, "length")]
	case "gone":
		os.Remove(file)
		return
	}
	if err := os.WriteFile(file, b, 0o666); err != nil {
		t.Fatal(err)
	}
}
