package feature

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/tree"
)

// filterFeature are the filters other than top-k, top-p and min-p.
type filterFeature struct {
	idle
	Sizes
}

func (f filterFeature) begin(g *Graph, st *State) {
	rows := tree.Make[sampling.FiltersOf[[]float32]](f.Slots)
	st.Filters = tree.Zeros[sampling.Filters](g, tree.Arrays(&rows))
}

func (f filterFeature) bytes() (n int64) {
	rows := tree.Make[sampling.FiltersOf[[]float32]](f.Slots)
	for _, a := range tree.Arrays(&rows) {
		n += int64(a.Shape.Memory())
	}
	return n
}

func (f filterFeature) ask(in *Asked) {
	in.Filters = tree.Make[sampling.FiltersOf[[]float32]](f.WaitingLen())
}

func (f filterFeature) set(in *Asked, i int, row Row, _ schedule.Entry) {
	sampling.SetFilters(in.Filters, i, row.Sampling)
}

func (f filterFeature) admit(st *State, in Input, a Admission) {
	to := a.slots(f.Slots)
	set := func(state, in *Node) *Node { return control.ScatterSet(state, to, in) }
	st.Filters = tree.Zip(st.Filters, in.Asked.Filters, set)
}

func (f filterFeature) process(st State, _ Table, rows Samplers, by *Processors) {
	filters := tree.Map(st.Filters, func(x *Node) *Node { return take(x, rows.Slots) })
	by.Filters = &filters
}
