// Package workload has the fixed jobs that engines are measured by: the prompts, the number of completions of each, and
// their lengths.
//
// The texts are Quire's own: arithmetic word problems with the length distribution of GSM8K's questions, made by the
// command in generate, and four solved ones as a few-shot prefix. Passages of books that are in the public domain are
// there to be quoted and summed up.
package workload

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/quire/quire/data/parameter"
)

//go:generate go run ./generate

//go:embed *.yaml questions.jsonl fewshot.txt passages.txt
var files embed.FS

const extension = ".yaml"

// Workload is a job: its YAML file, and the rows that follow from it.
type Workload struct {
	Name  string `yaml:"-" json:"name"`
	About string `yaml:"about" json:"about"`
	// Prompts is the kind of prompts:
	//
	//	questions   word problems, 128 different ones
	//	fewshot     the same after a prefix of four worked ones that all share
	//	sums        a few tokens each, all different
	//	tokens      PromptTokens random token ids
	//	quotes      a passage of a book, to be said again
	//	summaries   a passage of a book, to be summed up
	Prompts      string `yaml:"prompts" json:"prompts"`
	PromptTokens int    `yaml:"prompt_tokens" json:"prompt_tokens,omitempty"`
	NumRows      int    `yaml:"rows" json:"rows"`
	// N is the completions of each row.
	N int `yaml:"n" json:"n"`
	// MaxTokens is the length of every completion; it is forced by ignoring the end-of-sequence token.
	MaxTokens int `yaml:"max_tokens" json:"max_tokens,omitempty"`
	// MaxTokensRange gives each row a random length between its two bounds, instead of MaxTokens; with EqualLengths the
	// rows share the sum of these lengths evenly.
	MaxTokensRange []int   `yaml:"max_tokens_range" json:"max_tokens_range,omitempty"`
	EqualLengths   bool    `yaml:"equal_lengths" json:"equal_lengths,omitempty"`
	Temperature    float64 `yaml:"temperature" json:"temperature"`
	// Schemas is how many JSON schemas the rows have in turn; 0 for none. Their texts do not end within the longest
	// length.
	Schemas int `yaml:"schemas" json:"schemas,omitempty"`
	// Parameters are further parameters of all rows, by the names of package parameter: how tokens are sampled, biases,
	// and which log-probabilities are reported.
	Parameters map[string]any `yaml:"parameters" json:"parameters,omitempty"`
}

// Row is one prompt, as text or as token ids, and what is wanted of it.
type Row struct {
	ID        string  `json:"id"`
	Prompt    string  `json:"prompt,omitempty"`
	TokenIDs  []int32 `json:"prompt_token_ids,omitempty"`
	N         int     `json:"n"`
	MaxTokens int     `json:"max_tokens"`
	Schema    string  `json:"json_schema,omitempty"`
}

// ErrUnknown reports that there is no workload and no file of this name.
var ErrUnknown = errors.New("no such workload")

// Names lists the workloads that come with Quire.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic(err) // the embedded root always opens
	}
	var names []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), extension); ok {
			names = append(names, name)
		}
	}
	return names
}

// Open returns the workload of a name, or of a YAML file. It is ErrUnknown if there is neither.
func Open(ref string) (*Workload, error) {
	src, err := files.ReadFile(ref + extension)
	if err != nil {
		if src, err = os.ReadFile(ref); errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("%w: %q is neither a file nor one of %s", ErrUnknown, ref,
				strings.Join(Names(), ", "))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("workload: %w", err)
	}
	w, err := Parse(src)
	if err != nil {
		return nil, fmt.Errorf("workload %s: %w", ref, err)
	}
	w.Name = strings.TrimSuffix(path.Base(ref), extension)
	return w, nil
}

