package sampling_test

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/ops/sampling"
)

// dryRow is a row whose tokens have DRY.
type dryRow struct {
	row
	tokens   []int32
	breakers [][]int32 // sequences of tokens
}

// breakersOf are sequences of tokens as rows have them. Several may begin with one token, or end alike.
func breakersOf(vocabulary int, sequences [][]int32) *sampling.Breakers {
	b := &sampling.Breakers{Classes: make([]uint32, sampling.ClassWords(vocabulary))}
	for _, s := range sequences {
		head, tail := s[0], s[1:]
		if len(tail) == 0 {
			b.Add(head, 1)
			continue
		}
		at := slices.IndexFunc(b.Tails, func(t []int32) bool { return slices.Equal(t, tail) })
		if at < 0 {
			at = len(b.Tails)
			b.Tails = append(b.Tails, tail)
		}
		b.Add(head, 2<<at)
	}
	return b
}

// dryPenalties is DRY by its definition: for each token how many of the last tokens it would repeat, -1 for none.
func (r *dryRow) dryPenalties() []float64 {
	s := r.settings
	n := min(len(r.tokens), s.DRYPenaltyLastN)
	if s.DRYPenaltyLastN < 0 {
		n = len(r.tokens)
	}
	last := r.tokens[len(r.tokens)-n:]
	// The last breaker begins as near to the end as possible, and is as long as possible there.
	limit, broken := n, false
	for i := n - 1; i >= 0 && !broken; i-- {
		for _, b := range r.breakers {
			if i+len(b) <= n && slices.Equal(last[i:i+len(b)], b) {
				limit, broken = min(limit, n-i-len(b)), true
			}
		}
	}
	penalties := make([]float64, len(r.logits))
	most := map[int32]int{}
	for i := range n - 1 { // what ends with last[i] was followed by last[i+1]
		k := 0
		for k <= i && last[i-k] == last[n-1-k] {
			k++
		}
		if k = min(k, limit); k >= s.DRYAllowedLength {
			most[last[i+1]] = max(k, most[last[i+1]])
		}
	}
	for token, k := range most {
		if slices.ContainsFunc(r.breakers, func(b []int32) bool { return len(b) == 1 && b[0] == token }) {
			continue
		}
		power := k - s.DRYAllowedLength
		if s.DRYBase > 1.000001 {
			power = min(power, int(88.7228391/float32(math.Log(float64(float32(s.DRYBase))))))
		}
		penalties[token] = s.DRYMultiplier * math.Pow(float64(float32(s.DRYBase)), float64(power))
	}
	return penalties
}

// dryer applies DRY to rows with histories of so many tokens, the last so many of which came one by one.
type dryer struct {
	*Exec
	length int
}

const pushed = 3

