package device

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/scan"
)

const (
	// beginning is by how many of their first tokens sequences are known as kin. Of a shorter prompt it is all tokens.
	beginning = 16
	// maxLogged is the count of logged tokens at which it is reset.
	maxLogged = 1 << 30
)

// loggedMatches is how many tokens at a sequence's end are looked for in the log.
var loggedMatches = []int{2, 4, longestMatch}

// draftLog holds the tokens that were sampled last in all sequences, including those that have finished. A sequence
// thus gets drafts from sequences that begin as it does: other completions of its prompt, and rows with the same
// prefix. A token's place is its number modulo L; a link is a number + 1, and 0 for none.
type draftLog struct {
	// Keys, i32[L] each, stand for the last 2, 4 and 8 tokens up to each one, and for the beginning of its sequence.
	Keys   []*Node
	Tokens *Node // i32[L]
	Next   *Node // i32[L]: a link to the next token that its sequence sampled
	Last   *Node // i32[S]: a link to the last token that each slot sampled
	Count  *Node // i32[]: of the tokens that were logged
}

func (sp speculation) newDraftLog(g *Graph) draftLog {
	n := sp.Drafts.Logged
	l := draftLog{Tokens: zeros(g, dtypes.Int32, n), Next: zeros(g, dtypes.Int32, n),
		Last: zeros(g, dtypes.Int32, sp.Slots), Count: integer(g, 0)}
	for range loggedMatches {
		l.Keys = append(l.Keys, zeros(g, dtypes.Int32, n))
	}
	return l
}

func (d Drafting) logBytes(slots int) int64 {
	return 4 * int64((len(loggedMatches)+2)*d.Logged+slots+1)
}

// admit forgets what was sampled in the slots that admitted entries get.
func (l draftLog) admit(a admission) draftLog {
	if l.Last != nil {
		slots := l.Last.Shape().Dimensions[0]
		to := Where(a.Entries, a.Rows, FillScalar(a.Rows.Graph(), a.Rows.Shape(), float64(slots)))
		l.Last = control.ScatterSet(l.Last, to, ZerosLike(a.Rows))
	}
	return l
}

// tokensAt returns the tokens at places, i32[n, k], of slots, i32[n]: -1 before the first token, arbitrary after the
// last.
func (sp speculation) tokensAt(st state, slots, places *Node) *Node {
	size := sp.PageSize
	tokens := st.Extras.Drafts.Tokens
	page := DivScalar(Max(places, ZerosLike(places)), float64(size))
	row := BroadcastToDims(InsertAxes(MulScalar(slots, float64(sp.PagesPerSeq)), -1), places.Shape().Dimensions...)
	indices := Reshape(st.Sequences.PageIndices, st.Sequences.PageIndices.Shape().Size())
	pages := take(indices, Add(row, page))
	positions := Add(MulScalar(pages, float64(size)), Sub(places, MulScalar(page, float64(size))))
	isThere := GreaterOrEqual(places, ZerosLike(places))
	return Where(isThere, take(Reshape(tokens, tokens.Shape().Size()), positions),
		FillScalar(tokens.Graph(), positions.Shape(), -1))
}