// Parse reads the YAML of a workload and checks it.
func Parse(src []byte) (w *Workload, err error) {
	defer func() { // the YAML library's decoder has its own view of tags
		if p := recover(); p != nil {
			w, err = nil, fmt.Errorf("it can't be read as YAML: %v", p)
		}
	}()
	w = &Workload{N: 1}
	if err := yaml.NewDecoder(bytes.NewReader(src), yaml.Strict()).Decode(w); err != nil {
		return nil, errors.New(yaml.FormatError(err, false, false))
	}
	return w, w.check()
}

// Text reports whether the prompts are texts, which need a tokenizer.
func (w *Workload) Text() bool { return w.Prompts != "tokens" }

const (
	mostRows   = 1 << 20
	mostTokens = 1 << 20
)

func (w *Workload) check() error {
	switch w.Prompts {
	case "questions", "fewshot", "sums", "quotes", "summaries":
		if w.PromptTokens != 0 {
			return fmt.Errorf("prompt_tokens is for prompts: tokens, not %s", w.Prompts)
		}
	case "tokens":
		if w.PromptTokens < 1 || w.PromptTokens > mostTokens {
			return fmt.Errorf("prompt_tokens is %d, but must be 1 to %d", w.PromptTokens, mostTokens)
		}
	default:
		return fmt.Errorf("prompts is %q, but must be questions, fewshot, sums, tokens, quotes or summaries", w.Prompts)
	}
	if w.NumRows < 1 || w.NumRows > mostRows || w.N < 1 || w.N > mostRows {
		return fmt.Errorf("rows is %d and n is %d, but both must be 1 to %d", w.NumRows, w.N, mostRows)
	}
	if w.Schemas < 0 {
		return fmt.Errorf("schemas is %d, but must be 0 or more", w.Schemas)
	}
	if w.Temperature < 0 {
		return fmt.Errorf("temperature is %g, but must be 0 or more", w.Temperature)
	}
	if _, err := w.Over(parameter.Defaults().Sampling); err != nil {
		return err
	}
	if w.MaxTokensRange == nil {
		if w.MaxTokens < 1 || w.MaxTokens > mostTokens || w.EqualLengths {
			return fmt.Errorf(
				"max_tokens is %d, but must be 1 to %d (or give max_tokens_range, which equal_lengths needs)",
				w.MaxTokens, mostTokens)
		}
		return nil
	}
	if r := w.MaxTokensRange; len(r) != 2 || r[0] < 1 || r[1] < r[0] || r[1] > mostTokens || w.MaxTokens != 0 {
		return fmt.Errorf(
			"max_tokens_range is %v, but must be two numbers, the least and the most, with no max_tokens beside it", r)
	}
	return nil
}

// Over returns the parameters of the rows, in place of a model's; texts and lengths are not in it.
func (w *Workload) Over(model parameter.Sampling) (parameter.Set, error) {
	set := parameter.Defaults()
	set.Sampling = model
	set.Temperature = w.Temperature
	for _, name := range slices.Sorted(maps.Keys(w.Parameters)) {
		p := parameter.Sink(name)
		if p == nil || p.Name != name || !ofWorkloads(p) {
			return set, fmt.Errorf("parameters has %s, which a workload can't give", name)
		}
		raw, err := json.Marshal(w.Parameters[name])
		if err == nil {
			err = json.Unmarshal(raw, p.At(&set))
		}
		if err != nil {
			return set, fmt.Errorf("parameters: %s: %w", name, err)
		}
	}
	return set, set.Check(func(own string) string { return own })
}

// ofWorkloads reports whether a parameter is one that Over's callers use and that no key of a workload gives.
func ofWorkloads(p *parameter.Parameter) bool {
	var set parameter.Set
	switch target := p.At(&set); target {
	case &set.LogitBias, &set.TopLogprobs, &set.PromptLogprobs:
		return true
	case &set.Temperature, &set.Seed:
		return false
	default:
		return within(target, &set.Sampling)
	}
}

// within reports whether a pointer is to a field of a struct.
func within(field any, sampling *parameter.Sampling) bool {
	fields := reflect.ValueOf(sampling).Elem()
	for i := range fields.NumField() {
		if fields.Field(i).Addr().Interface() == field {
			return true
		}
	}
	return false
}

