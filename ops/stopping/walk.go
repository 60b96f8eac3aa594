package stopping

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
)

// None is the absence of a state: a row without stops.
const None = -1

// The lanes of a row's state: the automaton of its stop strings and the automaton of its token sequences.
const (
	OfText = iota
	OfTokens
	Lanes
)

// TablesOf has the tables that [Walk] reads. They stay on the device between calls. Without texts there are no stop
// strings.
type TablesOf[Ints any] struct {
	Next   Ints // i32[N, Width]: the arena
	Bytes  Ints // i32[B]: the bytes of all tokens, concatenated
	Starts Ints // i32[V+1]: the start of each token's bytes
}

// Tables are the tables in a graph.
type Tables = TablesOf[*Node]

// stride is how many symbols an iteration of the loop reads: the operations of an iteration cost more than its
// arithmetic.
const stride = 4

// Walk advances the automata of rows by one token each. states i32[n, Lanes] are rows of the arena, or None; tokens
// i32[n] are the generated tokens, negative for none. It returns the next states, and whether stops were found,
// bool[n, Lanes]. If no row has a state, the cost is one look at the states.
func Walk(t Tables, states, tokens *Node) (after, found *Node) {
	g := states.Graph()
	if states.Rank() != 2 || states.Shape().Dimensions[1] != Lanes {
		panic(fmt.Errorf("stopping.Walk: states must be i32[n, %d], got %s", Lanes, states.Shape()))
	}
	type walked struct{ States, Found *Node }
	zero := Scalar(g, dtypes.Int32, 0)
	has := LogicalAnd(GreaterOrEqual(ReduceMax(states, -1), zero), GreaterOrEqual(tokens, zero))
	// Once, because most steps have no stops.
	w := control.Once(ReduceLogicalOr(has), walked{states, ZerosLike(states)}, func(_ control.Now, w walked) walked {
		after, found := walk(t, w.States, tokens)
		return walked{after, found}
	})
	return w.States, GreaterThan(w.Found, zero)
}

// walk is Walk; it marks stops that are found with 1.
func walk(t Tables, states, tokens *Node) (after, found *Node) {
	g, shape := states.Graph(), states.Shape()
	integer := func(x int) *Node { return Scalar(g, dtypes.Int32, float64(x)) }
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), shape.Dimensions...) }
	lane := Iota(g, shape, 1)
	isText := Equal(lane, integer(OfText))
	active := LogicalAnd(GreaterOrEqual(states, integer(0)), GreaterOrEqual(wide(tokens), integer(0)))
	token := Max(tokens, integer(0))
	starts, lens := ZerosLike(tokens), ZerosLike(tokens)
	if t.Starts != nil {
		known := Min(token, integer(t.Starts.Shape().Size()-2))
		starts = take(t.Starts, known)
		lens = Where(Equal(known, token), Sub(take(t.Starts, AddScalar(known, 1)), starts), lens)
	}
	ends := Where(active, Where(isText, wide(lens), FillScalar(g, shape, TokenBytes)), ZerosLike(states))
	type state struct{ At, States, Found *Node }
	s := state{At: integer(0), States: states, Found: ZerosLike(states)}
	s = control.While(s, func(s state) *Node { return LessThan(s.At, ReduceAllMax(ends)) }, func(s state) state {
		next := Reshape(t.Next, t.Next.Shape().Size())
		for range stride {
			position := BroadcastToDims(s.At, shape.Dimensions...)
			shift := Where(Equal(s.At, integer(0)), integer(1<<16), Where(Equal(s.At, integer(1)), integer(1<<8),
				integer(1)))
			symbol := Mod(Div(wide(token), BroadcastToDims(shift, shape.Dimensions...)), FillScalar(g, shape, Width))
			if t.Bytes != nil {
				place := Min(Add(wide(starts), position), integer(t.Bytes.Shape().Size()-1))
				symbol = Where(isText, take(t.Bytes, place), symbol)
			}
			reads := LessThan(position, ends)
			place := Where(reads, Add(MulScalar(s.States, Width), symbol), ZerosLike(s.States))
			entry := take(next, place)
			to := Max(entry, Sub(integer(-1), entry)) // ^entry if a stop is found
			s.States = Where(reads, to, s.States)
			s.Found = Max(s.Found, ConvertDType(LogicalAnd(reads, LessThan(entry, integer(0))), dtypes.Int32))
			s.At = AddScalar(s.At, 1)
		}
		return s
	})
	return s.States, s.Found
}

// NewTables returns the tables of a vocabulary, as the shapes of a program's arguments: rows of the arena, and bytes
// in total for the tokens of a vocabulary of that size. If bytes is 0, there are no texts.
func NewTables(rows, bytes, vocabulary int) *TablesOf[shapes.Shape] {
	t := &TablesOf[shapes.Shape]{Next: shapes.Make(dtypes.Int32, rows, Width)}
	if bytes > 0 {
		t.Bytes, t.Starts = shapes.Make(dtypes.Int32, bytes), shapes.Make(dtypes.Int32, vocabulary+1)
	}
	return t
}

// take returns x at indices of any shape.
func take(x, indices *Node) *Node { return Gather(x, InsertAxes(indices, -1)) }
