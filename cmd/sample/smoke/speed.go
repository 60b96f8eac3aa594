package smoke

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/quire/quire/backend"
)

// measurement is what is read of "sample bench".
type measurement struct {
	Plan struct {
		Parameters  float64 `json:"parameters"`
		WeightBytes float64 `json:"weight_bytes"`
	} `json:"plan"`
	Median struct {
		Seconds float64 `json:"seconds"`
		Engine  struct {
			PrefillTokens float64 `json:"prefill_tokens"`
		} `json:"engine"`
	} `json:"median"`
}

// generatedTokens is the length of completions whose steps are timed: 63 of them, since the first token comes with the
// prompt.
const generatedTokens = 64

// bench times sequences of a model with random prompts; sampling is lines of the workload.
func (s *session) bench(ctx context.Context, model string, p point, tokens int, sampling string) (*measurement, error) {
	shape, err := readShape(modelFile(s.folder, model))
	if err != nil {
		return nil, err
	}
	job := filepath.Join(s.work, "bench.yaml")
	text := fmt.Sprintf("about: %d sequences\nprompts: tokens\nprompt_tokens: %d\nrows: %d\nmax_tokens: %d\n%s\n",
		p.slots, p.context, p.slots, tokens, sampling)
	if err := os.WriteFile(job, []byte(text), 0o666); err != nil {
		return nil, err
	}
	const page = 128 // the largest, which a sequence may not fill
	longest := p.context + generatedTokens
	var m measurement
	return &m, s.json(ctx, &m, "bench", "--json", "--model", modelFile(s.folder, model), "--load-format", "dummy",
		"--backend", s.backend, "--dtype", bf16, "--workload", job, "--max-seqs", fmt.Sprint(p.slots),
		"--max-model-len", fmt.Sprint(longest), "--kv-memory",
		fmt.Sprint(p.slots*(longest+page)*shape.tokenBytes(bf16)), "--prefix-cache", "off", "--warmup", "1", "--repeat",
		"1")
}

// speedFigures are the figures of a point.
type speedFigures struct {
	Slots           int     `json:"slots"`
	Context         int     `json:"context"`
	StepMillis      float64 `json:"decode_step_ms"`
	DecodePerSecond float64 `json:"decode_tokens_per_second"`
	PromptPerSecond float64 `json:"prompt_tokens_per_second"`
	// Shares of the peaks, 0 if these are not known.
	Bandwidth   float64 `json:"peak_bytes_per_second,omitempty"`
	DecodeShare float64 `json:"decode_share_of_bandwidth,omitempty"`
	Peak        float64 `json:"peak_flops_per_second,omitempty"`
	PromptShare float64 `json:"prompt_share_of_peak,omitempty"`
}

// speed times two jobs for each point, which differ in the number of decode steps. A decode step reads at least the
// weights, but for the embeddings of other tokens, and the keys and values of all slots. A prompt token takes at least
// two operations for each weight of the layers, and attention.
func speed(ctx context.Context, s *session) (any, error) {
	var all []speedFigures
	d, err := s.describe(ctx)
	if err != nil {
		return nil, err
	}
	shape, err := readShape(modelFile(s.folder, "8b"))
	if err != nil {
		return nil, err
	}
	var wrong []error
	for _, p := range s.points {
		first, err := s.bench(ctx, "8b", p, 1, "temperature: 1")
		var whole *measurement
		if err == nil {
			whole, err = s.bench(ctx, "8b", p, generatedTokens, "temperature: 1")
		}
		if err != nil {
			wrong = append(wrong, fmt.Errorf("%d sequences of %d tokens: %w", p.slots, p.context, err))
			continue
		}
		step := (whole.Median.Seconds - first.Median.Seconds) / (generatedTokens - 1)
		f := speedFigures{Slots: p.slots, Context: p.context, StepMillis: 1000 * step,
			DecodePerSecond: float64(p.slots) / step,
			PromptPerSecond: first.Median.Engine.PrefillTokens / first.Median.Seconds,
			Bandwidth:       orElse(1e9*s.bandwidth, d.rate), Peak: orElse(1e12*s.peak, d.flops)}
		matrix := float64(shape.Tokens * shape.Hidden) // of embeddings, and of the output
		read, layers := first.Plan.WeightBytes, first.Plan.Parameters-matrix
		if !shape.Tied {
			read, layers = read-2*matrix, layers-matrix
		}
		if f.Bandwidth > 0 {
			read += float64(p.slots*(p.context+generatedTokens/2)) * float64(shape.tokenBytes(bf16))
			f.DecodeShare = read / step / f.Bandwidth
		}
		if f.Peak > 0 {
			attention := 4 * float64(shape.Layers*shape.Heads*shape.HeadDim) * float64(p.context) / 2
			f.PromptShare = (2*layers + attention) * f.PromptPerSecond / f.Peak
		}
		all = append(all, f)
	}
	return all, errors.Join(wrong...)
}

