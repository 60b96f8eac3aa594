// Package scoring turns the numbers of a head, which a model computes, into scores of classes and of pairs.
package scoring

import (
	"cmp"
	"math"
	"slices"

	"github.com/quire/quire/models/arch"
)

// Function makes scores of the numbers of a head.
type Function string

// The functions.
const (
	Softmax Function = "softmax" // shares of all classes, whose sum is 1
	Sigmoid Function = "sigmoid" // each number on its own, within 0 and 1
	None    Function = "none"    // the numbers themselves
)

// Functions lists all functions.
func Functions() []string { return []string{string(Softmax), string(Sigmoid), string(None)} }

// OfClasses returns the function of a head as the pipeline of transformers chooses it.
func OfClasses(c *arch.Classifier) Function {
	switch {
	case c.Problem == arch.Regression:
		return None
	case c.Problem == arch.MultiLabel || len(c.Labels) == 1:
		return Sigmoid
	}
	return Softmax
}

// OfPairs returns the function of a head with one label as the CrossEncoder of sentence-transformers chooses it.
func OfPairs(c *arch.Classifier) Function {
	if c.Function == "identity" {
		return None
	}
	return Sigmoid
}

// Apply returns scores. Sums are in float64 and in order, so that scores depend on the numbers alone.
func (f Function) Apply(numbers []float32) []float32 {
	scores := slices.Clone(numbers)
	switch f {
	case Sigmoid:
		for i, x := range numbers {
			scores[i] = float32(1 / (1 + math.Exp(-float64(x))))
		}
	case Softmax:
		return Shares(numbers)
	}
	return scores
}

// Differences returns for each pair of numbers how much larger the first one is.
func Differences(numbers []float32) []float32 {
	each := make([]float32, len(numbers)/2)
	for i := range each {
		each[i] = numbers[2*i] - numbers[2*i+1]
	}
	return each
}

// Shares returns the softmax of numbers, such as natural logarithms of probabilities.
func Shares[T float32 | float64](numbers []T) []float32 {
	most, sum := float64(slices.Max(numbers)), 0.0
	for _, x := range numbers {
		sum += math.Exp(float64(x) - most)
	}
	shares := make([]float32, len(numbers))
	for i, x := range numbers {
		shares[i] = float32(math.Exp(float64(x)-most) / sum)
	}
	return shares
}

// Best returns the number of the largest score, of equal ones the first.
func Best(scores []float32) int {
	best := 0
	for i, s := range scores {
		if s > scores[best] {
			best = i
		}
	}
	return best
}

// Ranking returns the numbers of the n largest scores, the largest first, of equal ones the first; all if n is 0.
func Ranking(scores []float32, n int) []int32 {
	order := make([]int32, len(scores))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortStableFunc(order, func(a, b int32) int { return cmp.Compare(scores[b], scores[a]) })
	if n > 0 {
		order = order[:min(n, len(order))]
	}
	return order
}
