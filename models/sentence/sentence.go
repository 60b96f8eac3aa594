// Package sentence holds what a checkpoint says about embeddings: how hidden states become one vector of a text, and
// what is done to the text before. It reads the files of sentence-transformers, and does the last steps of an
// embedding, which are the host's: [Normalize] and [Cut].
package sentence

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// Pooling is how the hidden states of a text's tokens become one vector.
type Pooling string

// The ways to pool.
const (
	Mean Pooling = "mean" // of all tokens
	CLS  Pooling = "cls"  // of the first token
	Last Pooling = "last" // of the last token
	Max  Pooling = "max"  // the largest of each number
	// Tokens keeps the states of all tokens: see [Late].
	Tokens Pooling = "tokens"
)

// Poolings are all ways to make one vector.
var Poolings = []Pooling{Mean, CLS, Last, Max}

// ParsePooling reads the name of a pooling.
func ParsePooling(name string) (Pooling, error) {
	if !slices.Contains(Poolings, Pooling(name)) {
		var names []string
		for _, p := range Poolings {
			names = append(names, string(p))
		}
		return "", fmt.Errorf("pooling is %q; choose %s", name, strings.Join(names, ", "))
	}
	return Pooling(name), nil
}

// Settings are what a checkpoint says about embeddings.
type Settings struct {
	Pooling   Pooling
	Normalize bool // vectors are divided by their length
	// MaxTokens bounds the tokens of a text, special tokens included; a longer text is truncated. 0: the model's
	// MaxPositions bound it.
	MaxTokens int
	Lowercase bool // texts become lower case before they are tokenized
	// Prompts are texts that stand before a text, by their names, such as query and document. DefaultPrompt is the name
	// of the one that is used if a job names none; "" for none.
	Prompts       map[string]string
	DefaultPrompt string
	// ExcludePrompt leaves the tokens of the prompt out of the pooling.
	ExcludePrompt bool
	Dense         []Dense // layers that follow the pooling, which the encoder computes
	Matryoshka    Matryoshka
	Late          *Late    // nil unless the model has a vector for each token
	Answers       *Answers // how a decoder scores pairs; nil if the files do not say
	// Stated reports whether the checkpoint has files that say all this. Otherwise it is the default of its family.
	Stated bool
}

// Answers are the tokens whose logits after a text score it, as the module LogitScore has them.
type Answers struct {
	Yes, No int // No is negative if Yes is scored by itself
	// Opens reports whether the chat template opens the answer (add_generation_prompt).
	Opens bool
	// Function is what is applied to the score: "identity", or "" for a sigmoid.
	Function string
}

// Dense is a linear layer after the pooling.
type Dense struct {
	In, Out    int
	Bias       bool
	Activation string // tanh, or "" for none
	Folder     string // of its weights, below the checkpoint's; "": the checkpoint's own files have them
}

// Size is the length of the vectors of a model with hidden states of that size.
func (s *Settings) Size(hidden int) int {
	if n := len(s.Dense); n > 0 {
		return s.Dense[n-1].Out
	}
	return hidden
}

// Normalize divides a vector by its length, in place. The sum of squares is in float64 and in order, so that the result
// depends on the vector alone. A vector of zeros stays as it is.
func Normalize(v []float32) {
	var sum float64
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	// As in torch.nn.functional.normalize, which sentence-transformers uses.
	length := max(math.Sqrt(sum), 1e-12)
	for i, x := range v {
		v[i] = float32(float64(x) / length)
	}
}

// Cut returns the first n numbers of a vector, for models that were trained so that these are an embedding too
// (Matryoshka). The result shares v's memory, and is not normalized.
func Cut(v []float32, n int) ([]float32, error) {
	if n < 1 || n > len(v) {
		return nil, fmt.Errorf("dimensions is %d, and the model's vectors have %d: choose 1 to %d", n, len(v), len(v))
	}
	return v[:n:n], nil
}
