package device

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/tokenqueue"
)

// waiting is slots that wait for the host. Without masks there are none.
type waiting struct{ Sizes }

// any reports whether slots may have to wait for the host, which fills in their masks.
func (w waiting) any() bool { return w.Features.Has(feature.MaskedTokens) }

// count is how many slots wait for the host, i32[].
func (w waiting) count(st state) *Node { return scan.Count(w.Waits(st.Extras.State, st.table())) }

// most is how many tokens the waiting slots may have missed when a call returns for them. On CPUs a call costs about a
// twelfth of a step, and so does a slot that samples nothing.
func (w waiting) most() int { return w.MaxSeqs / 8 }

// holdBack leaves the tokens of slots that wait in the queue, and removes them from next, i32[R], see tokenqueue.Queue.
// after is the queue once a step has taken the rest of next.
func (w waiting) holdBack(l *loop, next, takes *Node) (left *Node, after tokenqueue.Queue) {
	g, rows := next.Graph(), w.Rows()
	waits := w.Waits(l.State.Extras.State, l.State.table())
	all := Concatenate([]*Node{waits, zeros(g, dtypes.Bool, rows-w.Slots)}, 0)
	count := ConvertDType(LogicalAnd(waits, BroadcastToDims(takes, w.Slots)), dtypes.Int32)
	l.Out.Waits = Add(l.Out.Waits, Concatenate([]*Node{zeros(g, dtypes.Int32, 1), Reshape(ReduceAllSum(count), 1)}, 0))
	return Where(all, FillScalar(g, next.Shape(), -1), next), l.State.Queue.PurgeSlots(LogicalNot(all))
}

// may reports whether the waiting slots have not missed too many tokens yet, counting the next ones.
func (w waiting) may(l loop) *Node {
	missed := Add(ReduceAllSum(l.Out.Waits), w.count(l.State))
	return LessOrEqual(missed, integer(missed.Graph(), w.most()))
}

// texts returns the texts of tokens as arguments of a program, none without masks.
func (w waiting) texts() (leaves []Leaf) {
	for i, shape := range w.Texts() {
		leaves = append(leaves, Leaf{Name: []string{"Masks.Bytes", "Masks.Starts"}[i], Shape: shape})
	}
	return leaves
}
