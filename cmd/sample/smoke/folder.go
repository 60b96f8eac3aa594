package smoke

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"
)

// Names of types, as --dtype has them.
const (
	f32  = "f32"
	bf16 = "bf16"
)

// Names in the folder.
const (
	modelsFolder   = "models"
	goldensFolder  = "goldens"
	programsFolder = "programs"
	promptsFile    = "prompts.jsonl"
	originFile     = "origin.json"
)

// goldenModels are the models of which the folder has completions: head_dim 128; head_dim 64 with windows and sinks;
// experts.
var goldenModels = []string{"dense", "windows", "mixture"}

// promptLengths are the lengths of the prompts, in tokens.
var promptLengths = []int{1, 7, 64, 129, 300, 700}

// origin is what made the completions of a folder.
type origin struct {
	Version  string    `json:"version"`
	Computed string    `json:"computed_by"`
	Time     time.Time `json:"time"`
	Topology string    `json:"topology,omitempty"` // that programs were compiled ahead for
}

// aheadModel is the model whose programs may be compiled ahead.
const aheadModel = "dense"

func goldenFile(folder, model string) string {
	return filepath.Join(folder, goldensFolder, model+".jsonl")
}

func modelFile(folder, model string) string {
	return filepath.Join(folder, modelsFolder, model+".json")
}

// writeRows writes rows with prompts of these lengths, of random ids that all models of a folder have. The prompts of
// the same lengths are the same each time.
func writeRows(path string, lengths []int) error {
	const smallestVocabulary = 2048
	random := rand.New(rand.NewPCG(1, 2))
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	lines := json.NewEncoder(file)
	for i, length := range lengths {
		line := struct {
			ID     string `json:"id"`
			Prompt []int  `json:"prompt_token_ids"`
		}{ID: fmt.Sprint(i)}
		for range length {
			line.Prompt = append(line.Prompt, 3+random.IntN(smallestVocabulary-3)) // without the special ones
		}
		err = errors.Join(err, lines.Encode(line))
	}
	return errors.Join(err, file.Close())
}

// shape is what sizes and speeds of a model follow from, as its config has it.
type shape struct {
	Layers  int  `json:"num_hidden_layers"`
	Heads   int  `json:"num_attention_heads"`
	KVHeads int  `json:"num_key_value_heads"`
	HeadDim int  `json:"head_dim"`
	Hidden  int  `json:"hidden_size"`
	Tokens  int  `json:"vocab_size"`
	Tied    bool `json:"tie_word_embeddings"`
}

func readShape(path string) (s shape, err error) {
	if err := readJSON(path, &s); err != nil {
		return s, err
	}
	if s.HeadDim == 0 && s.Heads > 0 {
		s.HeadDim = s.Hidden / s.Heads
	}
	return s, nil
}

// tokenBytes is the bytes of a token's keys and values.
func (s *shape) tokenBytes(dtype string) int {
	size := 2
	if dtype == f32 {
		size = 4
	}
	return 2 * size * s.Layers * s.KVHeads * s.HeadDim
}
