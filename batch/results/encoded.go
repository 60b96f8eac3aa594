package results

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/models/scoring"
	"github.com/quire/quire/models/sentence"
)

// finishedVector does what follows the pooling, and returns the vector as the output stores it, or what is wrong with
// it. A line of a batch file may ask for dimensions of its own; 0 is none.
func finishedVector(v spec.Vectors, dimensions int, pooled []float32) (stored []float32, wrong string) {
	v.Dimensions = cmp.Or(dimensions, v.Dimensions)
	vector, err := sentence.Cut(slices.Clone(pooled), v.Dimensions)
	if err != nil {
		return nil, err.Error()
	}
	if v.Normalize {
		sentence.Normalize(vector)
	}
	return v.Stored(vector), ""
}

// finisher makes a result of the numbers that an encoder gives, for a line of a batch file or nil. It returns what is
// wrong with them.
type finisher func(r *completion.Result, line *requests.Request, numbers []float32) (wrong string)

// finisherOf returns what makes a job's results; nil if they are completions.
func finisherOf(j *spec.Job) finisher {
	scores := j.Scores
	switch j.Task {
	case completion.Embed:
		return func(r *completion.Result, line *requests.Request, numbers []float32) (wrong string) {
			r.Vector, wrong = finishedVector(j.Vectors, line.VectorSize(), numbers)
			return wrong
		}
	case completion.Classify:
		return func(r *completion.Result, _ *requests.Request, numbers []float32) string {
			r.Vector = scores.Function.Apply(numbers)
			r.Label = scores.Labels[scoring.Best(r.Vector)]
			return ""
		}
	case completion.Rerank:
		return func(r *completion.Result, line *requests.Request, numbers []float32) string {
			r.Vector = scores.Function.Apply(numbers)
			r.Ranking = scoring.Ranking(r.Vector, cmp.Or(line.Ranks(), scores.TopN))
			return ""
		}
	}
	return nil
}
