package review

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/quire/quire/batch/jobstate"
	"github.com/quire/quire/batch/resume"
	"github.com/quire/quire/batch/telemetry/report"
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/vfs"
	"github.com/quire/quire/internal/plural"
)

// Page gathers the page of the job in the output folder, local or of objects. workDir is its --work-dir, if it had one.
func Page(ctx context.Context, files vfs.FS, output, workDir string) (*report.Page, error) {
	out, err := Open(ctx, files, output, workDir)
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%s %w", output, promptset.ErrNoParts)
	}
	if err != nil {
		return nil, err
	}
	defer out.Close()
	page := &report.Page{Output: output}
	meta := map[string]string{}
	if len(out.Parts) > 0 {
		if meta, err = out.Meta(); err != nil {
			return nil, err
		}
	}
	if b := out.running; b != nil {
		if b.seriesErr != nil {
			return nil, b.seriesErr
		}
		meta = b.job.Meta
		page.Rows, page.Processes = b.parts.Rows, b.processes
		page.TokensPerSecond = rateOf(b.processes)
		page.State = report.Finished
	}
	if p := out.Progress(); p != nil {
		page.Completions, page.State, page.StateText = p.Of, report.Stopped, p.String()
		if p.Running {
			page.State = report.Running
		}
	}
	describe(ctx, files, page, meta, out)
	versions := completion.Versions{}
	for c, err := range out.Completions(ctx) {
		if err != nil {
			return nil, err
		}
		versions.Add(&c.Result)
		page.Add(report.Completion{ID: c.ID, Generation: c.Generation, Prompt: c.Prompt(),
			Text: strings.Join(c.Readable(), "\n"), FinishReason: c.FinishReason, PromptTokens: c.PromptTokens,
			CompletionTokens: c.CompletionTokens, Err: c.Err, MeanLogprob: meanOf(c.Logprobs)})
	}
	page.Versions = map[string]report.Generated{}
	for version, n := range versions {
		page.Versions[version] = report.Generated(n)
	}
	return page, nil
}

func meanOf(logprobs []float32) *float64 {
	if len(logprobs) == 0 {
		return nil
	}
	sum := 0.0
	for _, l := range logprobs {
		sum += float64(l)
	}
	mean := sum / float64(len(logprobs))
	return &mean
}

// describe sets the page's description of how the output was made: what matters in one line, and everything.
func describe(ctx context.Context, files vfs.FS, page *report.Page, meta map[string]string, out *Output) {
	var parameters map[string]json.RawMessage
	_ = json.Unmarshal([]byte(meta[completion.MetaParameters]), &parameters) // output of another program has none
	_ = json.Unmarshal(parameters["max_tokens"], &page.MaxTokens)
	page.Line = lineOf(page, meta, parameters)
	page.Facts = append(page.Facts, [2]string{"output", out.Path})
	page.Facts = append(page.Facts, factsOf(meta, parameters)...)
	if out.running == nil {
		return
	}
	job := out.running.job
	if completeness, ok := resume.CompletenessOf(ctx, files, out.Path, out.running.work); ok {
		page.Facts = append(page.Facts, [2]string{"parts", completeness.String()})
	}
	page.Facts = settle(page.Facts, job, page)
	for i, in := range job.Inputs {
		if i == manyInputs {
			page.Facts = append(page.Facts, [2]string{"inputs", fmt.Sprintf("and %d more", len(job.Inputs)-i)})
			break
		}
		page.Facts = append(page.Facts, [2]string{"input", in.Name + ", " + plural.Count(in.Rows, "row")})
	}
}

// manyInputs is how many inputs are named.
const manyInputs = 5

