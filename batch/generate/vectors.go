package generate

import (
	"cmp"
	"slices"

	"github.com/quire/quire/batch/spec"
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

// vectorsOf is how a job's vectors are made; nil if it has none.
func vectorsOf(j *spec.Job) *spec.Vectors {
	if !j.Embeds() {
		return nil
	}
	return &j.Vectors
}
