package feature

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/sampling"
)

// measures are the values of measures, f32[D], of the distributions of logits [D, V], of which the first rows, i32[],
// are wanted.
var measures = [schedule.NumMeasures]func(logits, rows *Node) *Node{
	schedule.Entropy: sampling.Entropy,
}

// OfColumns returns the features that report the columns of these names: measures, notes and vectors of prompts.
func OfColumns(names ...string) (s Set) {
	for feature, name := range noted {
		if slices.Contains(names, name) {
			s |= feature
		}
	}
	if slices.Contains(names, "embedding") {
		s |= States
	}
	for m, name := range schedule.MeasureNames {
		if slices.Contains(names, name) {
			s |= ofMeasure(m)
		}
	}
	return s
}

// ofMeasure returns the feature that a program needs to report a measure.
func ofMeasure(m int) Set { return firstMeasure << m }

// Measures are those of distributions; nil for those that a program lacks. All rows have them, whatever they ask for:
// no state is needed.
type Measures [schedule.NumMeasures]*Node

// NoMeasures are zeros, for as many tokens as dims.
func (s Scores) NoMeasures(g *Graph, dims ...int) (all Measures) {
	for m := range measures {
		if s.Features.Has(ofMeasure(m)) {
			all[m] = zeros(g, dtypes.Float32, dims...)
		}
	}
	return all
}

// Measures returns the measures of the distributions of rows. Operations that change the logits in place must wait for
// them. The forbidden tokens that it returns do.
func (s Scores) Measures(logits *Node, rows Samplers, forbidden *Node) (all Measures, after *Node) {
	for m, value := range measures {
		if s.Features.Has(ofMeasure(m)) {
			all[m] = value(logits, rows.Count)
			forbidden = afterScores(forbidden, all[m])
		}
	}
	return all, forbidden
}