// keysOf returns keys for the ends of slots, i32[n]: i32[n] for each of loggedMatches. tokens, i32[n], at places,
// i32[n], follow the tokens in the cache. Slots that begin differently have different keys.
func (sp speculation) keysOf(st state, slots, places, tokens *Node) (keys []*Node) {
	g, n := slots.Graph(), slots.Shape().Dimensions[0]
	nth := func(k int) *Node { return Iota(g, shapes.Make(dtypes.Int32, n, k), 1) }
	wide := func(x *Node, k int) *Node { return BroadcastToDims(InsertAxes(x, -1), n, k) }

	first := nth(beginning)
	isPrompt := LessThan(first, wide(take(st.Rows.PromptLens, slots), beginning))
	begin := Where(isPrompt, sp.tokensAt(st, slots, first), FillScalar(g, first.Shape(), -1))
	beginKey := mixed(ReduceSum(mixed(Add(begin, MulScalar(first, 0x3504f333))), 1))

	before := sp.tokensAt(st, slots, Sub(wide(SubScalar(places, 1), longestMatch-1), nth(longestMatch-1)))
	last := Concatenate([]*Node{InsertAxes(tokens, -1), before}, 1) // the latest first
	last = mixed(Add(last, MulScalar(nth(longestMatch), 0x1f83d9ab)))
	for _, k := range loggedMatches {
		keys = append(keys, Add(beginKey, ReduceSum(SliceAxis(last, 1, AxisRangeFromStart(k)), 1)))
	}
	return keys
}

// push logs the tokens that rows sampled, i32[S], which are not in the cache yet.
func (l draftLog) push(sp speculation, st state, rows samplers, tokens *Node) draftLog {
	if l.Tokens == nil {
		return l
	}
	g := tokens.Graph()
	size := sp.Drafts.Logged
	isRow := GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots))
	full := func(value int) *Node { return FillScalar(g, tokens.Shape(), float64(value)) }
	again := GreaterOrEqual(l.Count, integer(g, maxLogged))
	l.Count = Where(again, Sub(l.Count, integer(g, maxLogged)), l.Count)
	l.Last = Where(BroadcastToDims(again, sp.Slots), ZerosLike(l.Last), l.Last)

	number := Add(BroadcastToDims(l.Count, tokens.Shape().Size()), scan.Before(ConvertDType(isRow, dtypes.Int32)))
	positions := Where(isRow, modulo(number, size), full(size))
	l.Keys = slices.Clone(l.Keys)
	for i, key := range sp.keysOf(st, rows.Slots, rows.Positions, tokens) {
		l.Keys[i] = control.ScatterSet(l.Keys[i], positions, key)
	}
	l.Tokens = control.ScatterSet(l.Tokens, positions, tokens)
	l.Next = control.ScatterSet(l.Next, positions, ZerosLike(positions))
	before := take(l.Last, rows.Slots)
	isLogged := LogicalAnd(isRow, GreaterThan(before, ZerosLike(before)))
	isLogged = LogicalAnd(isLogged, LessThan(Sub(number, before), full(size-sp.Slots)))
	link := AddScalar(number, 1)
	l.Next = control.ScatterSet(l.Next, Where(isLogged, modulo(SubScalar(before, 1), size), full(size)), link)
	l.Last = control.ScatterSet(l.Last, Where(isRow, rows.Slots, full(sp.Slots)), link)
	l.Count = Add(l.Count, scan.Count(isRow))
	return l
}

// found holds drafts of D sequences: tokens i32[D, N], how many there are at most, i32[D], and their classes, i32[D].
type found struct {
	Tokens, Counts, Classes *Node
}

// following is the state of a loop along links.
type following struct {
	At     *Node // i32[]
	Link   *Node // i32[D]: to the next token
	Tokens *Node // i32[D, N]
	Counts *Node // i32[D]
}

// find finds drafts for ends that have keys, i32[D] each: the tokens sampled after the longest equal end, and after the
// last one if there are several. Only the first rows, i32[], are searched. matches, i32[D], is how many of
// loggedMatches the ends have in common.
func (l draftLog) find(keys []*Node, most int, rows *Node) (tokens, counts, matches *Node) {
	each := keys[0].Shape()
	results := []shapes.Shape{shapes.Make(dtypes.Int32, each.Size(), most), each, each}
	in := slices.Concat([]*Node{l.Count, l.Tokens, l.Next, rows}, keys, l.Keys)
	out := control.Composite("draft_log", struct{}{}, in, results, func(in []*Node) []*Node {
		n := len(keys)
		log := draftLog{Count: in[0], Tokens: in[1], Next: in[2], Keys: in[4+n:]}
		tokens, counts, matches := log.findPlain(in[4:4+n], most)
		return []*Node{tokens, counts, matches}
	})
	return out[0], out[1], out[2]
}

