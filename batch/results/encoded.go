package results

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/ask"
	"github.com/quire/quire/batch/spec"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/requests"
	"github.com/quire/quire/engine"
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

// finisher makes a result of the numbers that an encoder gives for a request of a row. It returns what is wrong with
// them.
type finisher func(r *completion.Result, row *promptset.Row, request *engine.Request, numbers []float32) (wrong string)

// finisherOf returns what makes a job's results; nil if they are completions.
func finisherOf(j *spec.Job, text *ask.Text) finisher {
	scores := j.Scores
	switch j.Task {
	case completion.Embed:
		return func(r *completion.Result, row *promptset.Row, _ *engine.Request, numbers []float32) (wrong string) {
			r.Vector, wrong = finishedVector(j.Vectors, requests.Of(row).VectorSize(), numbers)
			return wrong
		}
	case completion.MultiVector:
		return func(r *completion.Result, _ *promptset.Row, request *engine.Request, numbers []float32) (wrong string) {
			size := len(numbers) / max(1, len(request.Tokens))
			for i, token := range request.Tokens {
				if text.Late != nil && text.Late.Skipped[token] {
					continue
				}
				vector, wrong := finishedVector(j.Vectors, 0, numbers[i*size:(i+1)*size])
				if wrong != "" {
					return wrong
				}
				r.Vectors = append(r.Vectors, vector)
			}
			return ""
		}
	case completion.Classify:
		return func(r *completion.Result, _ *promptset.Row, _ *engine.Request, numbers []float32) string {
			r.Vector = scores.Function.Apply(numbers)
			r.Label = scores.Labels[scoring.Best(r.Vector)]
			return ""
		}
	case completion.Rerank:
		return func(r *completion.Result, row *promptset.Row, _ *engine.Request, numbers []float32) string {
			if scores.Answers == 2 {
				numbers = scoring.Differences(numbers)
			}
			r.Vector = scores.Function.Apply(numbers)
			r.Ranking = scoring.Ranking(r.Vector, cmp.Or(requests.Of(row).Ranks(), scores.TopN))
			return ""
		}
	case completion.Tag:
		return func(r *completion.Result, row *promptset.Row, _ *engine.Request, numbers []float32) string {
			_, spans, err := text.Spans(row.Prompt)
			if err != nil {
				return err.Error()
			}
			if n := len(numbers) / len(scores.Labels); n < len(spans) { // as package ask truncates
				spans = ask.Beginning(spans, n, text.Ends)
			}
			tokens := make([]scoring.Span, len(spans))
			for i, s := range spans {
				tokens[i] = scoring.Span(s)
			}
			tags := scoring.Tag(scores.Labels, numbers, tokens)
			r.Labels, r.Starts, r.Ends, r.Vector = tags.Labels, tags.Starts, tags.Ends, tags.Scores
			r.TokenLabels = tags.Tokens
			return ""
		}
	}
	return nil
}