// lineOf names the model, the size of the job, and the parameters that matter: first the most important ones, then
// those with values other than the defaults.
func lineOf(page *report.Page, meta map[string]string, parameters map[string]json.RawMessage) string {
	var parts []string
	if model := meta[completion.MetaModel]; model != "" {
		parts = append(parts, path.Base(strings.TrimRight(model, "/")))
	}
	if n := textOf(parameters["n"]); page.Rows > 0 && n != "" {
		parts = append(parts, humanize.Comma(page.Rows)+" prompts × "+n)
	}
	initial := parameter.Defaults()
	usual := initial.Identity()
	first := []string{"temperature", "top_p", "top_k", "max_tokens", "seed"}
	names := slices.Concat(first, slices.DeleteFunc(slices.Sorted(maps.Keys(parameters)), func(name string) bool {
		return name == "n" || slices.Contains(first, name)
	}))
	const longest = 40
	for _, name := range names {
		text := textOf(parameters[name])
		standard, _ := json.Marshal(usual[name])
		_, known := usual[name]
		always := slices.Contains([]string{"temperature", "max_tokens", "seed"}, name)
		switch {
		case text == "", !always && known && text == textOf(standard),
			slices.Contains(notAsked, name) && text == "auto", name == "chat_template" && text == "model":
		case len(text) > longest:
			parts = append(parts, strings.ReplaceAll(name, "_", " "))
		default:
			parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+text)
		}
	}
	if len(page.Processes) > 0 {
		parts = append(parts, page.Processes[0].Start.Time.UTC().Format("2 Jan 2006 15:04 UTC"))
	}
	return strings.Join(parts, " · ")
}

// notAsked are settings of the engine, which "auto" leaves to it.
var notAsked = []string{"dtype", "kv_dtype", "weights"}

// settle reports what was chosen for settings that leave a choice, and the sizes that were not given.
func settle(facts [][2]string, job *jobstate.Description, page *report.Page) [][2]string {
	chosen := job.Settled.Texts()
	if n := len(page.Processes); n > 0 && page.Processes[n-1].Start.Weights != "" {
		chosen["weights"] = page.Processes[n-1].Start.Weights
	}
	if bytes, err := strconv.ParseUint(chosen["kv_bytes"], 10, 64); err == nil {
		chosen["kv_bytes"] = humanize.IBytes(bytes)
	}
	chosen["arithmetic"], chosen["device"] = job.Arithmetic, job.Device
	for i := range facts {
		name := strings.ReplaceAll(facts[i][0], " ", "_")
		if was, ok := chosen[name]; ok && was != "" && slices.Contains(notAsked, name) {
			if facts[i][1] = was + " (" + facts[i][1] + ")"; facts[i][1] == was+" ("+was+")" {
				facts[i][1] = was
			}
			delete(chosen, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(chosen)) {
		if chosen[name] != "" {
			facts = append(facts, [2]string{strings.ReplaceAll(name, "_", " "), chosen[name]})
		}
	}
	return facts
}

// factsOf reports how the output was made.
func factsOf(meta map[string]string, parameters map[string]json.RawMessage) (out [][2]string) {
	for _, name := range []string{"quire.model", "quire.model_fingerprint", "quire.version"} {
		if meta[name] != "" {
			out = append(out, [2]string{strings.ReplaceAll(strings.TrimPrefix(name, "quire."), "_", " "), meta[name]})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if text := textOf(parameters[name]); text != "" {
			out = append(out, [2]string{strings.ReplaceAll(name, "_", " "), text})
		}
	}
	return out
}

// textOf is a parameter as people read it: no quotes around a text, commas between values, and nothing for nothing.
func textOf(raw json.RawMessage) string {
	var value any
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // a seed keeps its digits
	if numbers.Decode(&value) != nil {
		return string(raw)
	}
	return plain(value)
}

func plain(value any) string {
	var parts []string
	switch v := value.(type) {
	case nil:
		return ""
	case bool:
		return map[bool]string{true: "yes", false: "no"}[v]
	case []any:
		for _, one := range v {
			text := plain(one)
			if s, ok := one.(string); ok {
				text = strconv.Quote(s) // it may be blank, or have commas
			}
			parts = append(parts, text)
		}
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if text := plain(v[name]); text != "" {
				parts = append(parts, strings.ReplaceAll(name, "_", " ")+" "+text)
			}
		}
	default:
		return fmt.Sprint(v)
	}
	return strings.Join(parts, ", ")
}