// findPlain is find by ordinary operations.
func (l draftLog) findPlain(keys []*Node, most int) (tokens, counts, matches *Node) {
	g := l.Tokens.Graph()
	d, size := keys[0].Shape().Dimensions[0], l.Tokens.Shape().Dimensions[0]
	wide := func(x *Node) *Node { return BroadcastToDims(InsertAxes(x, 0), d, size) }
	isSame := wide(GreaterThan(l.Next, ZerosLike(l.Next)))
	level := Zeros(g, shapes.Make(dtypes.Int32, d, size))
	for i, key := range keys {
		isSame = LogicalAnd(isSame, Equal(BroadcastToDims(InsertAxes(key, -1), d, size), wide(l.Keys[i])))
		level = Add(level, ConvertDType(isSame, dtypes.Int32))
	}
	// The oldest token is at the place of the next token to be logged.
	count := modulo(l.Count, size)
	age := modulo(AddScalar(Sub(Iota(g, l.Tokens.Shape(), 0), BroadcastToDims(count, size)), float64(size)), size)
	best := ReduceMax(Where(GreaterThan(level, ZerosLike(level)), Add(MulScalar(level, float64(size)), wide(age)),
		ZerosLike(level)), 1)
	matches = DivScalar(best, float64(size))
	place := modulo(Add(Sub(best, MulScalar(matches, float64(size))), BroadcastToDims(count, d)), size)

	none := Zeros(g, shapes.Make(dtypes.Int32, d))
	isFound := GreaterThan(matches, none)
	f := following{integer(g, 0), Where(isFound, take(l.Next, place), none), zeros(g, dtypes.Int32, d, most), none}
	f = control.While(f,
		func(f following) *Node {
			return LogicalAnd(LessThan(f.At, integer(g, most)), anyTrue(GreaterThan(f.Link, none)))
		},
		func(f following) following {
			isToken := GreaterThan(f.Link, none)
			place := modulo(Max(SubScalar(f.Link, 1), none), size)
			column := Equal(Iota(g, f.Tokens.Shape(), 1), BroadcastToDims(f.At, d, most))
			token := BroadcastToDims(InsertAxes(take(l.Tokens, place), -1), d, most)
			return following{AddScalar(f.At, 1), Where(isToken, take(l.Next, place), none),
				Where(column, token, f.Tokens), Add(f.Counts, ConvertDType(isToken, dtypes.Int32))}
		})
	return f.Tokens, f.Counts, matches
}

// orLogged returns drafts from the log for sequences whose match in the log is longer than the match that was found in
// their own text, and the own drafts otherwise. lengths, i32[D], are the lengths of the own matches, 0 for none. Only
// the first rows, i32[], are searched.
func (l draftLog) orLogged(keys []*Node, own, lengths, rows *Node) found {
	d, most := own.Shape().Dimensions[0], own.Shape().Dimensions[1]
	tokens, counts, matches := l.find(keys, most, rows)
	g := own.Graph()
	full := func(value int) *Node { return FillScalar(g, lengths.Shape(), float64(value)) }
	logged := full(0)
	for i, k := range loggedMatches {
		logged = Where(Equal(matches, full(i+1)), full(k), logged)
	}
	better := GreaterThan(logged, lengths)
	isFound := GreaterThan(lengths, full(0))
	class := Where(isFound, SubScalar(lengths, shortestMatch), full(-1))
	return found{
		Tokens:  Where(BroadcastToDims(InsertAxes(better, -1), d, most), tokens, own),
		Counts:  Where(better, counts, Where(isFound, full(most), full(0))),
		Classes: Where(better, AddScalar(matches, ownClasses-1), class),
	}
}
