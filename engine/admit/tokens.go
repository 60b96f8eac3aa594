package admit

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/sampling"
)

// maxLogitBias bounds the biases of tokens, as OpenAI and vLLM do.
const maxLogitBias = 100

// stopTokensOf are the tokens that end a completion of r, each once, those with biases first. The model's own are
// forbidden until the completion has min_tokens, even if they do not end it.
func (c *Checker) stopTokensOf(r *Request) []int32 {
	tokens := slices.Compact(slices.Sorted(slices.Values(r.StopTokens)))
	for _, eos := range c.model.EOS {
		switch {
		case slices.Contains(tokens, eos):
		case !r.IgnoreEOS:
			tokens = append(tokens, eos)
		case r.Sampling.MinTokens > 0:
			tokens = append(tokens, device.BarredOnly(eos))
		}
	}
	slices.SortStableFunc(tokens, func(x, y int32) int {
		return cmp.Compare(boolToInt(!r.hasBias(x)), boolToInt(!r.hasBias(y)))
	})
	return tokens
}

func boolToInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stopToken is the token that one of stopTokensOf is.
func stopToken(token int32) int32 {
	if token < 0 {
		return device.BarredOnly(token) // its own inverse
	}
	return token
}

// StopTokens are the tokens that end a completion of r: the tokens of a row, and the sequences of tokens. Tokens that a
// row has no room for are sequences.
func (c *Checker) StopTokens(r *Request) (tokens []int32, sequences [][]int32) {
	tokens, sequences = c.stopTokensOf(r), slices.Clone(r.StopSequences)
	for len(tokens) > device.MaxStopTokens {
		last := len(tokens) - 1
		if tokens[last] >= 0 { // the others end nothing
			sequences = append(sequences, tokens[last:])
		}
		tokens = tokens[:last:last]
	}
	return tokens, sequences
}

// biasesOf are the biases of the tokens of a request. Stop tokens that a row has no room for are forbidden by biases.
func (c *Checker) biasesOf(r *Request) (list []feature.Bias) {
	for _, token := range slices.Sorted(maps.Keys(r.LogitBias)) {
		list = append(list, feature.Bias{Token: token, Value: r.LogitBias[token]})
	}
	if all := c.stopTokensOf(r); r.Sampling.MinTokens > 0 && len(all) > device.MaxStopTokens {
		for _, token := range all[device.MaxStopTokens:] {
			list = append(list, feature.Bias{Token: stopToken(token), Value: sampling.BarredEarly})
		}
	}
	return list
}

// checkBiases returns what is wrong with the biases of a request.
func (c *Checker) checkBiases(r *Request) error {
	vocab := int32(c.model.VocabSize)
	for _, token := range slices.Sorted(maps.Keys(r.LogitBias)) {
		switch bias := float64(r.LogitBias[token]); {
		case token < 0 || token >= vocab:
			return invalid("logit_bias", "logit_bias has token %d, the vocabulary has 0 to %d", token, vocab-1)
		case !(math.Abs(bias) <= maxLogitBias):
			return invalid("logit_bias", "logit_bias of token %d is %v, but must be -%d to %d", token, bias,
				maxLogitBias, maxLogitBias)
		}
	}
	all := c.stopTokensOf(r)
	if n := len(c.biasesOf(r)); n > feature.MaxBiases {
		return invalid("logit_bias", "%d tokens have a bias or are barred by min_tokens, and a row has room for %d: "+
			"give fewer", n, feature.MaxBiases)
	}
	if r.Sampling.MinTokens > 0 && len(all) > device.MaxStopTokens && r.hasBias(all[device.MaxStopTokens]) {
		return refuse("more than %d stop tokens have a logit_bias, which is not supported with min_tokens",
			device.MaxStopTokens)
	}
	return nil
}

// hasBias reports whether a stop token has a bias.
func (r *Request) hasBias(token int32) bool {
	_, ok := r.LogitBias[stopToken(token)]
	return ok
}
