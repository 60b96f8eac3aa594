package smoke

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// generation is one job on a model of the folder: a completion of each prompt at temperature 0.
type generation struct {
	folder, model  string
	backend, dtype string
	work           string // an existing folder for its output
	name           string // of its output, which must be new
	rows           string // the file with its prompts; "" for the folder's
	maxTokens      int    // 0 for those of the goldens
	more           []string
}

// generated is what a job made.
type generated struct {
	file   string // its part, if it has only one
	report jobReport
}

// jobReport is what is read of the report of "sample run".
type jobReport struct {
	Plan struct {
		Backend string `json:"backend"`
	} `json:"plan"`
	TotalSeconds float64 `json:"total_seconds"`
	PeakPages    int     `json:"peak_pages"`
	Engine       struct {
		DeviceSeconds float64 `json:"device_seconds"`
		Calls         int     `json:"calls"`
		Preemptions   int     `json:"preemptions"`
		MovedBytes    int64   `json:"moved_bytes"`
	} `json:"engine"`
}

// engine is the flags that give the programs of the goldens. A basic cache has 16 rows at least.
func (g *generation) engine() []string {
	return []string{"--model", modelFile(g.folder, g.model), "--load-format", "dummy", "--dtype", g.dtype,
		"--max-model-len", "1024", "--max-seqs", "8", "--kv-memory", "128MiB"}
}

// output is the folder of the job's output.
func (g *generation) output() string { return filepath.Join(g.work, "out-"+g.name) }

// args is the command line of the job. Later flags override earlier ones.
func (g *generation) args() []string {
	rows, maxTokens := g.rows, g.maxTokens
	if rows == "" {
		rows = filepath.Join(g.folder, promptsFile)
	}
	if maxTokens == 0 {
		maxTokens = 32
	}
	return slices.Concat([]string{"run"}, g.engine(), []string{"--backend", g.backend, "--input", rows, "--output",
		g.output(), "--format", "jsonl", "--temperature", "0", "--ignore-eos", "--max-tokens", fmt.Sprint(maxTokens),
		"--progress", "none", "--report", g.output() + ".json"}, g.more)
}

func (g *generation) run(ctx context.Context, p *program, environment []string) (*generated, error) {
	if _, err := p.do(ctx, environment, g.args()...); err != nil {
		return nil, err
	}
	made := &generated{file: filepath.Join(g.output(), "part-00000.jsonl")}
	return made, readJSON(g.output()+".json", &made.report)
}

// completion is a row of an output.
type completion struct {
	ID          string      `json:"id"`
	Tokens      []int32     `json:"token_ids"`
	Logprobs    []float64   `json:"logprobs"`
	TopIDs      [][]int32   `json:"top_ids"`
	TopLogprobs [][]float64 `json:"top_logprobs"`
}

func readCompletions(path string) (all []completion, err error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
		var c completion
		if err := lines.Decode(&c); err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// comparison is how the completions of a model compare with the goldens.
type comparison struct {
	Model string `json:"model"`
	// Same completions have equal tokens. Tied ones part from the golden at a token that is as likely there, within the
	// tolerance; what follows is not compared.
	Completions int `json:"completions"`
	Same        int `json:"same"`
	Tied        int `json:"tied"`
	// Apart is the largest distance of log-probabilities of tokens that were compared.
	Tokens        int     `json:"tokens_compared"`
	Apart         float64 `json:"logprobs_apart"`
	Seconds       float64 `json:"seconds"`
	DeviceSeconds float64 `json:"device_seconds"`
	Calls         int     `json:"calls"`
}

// compare compares completions with goldens. The figures are valid if there is an error, too.
func (c *comparison) compare(goldens, made []completion, tolerance float64) error {
	if len(goldens) != len(made) {
		return fmt.Errorf("%s: %d completions came, and the goldens are %d", c.Model, len(made), len(goldens))
	}
	var wrong []error
	for i, golden := range goldens {
		c.Completions++
		if err := c.compareOne(&golden, &made[i], tolerance); err != nil {
			wrong = append(wrong, fmt.Errorf("%s, id %s: %w", c.Model, golden.ID, err))
		}
	}
	if c.Apart > tolerance {
		wrong = append(wrong, fmt.Errorf("%s: log-probabilities of equal tokens are up to %.3g apart, and rounding is "+
			"%.3g (--tolerance)", c.Model, c.Apart, tolerance))
	}
	return errors.Join(wrong...)
}

func (c *comparison) compareOne(golden, made *completion, tolerance float64) error {
	n := len(golden.Tokens)
	switch {
	case golden.ID != made.ID:
		return fmt.Errorf("the completion there is of id %s", made.ID)
	case len(made.Tokens) != n || len(made.Logprobs) != n:
		return fmt.Errorf("%d tokens, and %d in the golden", len(made.Tokens), n)
	case len(golden.Logprobs) != n || len(golden.TopIDs) != n || len(golden.TopLogprobs) != n:
		return errors.New("the golden has not the log-probabilities of all its tokens")
	}
	for i, token := range golden.Tokens {
		other := made.Tokens[i]
		if token == other {
			c.Tokens++
			c.Apart = math.Max(c.Apart, math.Abs(golden.Logprobs[i]-made.Logprobs[i]))
			continue
		}
		k := slices.Index(golden.TopIDs[i], other)
		if k < 0 || k >= len(golden.TopLogprobs[i]) {
			return fmt.Errorf("token %d is %d, and %d in the golden, where %d is none of the likeliest", i, other,
				token, other)
		}
		if gap := golden.Logprobs[i] - golden.TopLogprobs[i][k]; gap > tolerance {
			return fmt.Errorf("token %d is %d, and %d in the golden, where its log-probability is %.3g higher", i,
				other, token, gap)
		}
		c.Tied++
		return nil
	}
	c.Same++
	return nil
}