func orElse(value, otherwise float64) float64 {
	if value > 0 {
		return value
	}
	return otherwise
}

// sampler times steps of a model that is nearly only its vocabulary, for each way of sampling.
func sampler(ctx context.Context, s *session) (any, error) {
	p := point{slots: 256, context: 16}
	ways := []struct{ name, lines string }{
		{"greedy", "temperature: 0"},
		{"plain", "temperature: 1"},
		{"top_k_50", "temperature: 1\nparameters: {top_k: 50}"},
		{"top_p_0.9", "temperature: 1\nparameters: {top_p: 0.9}"},
		{"penalties", "temperature: 1\nparameters: {repetition_penalty: 1.1, frequency_penalty: 0.2, " +
			"presence_penalty: 0.2}"},
	}
	millis := map[string]float64{} // of a step
	figures := map[string]map[string]float64{"step_ms": millis}
	for _, way := range ways {
		first, err := s.bench(ctx, "sampler", p, 1, way.lines)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", way.name, err)
		}
		whole, err := s.bench(ctx, "sampler", p, generatedTokens, way.lines)
		if err != nil {
			return figures, fmt.Errorf("%s: %w", way.name, err)
		}
		millis[way.name] = 1000 * (whole.Median.Seconds - first.Median.Seconds) / (generatedTokens - 1)
	}
	return figures, nil
}

// memoryFigures are the figures of the part memory.
type memoryFigures struct {
	Flag        string `json:"kv_memory"`
	Total       int64  `json:"planned_bytes"`
	Free        int64  `json:"free_bytes"`
	Pages       int    `json:"pages"`
	PeakPages   int    `json:"peak_pages"`
	Rows        int    `json:"rows"`
	Prompt      int    `json:"prompt_tokens"`
	Preemptions int    `json:"preemptions"`
	MovedBytes  int64  `json:"moved_bytes"`
}

// plannedMemory runs with the KV cache that "sample plan" finds, on a model whose keys and values are large and which
// is small otherwise. Prompts fill all pages but two of each row, and the completions need more.
func plannedMemory(ctx context.Context, s *session) (any, error) {
	const slots, spare, grown = 64, 2, 5 // pages of a row
	engine := []string{"--model", modelFile(s.folder, "cache"), "--load-format", "dummy", "--dtype", bf16, "--backend",
		s.backend, "--max-seqs", fmt.Sprint(slots), "--max-model-len", "8192"}
	if s.backend == backend.XLACPU { // whose memory is the host's, which others need
		engine = append(engine, "--max-model-len", "256", "--kv-memory", "256MiB")
	}
	var plan struct {
		Flag  string `json:"kv_memory_flag"`
		Total int64  `json:"total"`
		Free  int64  `json:"device_memory"`
		Plan  struct {
			Pages       int `json:"pages"`
			PageSize    int `json:"page_size"`
			PagesPerSeq int `json:"pages_per_seq"`
		} `json:"plan"`
	}
	if err := s.json(ctx, &plan, append([]string{"plan", "--json"}, engine...)...); err != nil {
		return nil, err
	}
	f := &memoryFigures{Flag: plan.Flag, Total: plan.Total, Free: plan.Free, Pages: plan.Plan.Pages}
	room := plan.Plan.PagesPerSeq - spare - grown - 1
	f.Rows = (f.Pages + room - 1) / room
	f.Prompt = (f.Pages/f.Rows - spare) * plan.Plan.PageSize
	if f.Rows > slots {
		return f, fmt.Errorf("%d pages are more than %d sequences fill", f.Pages, slots)
	}
	rows := filepath.Join(s.work, "memory.jsonl")
	if err := writeRows(rows, slices.Repeat([]int{f.Prompt}, f.Rows)); err != nil {
		return f, err
	}
	output := filepath.Join(s.work, "out-memory")
	args := slices.Concat([]string{"run"}, engine, []string{"--kv-memory", plan.Flag, "--input", rows, "--output",
		output, "--temperature", "0", "--ignore-eos", "--max-tokens", fmt.Sprint(grown * plan.Plan.PageSize),
		"--progress", "none", "--report", output + ".json"})
	if _, err := s.program.do(ctx, nil, args...); err != nil {
		return f, err
	}
	var made jobReport
	if err := readJSON(output+".json", &made); err != nil {
		return f, err
	}
	f.PeakPages, f.Preemptions, f.MovedBytes = made.PeakPages, made.Engine.Preemptions, made.Engine.MovedBytes
	if f.Preemptions == 0 {
		return f, errors.New("no sequence was swapped out")
	}
	return f, nil
}