// seed is the seed of everything random. A different seed would be a different workload.
const seed = 20261121

// Rows returns the rows in order. The vocabulary bounds the token ids of prompts: tokens.
func (w *Workload) Rows(vocab int) ([]Row, error) {
	questions, err := readQuestions()
	if err != nil {
		return nil, err
	}
	prefix, err := files.ReadFile("fewshot.txt")
	if err != nil {
		return nil, err
	}
	passages, err := files.ReadFile("passages.txt")
	if err != nil {
		return nil, err
	}
	if w.Prompts == "tokens" && vocab < 2 {
		return nil, fmt.Errorf("workload %s: a vocabulary of %d tokens is too small to draw prompts from", w.Name,
			vocab)
	}
	lengths := w.lengths()
	longest := slices.Max(lengths)
	r := rand.New(rand.NewPCG(seed, 1))
	rows := make([]Row, w.NumRows)
	for i := range rows {
		rows[i] = Row{ID: fmt.Sprintf("row-%05d", i), N: w.N, MaxTokens: lengths[i]}
		if w.Schemas > 0 {
			rows[i].Schema = schema(i%w.Schemas, longest)
		}
		question := "Question: " + questions[i%len(questions)] + "\nAnswer:"
		switch w.Prompts {
		case "questions":
			rows[i].Prompt = question
		case "fewshot":
			rows[i].Prompt = string(prefix) + question
		case "quotes", "summaries":
			rows[i].Prompt = passage(string(passages), w.Prompts, i)
		case "sums":
			rows[i].Prompt = fmt.Sprintf("%d + %d =", i, r.IntN(100))
		case "tokens":
			for range w.PromptTokens {
				// special tokens mostly come first
				rows[i].TokenIDs = append(rows[i].TokenIDs, int32(vocab/32+r.IntN(vocab-vocab/32)))
			}
		}
	}
	return rows, nil
}

// passage is a prompt about one of passages, which blank lines part.
func passage(passages, what string, row int) string {
	tasks := map[string][]string{
		"quotes": {"The whole text again, word for word:\n",
			"The text again, with every spelling mistake corrected and nothing else changed:\n"},
		"summaries": {"What the text says, in a few sentences that keep its own words:\n",
			"The most important sentences of the text, each in quotation marks:\n"},
	}[what]
	list := strings.Split(strings.TrimSpace(passages), "\n\n")
	return "Text:\n" + list[row%len(list)] + "\n\n" + tasks[row/len(list)%len(tasks)]
}

func (w *Workload) lengths() []int {
	r := rand.New(rand.NewPCG(seed, 2))
	lengths := make([]int, w.NumRows)
	sum := 0
	for i := range lengths {
		lengths[i] = w.MaxTokens
		if b := w.MaxTokensRange; b != nil {
			lengths[i] = b[0] + r.IntN(b[1]-b[0]+1)
		}
		sum += lengths[i]
	}
	if w.EqualLengths {
		for i := range lengths {
			lengths[i] = (sum + i) / len(lengths)
		}
	}
	return lengths
}

func readQuestions() ([]string, error) {
	src, err := files.ReadFile("questions.jsonl")
	if err != nil {
		return nil, err
	}
	var questions []string
	for line := range bytes.Lines(src) {
		var q struct {
			Question string `json:"question"`
		}
		if err := json.Unmarshal(line, &q); err != nil {
			return nil, fmt.Errorf("workload: questions.jsonl, line %d: %w", len(questions)+1, err)
		}
		questions = append(questions, q.Question)
	}
	return questions, nil
}

// Hash names rows by their content, so that figures of different rows are not held against each other.
func Hash(rows []Row) string {
	h := sha256.New()
	if err := json.NewEncoder(h).Encode(rows); err != nil {
		panic(err) // plain structs always encode
	}
	return hex.EncodeToString(h.Sum(nil))
}
