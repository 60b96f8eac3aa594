package sampling

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/data/parameter"
)

// Heads is how many token sequences may be breakers of a row, in addition to single tokens.
const Heads = 15

// MostTail is how many tokens may follow the first token of a breaker.
const MostTail = 20

// Breakers are what ends repetitions, as tokens: single tokens, and tails that follow one of several first tokens.
type Breakers struct {
	// Classes has 16 bits for each token of the vocabulary, two tokens per word: bit 0 is set for a token that is a
	// breaker by itself, bit 1+i for one that Tails[i] completes to a breaker.
	Classes []uint32
	Tails   [][]int32
}

// ClassWords returns the number of words of Breakers.Classes for a vocabulary.
func ClassWords(vocabulary int) int { return (vocabulary + 1) / 2 }

// Class returns the 16 bits of a token.
func (b *Breakers) Class(token int32) uint32 {
	if int(token/2) >= len(b.Classes) {
		return 0
	}
	return b.Classes[token/2] >> (token % 2 * 16) & 0xffff
}

// Add sets bits of a token.
func (b *Breakers) Add(token int32, bits uint32) { b.Classes[token/2] |= bits << (token % 2 * 16) }

// Backwards returns the tails in the form of BreakersOf.
func (b *Breakers) Backwards() [][]int32 {
	all := make([][]int32, Heads)
	for i := range all {
		for k := range MostTail {
			all[i] = append(all[i], -1)
			if b != nil && i < len(b.Tails) && k < len(b.Tails[i]) {
				all[i][k] = b.Tails[i][len(b.Tails[i])-1-k]
			}
		}
	}
	return all
}

// Unbroken is the History.Limit of tokens without a breaker.
const Unbroken = parameter.MaxDRYLastN * 2

// HistoryOf is DRY's record of the tokens of n sequences, declared once for the device and for the host. H is the
// length of the histories.
type HistoryOf[Ints any] struct {
	// Tokens i32[n, H] are the last tokens, the newest first; -1 if there are none. Matches i32[n, H] is, for each of
	// them, how many tokens from it backwards equal the tokens from the newest backwards; 0 for the newest itself.
	Tokens  Ints `tree:"apart"`
	Matches Ints `tree:"apart"`
	// Head i32[n] is how far back the first token of the last breaker is, and Limit i32[n] is the number of tokens
	// after the breaker.
	Head, Limit Ints
}

// Histories are the histories on the device.
type Histories = HistoryOf[*Node]

// BreakersOf has the breakers of n rows on the device.
type BreakersOf struct {
	Classes *Node // u32[n, ClassWords(V)]
	Tails   *Node // i32[n, Heads, MostTail], each backwards and padded with -1
}

// classes returns the classes of tokens i32[n, K] of rows i32[n] of b, u32[n, K]; 0 for negative tokens.
func (b BreakersOf) classes(rows, tokens *Node) *Node {
	words := b.Classes.Shape().Dimensions[1]
	dims := tokens.Shape().Dimensions
	valid := GreaterOrEqual(tokens, ZerosLike(tokens))
	tokens = Max(tokens, ZerosLike(tokens))
	half := BitwiseShiftRightArithmetic(tokens, OnesLike(tokens))
	place := Add(MulScalar(BroadcastToDims(InsertAxes(rows, -1), dims...), float64(words)), half)
	word := Gather(Reshape(b.Classes, b.Classes.Shape().Size()), InsertAxes(place, -1))
	shift := ConvertDType(MulScalar(BitwiseAnd(tokens, OnesLike(tokens)), 16), dtypes.Uint32)
	class := BitwiseAnd(BitwiseShiftRightLogical(word, shift), Scalar(word.Graph(), dtypes.Uint32, uint32(0xffff)))
	return Where(valid, class, ZerosLike(class))
}

// Break returns which of tokens i32[n], of the rows i32[n] of b, are breakers by themselves, bool[n].
func (b BreakersOf) Break(rows, tokens *Node) *Node {
	class := Squeeze(b.classes(rows, InsertAxes(tokens, -1)), -1)
	return NotEqual(BitwiseAnd(class, OnesLike(class)), ZerosLike(class))
}

