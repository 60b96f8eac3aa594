package device

import (
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/stopping"
)

// barred returns the tokens that are forbidden for rows, i32[S, MaxStopTokens], -1 for none: tokens that end a
// completion, at positions before its MinLens. The rows in ends, which may be nil, have only such tokens left and may
// sample them.
func barred(st state, rows samplers, ends *Node) *Node {
	stops := take(st.Rows.StopTokens, rows.Slots)
	stops = Max(stops, SubScalar(Neg(stops), 2)) // also tokens that are only forbidden
	isEarly := LogicalAnd(st.table().Early(rows), GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots)))
	if ends != nil {
		isEarly = LogicalAnd(isEarly, LogicalNot(ends))
	}
	isEarly = BroadcastToDims(InsertAxes(isEarly, -1), stops.Shape().Dimensions...)
	return Where(isEarly, stops, FillScalar(stops.Graph(), stops.Shape(), -1))
}

// stops look for what ends completions.
type stops struct{ Sizes }

// finish returns how each row stands after the token that it sampled, i32[S], and advances its automata.
func (s stops) finish(st state, t stopping.Tables, rows samplers, tokens *Node) (state, *Node) {
	g := tokens.Graph()
	code := func(c schedule.Finish) *Node { return FillScalar(g, tokens.Shape(), float64(c)) }
	stops := take(st.Rows.StopTokens, rows.Slots)
	isStop := ReduceLogicalOr(Equal(stops, BroadcastToDims(InsertAxes(tokens, 1), stops.Shape().Dimensions...)), 1)
	isFull := GreaterOrEqual(AddScalar(rows.Positions, 1), take(st.Rows.MaxLens, rows.Slots))
	finish := Where(isFull, code(schedule.AtLength), code(schedule.Running))
	if s.Stops == nil {
		finish = Where(isStop, code(schedule.AtStopToken), finish)
	} else {
		var found *Node
		st, found = s.walk(st, t, rows, tokens)
		in := func(lane int) *Node { return Squeeze(SliceAxis(found, 1, AxisElem(lane)), 1) }
		finish = Where(LogicalOr(isStop, in(stopping.OfTokens)), code(schedule.AtStopToken), finish)
		finish = Where(in(stopping.OfText), code(schedule.AtStopString), finish)
	}
	return st, Where(LessThan(tokens, integer(g, 0)), code(schedule.NotANumber), finish)
}

// walk advances the automata of rows by the tokens that they sampled, and returns which of them find a stop that ends
// the completion, bool[S, stopping.Lanes].
func (s stops) walk(st state, t stopping.Tables, rows samplers, tokens *Node) (state, *Node) {
	g := tokens.Graph()
	valid := GreaterOrEqual(rows.Slots, integer(g, 0))
	after, found := stopping.Walk(t, take(st.Rows.StopStates, rows.Slots),
		Where(valid, tokens, FillScalar(g, tokens.Shape(), stopping.None)))
	nowhere := FillScalar(g, rows.Slots.Shape(), float64(s.Rows()))
	st.Rows.StopStates = control.ScatterSet(st.Rows.StopStates, Where(valid, rows.Slots, nowhere), after)
	counts := BroadcastToDims(InsertAxes(LogicalNot(st.table().Early(rows)), -1), found.Shape().Dimensions...)
	return st, LogicalAnd(found, counts)
}

// leaves returns the tables of stops as arguments of a program, none without automata.
func (s stops) leaves() []Leaf {
	if s.Stops == nil {
		return nil
	}
	leaves := []Leaf{{Name: "Stops.Next", Shape: s.Stops.Next}}
	if s.Stops.Bytes.Ok() {
		leaves = append(leaves, Leaf{Name: "Stops.Bytes", Shape: s.Stops.Bytes},
			Leaf{Name: "Stops.Starts", Shape: s.Stops.Starts})
	}
	return leaves
}

// stopTables are the tables of these arguments.
func stopTables(nodes []*Node) (t stopping.Tables) {
	for i, to := range []**Node{&t.Next, &t.Bytes, &t.Starts}[:len(nodes)] {
		*to = nodes[i]
	}
	return t
}
