package device

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// The class of a draft is its source and how many tokens of the end matched: classes of the sequence's own text come
// first, then classes of the log.
const (
	ownClasses   = longestMatch - shortestMatch + 1
	draftClasses = ownClasses + 3 // one of the log for each of loggedMatches
)

const (
	// trustKept is what is left of a class's counts after a step in which it had drafts.
	trustKept = 31. / 32
	// tryEvery: in one of so many steps that may have drafts, even classes that are not worth any draft get one.
	tryEvery = 32
)

// draftTrust is how drafts of each class fared: f32[draftClasses] each.
type draftTrust struct {
	Drawn   *Node // drafts that were accepted
	Refused *Node // sequences and steps in which one was not
	Steps   *Node // i32[]: steps that might have had drafts, modulo tryEvery
}

func newDraftTrust(g *Graph) draftTrust {
	return draftTrust{zeros(g, dtypes.Float32, draftClasses), zeros(g, dtypes.Float32, draftClasses), integer(g, 0)}
}

const draftTrustBytes = 4 * (2*draftClasses + 1)

// worth returns how many drafts of each class, up to most, are worth their rows of a step in which live sequences run,
// i32[]: i32[draftClasses]. If each draft is accepted with probability p, given that those before it are, the k-th is
// accepted with p^k. A draft adds one token to about live tokens of the step, and makes the step longer by a fraction
// of 1 / (live + costRows): see [Drafting].
func (t draftTrust) worth(live *Node, most, costRows int) *Node {
	g := live.Graph()
	all := func(x *Node) *Node { return BroadcastToDims(x, draftClasses) }
	chance := Div(AddScalar(t.Drawn, 1), AddScalar(Add(t.Drawn, t.Refused), 2))
	rows := ConvertDType(Max(live, integer(g, 1)), dtypes.Float32)
	least := Log(Div(rows, AddScalar(rows, float64(costRows))))
	counts := ConvertDType(Floor(MinScalar(Div(all(least), Log(chance)), float64(most))), dtypes.Int32)
	tries := Equal(t.Steps, integer(g, 0))
	return Max(counts, all(ConvertDType(tries, dtypes.Int32)))
}

// stepped counts a step, if it might have drafts, bool[].
func (t draftTrust) stepped(might *Node) draftTrust {
	t.Steps = modulo(Add(t.Steps, ConvertDType(might, dtypes.Int32)), tryEvery)
	return t
}

// learn counts the results of drafts with classes, i32[S], -1 for none: of counts, i32[S], drafts, drawn, i32[S], were
// accepted. If the sequence ended, bool[S], its remaining drafts don't count as refused.
func (t draftTrust) learn(classes, counts, drawn, ended *Node) draftTrust {
	g := classes.Graph()
	slots := classes.Shape().Dimensions[0]
	square := shapes.Make(dtypes.Int32, draftClasses, slots)
	row := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 0), draftClasses, slots) }
	isOf := LogicalAnd(Equal(Iota(g, square, 0), row(classes)), row(GreaterThan(counts, ZerosLike(counts))))
	sum := func(x *Node) *Node {
		return ConvertDType(ReduceSum(Where(isOf, row(x), Zeros(g, square)), 1), dtypes.Float32)
	}
	refused := ConvertDType(LogicalAnd(LessThan(drawn, counts), LogicalNot(ended)), dtypes.Int32)
	tried := GreaterThan(sum(OnesLike(counts)), ZerosLike(t.Drawn))
	t.Drawn = Where(tried, Add(MulScalar(t.Drawn, trustKept), sum(drawn)), t.Drawn)
	t.Refused = Where(tried, Add(MulScalar(t.Refused, trustKept), sum(refused)), t.Refused)
	return t
}