// Push appends a token i32[n] to each sequence; -1 is none.
func (b BreakersOf) Push(h Histories, tokens *Node) Histories {
	g := tokens.Graph()
	n, length := h.Tokens.Shape().Dimensions[0], h.Tokens.Shape().Dimensions[1]
	some := GreaterOrEqual(tokens, ZerosLike(tokens))
	all := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, -1), n, length) }
	older := SliceAxis(h.Tokens, 1, AxisRange(0, length-1))
	list := Where(all(some), Concatenate([]*Node{InsertAxes(tokens, -1), older}, 1), h.Tokens)
	isSame := And(Equal(list, all(tokens)), GreaterThan(Iota(g, list.Shape(), 1), ZerosLike(list)))
	matches := Where(isSame, AddScalar(h.Matches, 1), ZerosLike(list))

	rows, unbroken := Iota(g, int32Vector(n), 0), FillScalar(g, int32Vector(n), Unbroken)
	found := Where(b.Break(rows, tokens), ZerosLike(tokens), unbroken)
	reach := min(MostTail, length-1)
	tails := SliceAxis(b.Tails, 2, AxisRange(0, reach))
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 1), n, Heads, x.Shape().Dimensions[1]) }
	recent := SliceAxis(list, 1, AxisRange(0, reach+1))
	isTail := Or(Equal(tails, wide(SliceAxis(recent, 1, AxisRange(0, reach)))), LessThan(tails, ZerosLike(tails)))
	lens := ReduceSum(ConvertDType(GreaterOrEqual(b.Tails, ZerosLike(b.Tails)), dtypes.Int32), -1) // i32[n, Heads]
	isHead := Equal(Iota(g, shapes.Make(dtypes.Int32, n, Heads, reach+1), 2),
		BroadcastToDims(InsertAxes(lens, -1), n, Heads, reach+1))
	head := ReduceMax(Where(isHead, wide(recent), FillScalar(g, shapes.Make(dtypes.Int32, n, Heads, reach+1), -1)), -1)
	bit := Iota(g, shapes.Make(dtypes.Uint32, n, Heads), 1)
	class := BitwiseShiftRightLogical(b.classes(rows, head), AddScalar(bit, 1))
	matched := And(ReduceLogicalAnd(isTail, -1), NotEqual(BitwiseAnd(class, OnesLike(class)), ZerosLike(class)))
	matched = And(matched, GreaterThan(lens, ZerosLike(lens)))
	found = Min(found, ReduceMin(Where(matched, lens, FillScalar(g, lens.Shape(), Unbroken)), -1))

	headBack, limit := Min(AddScalar(h.Head, 1), unbroken), Min(AddScalar(h.Limit, 1), unbroken)
	isNearer := And(LessOrEqual(found, headBack), LessThan(found, unbroken))
	return Histories{Tokens: list, Matches: Where(all(some), matches, h.Matches),
		Head:  Where(some, Where(isNearer, found, headBack), h.Head),
		Limit: Where(some, Where(isNearer, ZerosLike(limit), limit), h.Limit)}
}

// History is the history of one sequence, on the host.
type History struct {
	Tokens, Matches []int32
	Head, Limit     int32
}

// NewHistory returns the history of tokens. The result is the same as pushing them one by one.
func NewHistory(tokens []int32, b *Breakers, length int) (h History) {
	h.Head, h.Limit = Unbroken, Unbroken
	n := len(tokens)
	for i := range n {
		h.pushBreaker(tokens[:i+1], b)
	}
	// The Z-algorithm, backwards.
	z := make([]int32, n)
	back := func(k int) int32 { return tokens[n-1-k] }
	for k, left, right := 1, 0, 0; k < n; k++ {
		if k < right {
			z[k] = min(z[k-left], int32(right-k))
		}
		for k+int(z[k]) < n && back(int(z[k])) == back(k+int(z[k])) {
			z[k]++
		}
		if k+int(z[k]) > right {
			left, right = k, k+int(z[k])
		}
	}
	h.Tokens, h.Matches = make([]int32, length), make([]int32, length)
	for k := range length {
		if h.Tokens[k] = -1; k < n {
			h.Tokens[k], h.Matches[k] = back(k), z[k]
		}
	}
	return h
}

// pushBreaker updates the breaker for the last of tokens.
func (h *History) pushBreaker(tokens []int32, b *Breakers) {
	h.Head, h.Limit = min(h.Head+1, Unbroken), min(h.Limit+1, Unbroken)
	n := len(tokens)
	if b == nil {
		return
	}
	found := int32(Unbroken)
	if b.Class(tokens[n-1])&1 != 0 {
		found = 0
	}
	for i, tail := range b.Tails {
		k := n - 1 - len(tail)
		if k >= 0 && b.Class(tokens[k])>>(1+i)&1 != 0 && slices.Equal(tokens[k+1:], tail) {
			found = min(found, int32(len(tail)))
		}
	}
	if found <= h.Head && found < Unbroken {
		h.Head, h.Limit = found, 0
	}
}