func newDryer(t testing.TB, backend compute.Backend, length int) dryer {
	t.Helper()
	exec, err := NewExec(backend, func(in []*Node) *Node {
		h := sampling.Histories{Tokens: in[1], Matches: in[2], Head: in[3], Limit: in[4]}
		b := sampling.BreakersOf{Classes: in[5], Tails: in[6]}
		for i := range pushed {
			h = b.Push(h, Squeeze(SliceAxis(in[7], 1, AxisElem(i)), 1))
		}
		rows := Iota(in[0].Graph(), in[8].Shape(), 0)
		by := sampling.Processors{DRY: &sampling.DRY{Histories: h, Lens: in[8],
			DRYOf: sampling.DRYOf[*Node, *Node]{Multiplier: in[9], Base: in[10], Allowed: in[11], LastN: in[12],
				MostPower: in[13]},
			Breaks: func(tokens *Node) *Node { return b.Break(rows, tokens) }}}
		return by.Apply(in[0])
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return dryer{exec, length}
}

// apply returns the logits after DRY.
func (d dryer) apply(t tester, rows []*dryRow) [][]float32 {
	t.Helper()
	n := len(rows)
	var logits [][]float32
	var tokens, matches, next [][]int32
	var classes [][]uint32
	var tails [][][]int32
	heads, limits, lens := make([]int32, n), make([]int32, n), make([]int32, n)
	of := sampling.DRYOf[[]float32, []int32]{Multiplier: make([]float32, n), Base: make([]float32, n),
		Allowed: make([]int32, n), LastN: make([]int32, n), MostPower: make([]int32, n)}
	for i, r := range rows {
		b := breakersOf(len(r.logits), r.breakers)
		before := max(0, len(r.tokens)-pushed)
		h := sampling.NewHistory(r.tokens[:before], b, d.length)
		tokens, matches = append(tokens, h.Tokens), append(matches, h.Matches)
		heads[i], limits[i], lens[i] = h.Head, h.Limit, int32(len(r.tokens))
		late := slices.Concat(r.tokens[before:], []int32{-1, -1, -1})[:pushed]
		next, logits = append(next, late), append(logits, r.logits)
		classes, tails = append(classes, b.Classes), append(tails, b.Backwards())
		sampling.SetDRY(of, i, r.settings, d.length)
		if !r.settings.HasDRY() {
			of.Multiplier[i] = 0
		}
	}
	out, err := d.Exec.Exec(logits, tokens, matches, heads, limits, classes, tails, next, lens, of.Multiplier, of.Base,
		of.Allowed, of.LastN, of.MostPower)
	if err != nil {
		t.Fatal(err)
	}
	return out[0].Value().([][]float32)
}

// DRY of random rows equals its definition, whether the host knows the tokens or they came one by one.
func TestDRYIsItsDefinition(t *testing.T) {
	const count, size, length = 12, 30, 40
	onEach(t, func(t *testing.T, backend compute.Backend) {
		d := newDryer(t, backend, length)
		rapid.Check(t, func(t *rapid.T) {
			rows := make([]*dryRow, count)
			for i := range rows {
				kinds := rapid.Int32Range(1, 6).Draw(t, "kinds")
				token := rapid.Int32Range(0, kinds)
				r := &dryRow{row: row{logits: make([]float32, size)},
					tokens: rapid.SliceOfN(token, 1, length).Draw(t, "tokens")}
				for k := range r.logits {
					r.logits[k] = float32(k%7) - 3
				}
				r.settings.DRYMultiplier = rapid.SampledFrom([]float64{0, 0.8, 2}).Draw(t, "multiplier")
				r.settings.DRYBase = rapid.SampledFrom([]float64{1, 1.1, 1.75}).Draw(t, "base")
				r.settings.DRYAllowedLength = rapid.IntRange(0, 4).Draw(t, "allowed")
				r.settings.DRYPenaltyLastN = rapid.IntRange(-1, length).Draw(t, "last")
				r.breakers = rapid.SliceOfN(rapid.SliceOfN(token, 1, 3), 0, 4).Draw(t, "breakers")
				rows[i] = r
			}
			for i, after := range d.apply(t, rows) {
				penalties := rows[i].dryPenalties()
				for token, l := range after {
					want := float64(rows[i].logits[token])
					if rows[i].settings.HasDRY() {
						want -= penalties[token]
					}
					if math.Abs(float64(l)-want) > 1e-5*max(1, math.Abs(want)) {
						t.Fatalf("%+v, tokens %v, breakers %v: token %d has logit %v, want %v", rows[i].settings,
							rows[i].tokens, rows[i].breakers, token, l, want)
					}
				}
			}
		})
	})
}

// The cases of llama.cpp's tests/test-sampling.cpp.
func TestDRYLikeLlamaCpp(t *testing.T) {
	type values = []float64
	var rows []*dryRow
	var wants []values
	for _, c := range []struct {
		tokens           []int32
		want             values
		multiplier, base float64
		allowed, last    int
		breakers         [][]int32
	}{
		{[]int32{0, 1}, values{0.25, 0.25, 0.25, 0.25}, 1, 1.1, 2, 4, nil},
		{[]int32{0, 1, 2, 0, 1}, values{0.296923, 0.296923, 0.109232, 0.296923}, 1, 1.1, 2, 5, nil},
		{[]int32{0, 1, 3, 4, 0, 1}, values{0.2, 0.2, 0.2, 0.2, 0.2}, 1, 1.1, 2, 6, [][]int32{{3}}},
		{[]int32{0, 1, 2, 0, 1}, values{0.241818, 0.241818, 0.032727, 0.241818, 0.241818}, 2, 1.1, 2, 5, nil},
		{[]int32{0, 1, 2, 3, 4, 0, 1}, values{0.2, 0.2, 0.2, 0.2, 0.2}, 1, 1.1, 4, 7, nil},
	} {
		r := &dryRow{row: row{logits: make([]float32, 5)}, tokens: c.tokens, breakers: c.breakers}
		if len(c.want) == 4 {
			r.logits[4] = negativeInfinity
		}
		r.settings = sampling.Settings{DRYMultiplier: c.multiplier, DRYBase: c.base, DRYAllowedLength: c.allowed,
			DRYPenaltyLastN: c.last}
		rows, wants = append(rows, r), append(wants, c.want)
	}
	onEach(t, func(t *testing.T, backend compute.Backend) {
		for i, after := range newDryer(t, backend, 16).apply(t, rows) {
			sum := 0.0
			for _, l := range after {
				sum += math.Exp(float64(l))
			}
			for token, want := range wants[i] {
				if got := math.Exp(float64(after[token])) / sum; math.Abs(got-want) > 1e-5 {
					t.Errorf("case %d: token %d has probability %v, want %v", i, token, got, want)
				}
			}
		}
	})
}

// A history is the same whether the host makes it of all tokens or the device token by token, also beyond its length.
func TestHistoriesGrow(t *testing.T) {
	const count, length, vocabulary, steps = 6, 24, 40, 60
	onEach(t, func(t *testing.T, backend compute.Backend) {
		exec, err := NewExec(backend, func(in []*Node) []*Node {
			h := sampling.BreakersOf{Classes: in[4], Tails: in[5]}.Push(sampling.Histories{Tokens: in[0],
				Matches: in[1], Head: in[2], Limit: in[3]}, in[6])
			return []*Node{h.Tokens, h.Matches, h.Head, h.Limit}
		})
		if err != nil {
			t.Fatal(err)
		}
		defer exec.Finalize()
		r := rand.New(rand.NewPCG(41, 42))
		sequences := [][]int32{{3}, {1, 2}, {2, 2, 1}, {0, 1, 2, 0}, {2, 1}}
		b := breakersOf(vocabulary, sequences)
		all := make([][]int32, count)
		state := []any{make([][]int32, count), make([][]int32, count), make([]int32, count), make([]int32, count)}
		classes, tails := make([][]uint32, count), make([][][]int32, count)
		for i := range count {
			h := sampling.NewHistory(nil, b, length)
			state[0].([][]int32)[i], state[1].([][]int32)[i] = h.Tokens, h.Matches
			state[2].([]int32)[i], state[3].([]int32)[i] = h.Head, h.Limit
			classes[i], tails[i] = b.Classes, b.Backwards()
		}
		for range steps {
			next := make([]int32, count)
			for i := range next {
				if next[i] = r.Int32N(4) - 1; i == 0 {
					next[i] = r.Int32N(5)
				}
				if next[i] >= 0 {
					all[i] = append(all[i], next[i])
				}
			}
			out, err := exec.Exec(append(slices.Clone(state), classes, tails, next)...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range state {
				state[i] = out[i].Value()
			}
			for i, tokens := range all {
				h := sampling.NewHistory(tokens, b, length)
				if !slices.Equal(h.Tokens, state[0].([][]int32)[i]) ||
					!slices.Equal(h.Matches[:min(len(tokens), length)],
						state[1].([][]int32)[i][:min(len(tokens), length)]) {
					t.Fatalf("%v: history %v, %v, want %v, %v", tokens, state[0].([][]int32)[i],
						state[1].([][]int32)[i], h.Tokens, h.Matches)
				}
				if head, limit := state[2].([]int32)[i], state[3].([]int32)[i]; head != h.Head || limit != h.Limit {
					t.Fatalf("%v: head %d and limit %d, want %d and %d", tokens, head, limit, h.Head, h.Limit)
				}
			}
		}
	})
}
