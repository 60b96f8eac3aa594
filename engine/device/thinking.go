package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/control"
	"github.com/quire/quire/tree"
)

// Thought is the reasoning that a completion may have, between two tokens.
type Thought struct {
	Start, End int32 // the tokens
	Most       int   // tokens between them; behind so many End is drawn
	// Open says that the prompt ends within reasoning. What it has behind the last Start counts.
	Open bool
}

// thinkingOf is where n rows stand in their reasoning, declared once for the device and for the host. All zero is a row
// whose reasoning has no bound.
type thinkingOf[Ints any] struct {
	Start, End Ints // i32[n]: the tokens, plus 1
	Left       Ints // i32[n]: how many more tokens the reasoning may have
	Open       Ints // i32[n]: 1 within reasoning
}

type thinking = thinkingOf[*Node]

func (gr *Graphs) newThinking(g *Graph) thinking {
	each := func() *Node { return zeros(g, dtypes.Int32, gr.Slots) }
	return thinking{Start: each(), End: each(), Left: each(), Open: each()}
}

func (p Sizes) thinkingBytes() int64 { return 4 * 4 * int64(p.Slots) }

// setThinking fills in entry i, for the tokens of the prompt and those that were drawn before it was swapped out.
func setThinking(in thinkingOf[[]int32], i int, t *Thought, prompt, drawn []int32) {
	if t == nil {
		in.Start[i], in.End[i], in.Left[i], in.Open[i] = 0, 0, 0, 0
		return
	}
	in.Start[i], in.End[i], in.Left[i], in.Open[i] = t.Start+1, t.End+1, int32(t.Most), number(t.Open)
	if t.Open {
		for _, token := range slices.Backward(prompt) {
			if token == t.Start || in.Left[i] == 0 {
				break
			}
			in.Left[i]--
		}
	}
	for _, token := range drawn {
		next(in, i, token)
	}
}

// next takes row i through a token that it drew: the plain form of think.
func next(in thinkingOf[[]int32], i int, token int32) {
	if in.Open[i] == 0 {
		in.Open[i] = number(token+1 == in.Start[i])
		return
	}
	in.Left[i] = max(0, in.Left[i]-1)
	in.Open[i] = number(token+1 != in.End[i])
}

// admitThinking makes that of the slots that entries get.
func (gr *Graphs) admitThinking(t, in thinking, a admission) thinking {
	to := Where(a.Entries, a.Rows, FillScalar(a.Rows.Graph(), a.Rows.Shape(), float64(gr.Slots)))
	return tree.Zip(t, in, func(of, in *Node) *Node { return control.ScatterSet(of, to, in) })
}

// forcedBy are the tokens that rows must draw, i32[n]; -1 is none.
func forcedBy(t thinking) *Node {
	zero := ZerosLike(t.Left)
	atEnd := And(GreaterThan(t.Open, zero), LessOrEqual(t.Left, zero))
	return Where(atEnd, AddScalar(t.End, -1), AddScalar(zero, -1))
}

// think takes rows through the tokens that they drew.
func (gr *Graphs) think(t thinking, rows samplers, tokens *Node) thinking {
	g := tokens.Graph()
	of := tree.Map(t, func(of *Node) *Node { return take(of, rows.Slots) })
	zero := ZerosLike(tokens)
	left, open := thinkOn(of, tokens)
	valid := LogicalAnd(GreaterOrEqual(rows.Slots, zero), GreaterOrEqual(tokens, zero))
	to := Where(valid, rows.Slots, FillScalar(g, rows.Slots.Shape(), float64(gr.Slots)))
	t.Left = control.ScatterSet(t.Left, to, left)
	t.Open = control.ScatterSet(t.Open, to, open)
	return t
}

// thinkOn is where rows stand behind tokens, i32[n].
func thinkOn(of thinking, tokens *Node) (left, open *Node) {
	zero, one := ZerosLike(tokens), OnesLike(tokens)
	isOpen := GreaterThan(of.Open, zero)
	drawn := Add(tokens, one)
	left = Where(isOpen, Max(zero, Sub(of.Left, one)), of.Left)
	return left, ConvertDType(Where(isOpen, NotEqual(drawn, of.End), Equal(drawn, of.Start)), dtypes.Int32)
}
