// Package sampling turns a batch of logits into one token a row: greedy, temperature, top-k, top-p and min-p, with the
// log-probability of the chosen token, as graph code that runs inside the decode loop.
//
// # What is computed
//
// For one row of logits l[0..V), with max = max(l), every token gets a weight and every filter is a lower bound on it:
//
//	e[i] = exp((l[i] - max) / temperature)            float32, 1 for the most likely tokens
//	w[i] = floor(e[i] * 2^36)                         the weight, an integer
//
//	top-k   keeps e[i] >= the k-th largest e          (ties at the threshold are all kept; 0 = off)
//	top-p   keeps e[i] >= the largest t for which the tokens with e >= t hold at least floor(top_p * 2^32) / 2^32 of
//	        the weight that top-k left                (ties are all kept; 1 = off; the best token always stays)
//	min-p   keeps e[i] >= min_p                       (min_p is relative to the most likely token; 0 = off)
//
// The filters apply in this order: temperature, top-k, top-p, min-p. The token is then sampled with probability
// w[i] / (sum of the kept w). Temperature 0 is greedy: the largest logit, the lowest id if several are equal.
//
// # Order
//
// Rows may ask for more, see [Processors]. They apply in this order:
//
//	biases      l[i] + bias[i]                        (OpenAI's logit_bias)
//	masks       forbidden tokens have the weight 0
//	penalties   repetition, then frequency and presence: see [Penalize]
//	DRY         of tokens that would repeat a sequence: see [DRY]
//	no repeats  tokens that would end a sequence that the row has already have the weight 0: see [NoRepeat]
//	forced      if a token is forced, all others have the weight 0
//	temperature and e as above
//	top-n-sigma, top-k, top-p, min-p, typical-p, XTC: see [Filters]
//
// Log-probabilities are computed from the unprocessed logits, processed ones from the distribution that was sampled
// from. If its weights are a few units, as after XTC with the threshold 0, rounding may take a processed one above 0,
// for which package engine reports 0.
//
// # Why integers
//
// Integer sums do not depend on the order of the additions. So the token of a row does not depend on how a compiler
// splits a reduction, on the other rows of the batch, on the row's place in it or on the batch size; and the inverse of
// the cumulative distribution is exact: a token of weight zero cannot be sampled, whatever is rounded. What rounding
// down removes is less than 2^-36 of the most likely token's probability for each token. The floating point steps
// before the sums are elementwise. The raw log-probability alone has a float32 sum.
//
// # No sort of the vocabulary
//
// Thresholds are found by bisection of the bit patterns of e, each round one pass: first over the blocks with the
// likeliest tokens, and over the whole vocabulary for the rows whose threshold lies below them, a few rows at a time.
// It ends when what is kept is known exactly. Batches without top-k and top-p skip it.
//
// # Randomness
//
// Each row has a key and each token one counter: the 64 bits of Threefry-2x32-20(Key, (position, 0)) are the uniform
// number. The key comes from (seed, request id, generation) on the host, see [RequestKey], so a completion depends on
// nothing else.
package sampling
