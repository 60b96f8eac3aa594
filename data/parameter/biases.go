package parameter

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// Biases are added to the logits of tokens, by token id: OpenAI's logit_bias.
type Biases map[int32]float32

// ParseBiases parses an object of numbers by token id, or text that contains one. Members that are null are ignored,
// because every struct of a Parquet column has all members.
func ParseBiases(raw []byte) (Biases, error) {
	var inner string
	if json.Unmarshal(raw, &inner) == nil {
		raw = []byte(inner)
	}
	var object map[string]*float64
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil, fmt.Errorf("is %.100s, but must be %v", raw, BiasesOfTokens)
	}
	var b Biases
	for key, value := range object {
		id, err := strconv.ParseInt(key, 10, 32)
		switch {
		case err != nil || id < 0:
			return nil, fmt.Errorf("has %q, which is not a token id", key)
		case value == nil:
			continue
		case !(math.Abs(*value) <= 100):
			return nil, fmt.Errorf("has %v for token %d, but must have numbers from -100 to 100", *value, id)
		case b == nil:
			b = Biases{}
		}
		b[int32(id)] = float32(*value)
	}
	return b, nil
}
