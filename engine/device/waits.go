package device

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/scan"
	"github.com/quire/quire/tokenqueue"
)

// waitsForHost reports whether slots may have to wait for the host, which fills in their masks.
func (p Sizes) waitsForHost() bool { return p.Features.Has(feature.MaskedTokens) }

// numWaits is how many slots wait for the host, i32[].
func (gr *Graphs) numWaits(st state) *Node { return scan.Count(gr.Waits(st.Extras.State, st.table())) }

// mostWaited is how many tokens the slots that wait may have missed when a call returns for them. A call has a price,
// about that of a twelfth of a step on CPUs, and so has a slot that draws nothing.
func (p Sizes) mostWaited() int { return p.MaxSeqs / 8 }

// holdBack leaves the tokens of slots that wait in the queue, and takes them from next, i32[R], see tokenqueue.Queue.
// after is the queue where a step takes the others of next.
func (gr *Graphs) holdBack(l *loop, next, takes *Node) (left *Node, after tokenqueue.Queue) {
	g, rows := next.Graph(), gr.Rows()
	waits := gr.Waits(l.State.Extras.State, l.State.table())
	all := Concatenate([]*Node{waits, zeros(g, dtypes.Bool, rows-gr.Slots)}, 0)
	count := ConvertDType(LogicalAnd(waits, BroadcastToDims(takes, gr.Slots)), dtypes.Int32)
	l.Out.Waits = Add(l.Out.Waits, Concatenate([]*Node{zeros(g, dtypes.Int32, 1), Reshape(ReduceAllSum(count), 1)}, 0))
	return Where(all, FillScalar(g, next.Shape(), -1), next), l.State.Queue.PurgeSlots(LogicalNot(all))
}

// mayWait says that the slots that wait have not missed too many tokens, with the next.
func (gr *Graphs) mayWait(l loop) *Node {
	missed := Add(ReduceAllSum(l.Out.Waits), gr.numWaits(l.State))
	return LessOrEqual(missed, integer(missed.Graph(), gr.mostWaited()))
}

// maskTexts are the texts of tokens as arguments of a program, none where rows have no masks.
func (gr *Graphs) maskTexts() (leaves []Leaf) {
	for i, shape := range gr.Texts() {
		leaves = append(leaves, Leaf{Name: []string{"Masks.Bytes", "Masks.Starts"}[i], Shape: shape})
	}
	return leaves
}
