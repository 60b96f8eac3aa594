package masking

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/stopping"
)

// Sizes are the sizes of an arena.
type Sizes struct {
	States int // rows of states, including Unknown
	Masks  int
	Words  int // of a mask: see sampling.MaskWords
	// PatchStates and PatchMasks are the numbers of rows of states and of masks that a call takes.
	PatchStates, PatchMasks int
}

// Info is what a row's entry of the array of that name says: whether its mask is known, which it is, and whether only
// tokens that end a completion may follow.
func Info(entry int32) (mask int32, end, known bool) { return entry/2 - 1, entry%2 == 1, entry > 0 }

// Tables are the device's tables of an arena.
type Tables struct {
	Next *Node // i32[States, Width]: the rows that follow a row
	Info *Node // i32[States]: see Info
	Bits *Node // u32[Masks, Words]
}

// PatchOf is what a call is given of the arena: the device's tables are the arena's, as far as they were given.
type PatchOf[Ints, Words any] struct {
	Clear  Ints // i32[1]: 1 to clear the tables first
	States Ints // i32[PatchStates]: rows to write; -1 = none
	// The rows' contents. nil on the host: as in the last call.
	Next  Ints  `tree:"apart"` // i32[PatchStates, Width]
	Info  Ints  // i32[PatchStates]
	Masks Ints  // i32[PatchMasks]: masks to write; -1 = none
	Bits  Words `tree:"apart"` // u32[PatchMasks, Words]
}

// Zeros makes empty tables.
func (s Sizes) Zeros(g *Graph) Tables {
	return Tables{Next: Zeros(g, shapes.Make(dtypes.Int32, s.States, Width)),
		Info: Zeros(g, shapes.Make(dtypes.Int32, s.States)),
		Bits: Zeros(g, shapes.Make(dtypes.Uint32, s.Masks, s.Words))}
}

// Apply writes a patch into the tables, in place. Where there is none it costs a look.
func (t Tables) Apply(p PatchOf[*Node, *Node]) Tables {
	g := t.Next.Graph()
	zero := Scalar(g, dtypes.Int32, 0)
	t = control.Once(GreaterThan(ReduceAllMax(p.Clear), zero), t, func(_ control.Now, t Tables) Tables {
		return Tables{ZerosLike(t.Next), ZerosLike(t.Info), ZerosLike(t.Bits)}
	})
	return control.Once(GreaterOrEqual(ReduceAllMax(p.States), zero), t, func(_ control.Now, t Tables) Tables {
		states := t.Next.Shape().Dimensions[0]
		next := Reshape(p.Next, p.States.Shape().Size(), Width)
		bits := Reshape(p.Bits, p.Masks.Shape().Size(), t.Bits.Shape().Dimensions[1])
		to := Where(GreaterOrEqual(p.States, ZerosLike(p.States)), p.States,
			FillScalar(g, p.States.Shape(), float64(states)))
		t.Next = control.ScatterSet(t.Next, to, next)
		t.Info = control.ScatterSet(t.Info, to, p.Info)
		to = Where(GreaterOrEqual(p.Masks, ZerosLike(p.Masks)), p.Masks,
			FillScalar(g, p.Masks.Shape(), float64(t.Bits.Shape().Dimensions[0])))
		t.Bits = control.ScatterSet(t.Bits, to, bits)
		return t
	})
}

// Masks returns the masks of rows in states i32[S, L], negative for none, and which rows may only end their
// completions, bool[S].
func (t Tables) Masks(states *Node) (m sampling.Masks, ends *Node) {
	info := t.infoOf(states)
	half := DivScalar(info, 2)
	ends = ReduceLogicalOr(GreaterThan(Sub(info, MulScalar(half, 2)), ZerosLike(info)), -1)
	return sampling.Masks{Bits: t.Bits, Of: SubScalar(half, 1)}, ends
}

// Known reports which rows have masks in all of their states i32[S, L], bool[S]: other rows can not sample.
func (t Tables) Known(states *Node) *Node {
	lacks := LogicalAnd(GreaterOrEqual(states, ZerosLike(states)), Equal(t.infoOf(states), ZerosLike(states)))
	return LogicalNot(ReduceLogicalOr(lacks, -1))
}

// infoOf returns the entries of states, 0 for negative states.
func (t Tables) infoOf(states *Node) *Node {
	entry := Gather(t.Info, InsertAxes(Max(states, ZerosLike(states)), -1))
	return Where(GreaterOrEqual(states, ZerosLike(states)), entry, ZerosLike(entry))
}

// Allow reports whether rows in states i32[S, L] may sample tokens, i32[S]: bool[S].
func (t Tables) Allow(states, tokens *Node) *Node {
	m, _ := t.Masks(states)
	bit := Mod(tokens, FillScalar(tokens.Graph(), tokens.Shape(), 32))
	words := t.Bits.Shape().Dimensions[1]
	word := BroadcastToDims(InsertAxes(DivScalar(tokens, 32), -1), m.Of.Shape().Dimensions...)
	place := Add(MulScalar(Max(m.Of, ZerosLike(m.Of)), float64(words)), Max(word, ZerosLike(word)))
	has := Gather(Reshape(t.Bits, t.Bits.Shape().Size()), InsertAxes(place, -1))
	has = BitwiseShiftRightLogical(has, BroadcastToDims(InsertAxes(ConvertDType(bit, dtypes.Uint32), -1),
		m.Of.Shape().Dimensions...))
	isIn := NotEqual(BitwiseAnd(has, OnesLike(has)), ZerosLike(has))
	return ReduceLogicalAnd(LogicalOr(isIn, LessThan(m.Of, ZerosLike(m.Of))), -1)
}

// Only returns the only token that rows in states i32[S, L] may sample, i32[S], -1 if they have no masks, or several
// tokens, or none.
func (t Tables) Only(states *Node) *Node {
	m, _ := t.Masks(states)
	bits := m.All()
	has := GreaterOrEqual(ReduceMax(m.Of, -1), Scalar(states.Graph(), dtypes.Int32, 0))
	number := ReduceSum(ConvertDType(BitCount(bits), dtypes.Int32), -1)
	// A word of one bit less one has as many bits as the bit's place.
	place := ConvertDType(BitCount(Sub(bits, OnesLike(bits))), dtypes.Int32)
	place = Add(place, MulScalar(Iota(place.Graph(), place.Shape(), 1), 32))
	token := ReduceSum(Where(NotEqual(bits, ZerosLike(bits)), place, ZerosLike(place)), -1)
	return Where(LogicalAnd(has, Equal(number, OnesLike(number))), token, SubScalar(ZerosLike(token), 1))
}

// Walk takes the states of rows, i32[S, L], through a token of each, i32[S], negative for none. texts are what tokens
// are to the lanes; their Next is not read.
func (t Tables) Walk(texts stopping.Tables, states, tokens *Node) *Node {
	texts.Next = t.Next
	after, _ := stopping.Walk(texts, states, tokens)
	return after
}
