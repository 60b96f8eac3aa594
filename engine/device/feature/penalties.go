package feature

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/ops/control"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/ops/scan"
	"github.com/quire/quire/ops/tree"
)

// penalties are the penalties of S slots, and the counts that they need.
type penalties struct {
	sampling.Penalties
	Seen *Node // i32[S, V]: see sampling.InPrompt
}

// penaltiesOf is what the host gives of the penalties of A waiting entries.
type penaltiesOf[Floats, Ints, Words any] struct {
	sampling.PenaltiesOf[Floats]
	// u32[A * words]: the tokens of their prompts as bits, if the repetition penalty is not 1
	Prompts Words `tree:"apart"`
	// The tokens of completions that continue after they were swapped out, i32[D] each, padded with -1: the entry, the
	// token, and its value in penalties.Seen.
	Entries Ints `tree:"apart"`
	Tokens  Ints `tree:"apart"`
	Seen    Ints `tree:"apart"`
}

// penaltyFeature are penalties of tokens that a sequence has.
type penaltyFeature struct {
	idle
	Sizes
}

func (f penaltyFeature) begin(g *Graph, st *State) {
	each := func() *Node { return zeros(g, dtypes.Float32, f.Slots) }
	st.Penalties = penalties{Penalties: sampling.Penalties{Repetition: each(), Frequency: each(), Presence: each()},
		Seen: zeros(g, dtypes.Int32, f.Slots, f.Vocabulary)}
}

func (f penaltyFeature) bytes() int64 { return 4 * int64(f.Slots) * int64(f.Vocabulary+3) }

func (f penaltyFeature) ask(all *Asked) {
	in, n := &all.Penalties, f.WaitingLen()
	in.Repetition, in.Frequency, in.Presence = make([]float32, n), make([]float32, n), make([]float32, n)
	in.Prompts = make([]uint32, n*f.words())
	for _, list := range []*[]int32{&in.Entries, &in.Tokens, &in.Seen} {
		*list = make([]int32, f.PromptLimit)
		for i := range *list {
			(*list)[i] = schedule.None
		}
	}
}

func (f penaltyFeature) set(all *Asked, i int, row Row, e schedule.Entry) {
	in, s := &all.Penalties, row.Sampling
	if !s.Penalized() {
		return
	}
	in.Repetition[i], in.Frequency[i], in.Presence[i] = float32(s.Repetition()), float32(s.FrequencyPenalty),
		float32(s.PresencePenalty)
	prompt := in.Prompts[i*f.words() : (i+1)*f.words()]
	if in.Repetition[i] != 1 {
		for _, t := range e.Request.Tokens {
			prompt[t/32] |= 1 << (t % 32)
		}
	}
	// Entries that continue come first, in the order in which they are filled in.
	seen := map[int32]int32{}
	next := 0
	for next < len(in.Entries) && in.Entries[next] >= 0 {
		next++
	}
	for _, t := range e.Drawn {
		if seen[t] == 0 {
			seen[t] = int32(prompt[t/32] >> (t % 32) & sampling.InPrompt)
			in.Entries[next], in.Tokens[next] = int32(i), t
			next++
		}
		seen[t] += sampling.OneDrawn
	}
	for k := next - len(seen); k < next; k++ {
		in.Seen[k] = seen[in.Tokens[k]]
	}
}

func (f penaltyFeature) admit(st *State, given Input, a Admission) {
	p, in := &st.Penalties, given.Asked.Penalties
	g := p.Seen.Graph()
	slots, vocabulary, entries := f.Slots, f.Vocabulary, a.Rows.Shape().Size()
	to := a.slots(slots)
	p.Repetition = control.ScatterSet(p.Repetition, to, in.Repetition)
	p.Frequency = control.ScatterSet(p.Frequency, to, in.Frequency)
	p.Presence = control.ScatterSet(p.Presence, to, in.Presence)

	// The prompts, an entry at a time: few are admitted together.
	isPenalized := LogicalAnd(a.Entries, sampling.Penalized(in.PenaltiesOf))
	which, count := scan.Positions(isPenalized, entries)
	words := Reshape(in.Prompts, entries, f.words())
	type filling struct{ Seen, Done *Node }
	filled := control.While(filling{p.Seen, integer(g, 0)},
		func(now filling) *Node { return LessThan(now.Done, count) },
		func(now filling) filling {
			entry := take(which, Reshape(now.Done, 1))
			bits := BitwiseShiftRightLogical(BroadcastToDims(InsertAxes(take(words, entry), -1), 1, f.words(), 32),
				Iota(g, shapes.Make(dtypes.Uint32, 1, f.words(), 32), 2))
			bits = ConvertDType(BitwiseAnd(bits, OnesLike(bits)), dtypes.Int32)
			row := SliceAxis(Reshape(bits, 1, f.words()*32), 1, AxisRangeFromStart(vocabulary))
			return filling{control.ScatterSet(now.Seen, take(to, entry), row), AddScalar(now.Done, 1)}
		})
	// The tokens of completions that were swapped out.
	slot := take(to, in.Entries)
	isDrawn := LogicalAnd(GreaterOrEqual(in.Entries, ZerosLike(in.Entries)), LessThan(slot, integer(g, slots)))
	p.Seen = control.Once(anyTrue(isDrawn), filled.Seen, func(_ control.Now, seen *Node) *Node {
		seen = control.ScatterSet(Reshape(seen, slots*vocabulary), f.placeOf(slot, in.Tokens, isDrawn), in.Seen)
		return Reshape(seen, slots, vocabulary)
	})
}

// placeOf returns the indices of tokens of slots in Seen as one row, and an index outside if not valid.
func (f penaltyFeature) placeOf(slots, tokens, valid *Node) *Node {
	nowhere := FillScalar(slots.Graph(), slots.Shape(), float64(f.Slots*f.Vocabulary))
	return Where(valid, Add(MulScalar(slots, float64(f.Vocabulary)), tokens), nowhere)
}

func (f penaltyFeature) process(st State, _ Table, rows Samplers, by *Processors) {
	p := tree.Map(st.Penalties, func(x *Node) *Node { return take(x, rows.Slots) })
	by.Penalties, by.Seen = &p.Penalties, p.Seen
}

// drew counts the tokens that rows sampled.
func (f penaltyFeature) drew(st *State, _ Input, rows Samplers, tokens *Node) {
	p := &st.Penalties
	valid := LogicalAnd(GreaterOrEqual(rows.Slots, ZerosLike(rows.Slots)), GreaterOrEqual(tokens, ZerosLike(tokens)))
	valid = LogicalAnd(valid, take(sampling.Penalized(p.Penalties), rows.Slots))
	place := f.placeOf(rows.Slots, tokens, valid)
	seen := Reshape(p.Seen, p.Seen.Shape().Size())
	old := take(seen, Where(valid, place, ZerosLike(place)))
	p.Seen = Reshape(control.ScatterSet(seen, place, AddScalar(old, sampling.OneDrawn)), f.Slots, f.Vocabulary)
}

func (f penaltyFeature) noDrafts(st State) *Node { return sampling.Penalized(st.Penalties.Penalties) }
