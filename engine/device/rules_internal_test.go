package device

import (
	"slices"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/engine/device/feature"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/pagetable"
	"github.com/quire/quire/seqtable"
)

// smallGraphs are of 4 slots, 2 prefix rows and 12 pages of 4 tokens.
func smallGraphs() *Graphs {
	of := schedule.Sizes{Slots: 4, MaxSeqs: 4, PrefixRows: 2, Pages: 12, PageSize: 4, PagesPerSeq: 5, MaxRounds: 4,
		PromptLimit: 16, Paged: true}
	return &Graphs{Sizes: Sizes{Sizes: feature.Sizes{Sizes: of, PrefillTokens: 8}}}
}

func build[F ExecGraphFn](t *testing.T, graph F) *Exec {
	t.Helper()
	exec, err := NewExec(testenv.XLA(t), graph)
	if err != nil {
		t.Fatal(err)
	}
	return exec
}

func call(t *rapid.T, exec *Exec, args ...any) []*tensors.Tensor {
	out, err := exec.Exec(args...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func draws(t *rapid.T, name string, n int, from, to int32) []int32 {
	return rapid.SliceOfN(rapid.Int32Range(from, to), n, n).Draw(t, name)
}

// A completion ends at a stop token, else at its length; a token that is only barred ends none, and until MinLens none
// of either kind may be drawn. Scores that are no numbers end it whatever else.
func TestFinish(t *testing.T) {
	gr := smallGraphs()
	rows, slots := gr.Rows(), gr.Slots
	exec := build(t, func(stopTokens, minLens, maxLens, at, positions, tokens *Node) []*Node {
		st := state{Rows: rowParams{StopTokens: stopTokens, MinLens: minLens, MaxLens: maxLens}}
		of := samplers{Slots: at, Positions: positions}
		_, finish := stops{gr.Sizes}.finish(st, stopping.Tables{}, of, tokens)
		return []*Node{finish, barred(st, of, nil)}
	})
	rapid.Check(t, func(t *rapid.T) {
		stops := make([][]int32, rows)
		for i := range stops {
			for _, token := range draws(t, "stops", MaxStopTokens, -1, 6) {
				if token >= 0 && rapid.Bool().Draw(t, "barred only") {
					token = BarredOnly(token)
				}
				stops[i] = append(stops[i], token)
			}
		}
		minLens, maxLens := draws(t, "min", rows, 0, 4), draws(t, "max", rows, 1, 6)
		at, positions := draws(t, "slots", slots, 0, int32(slots-1)), draws(t, "positions", slots, 0, 6)
		tokens := draws(t, "tokens", slots, -1, 6)
		out := call(t, exec, stops, minLens, maxLens, at, positions, tokens)
		finish, bars := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1])
		for i, row := range at {
			want := schedule.Running
			switch {
			case tokens[i] < 0:
				want = schedule.NotANumber
			case slices.Contains(stops[row], tokens[i]):
				want = schedule.AtStopToken
			case positions[i]+1 >= maxLens[row]:
				want = schedule.AtLength
			}
			if finish[i] != int32(want) {
				t.Fatalf("row %d, token %d at %d of %d, stops %v: finish is %d, want %d", row, tokens[i], positions[i],
					maxLens[row], stops[row], finish[i], want)
			}
			for k, stop := range stops[row] {
				bar := max(stop, BarredOnly(stop))
				if positions[i] >= minLens[row] {
					bar = -1
				}
				if got := bars[i*MaxStopTokens+k]; got != bar {
					t.Fatalf("stop token %d at %d, from %d on: barred is %d, want %d", stop, positions[i],
						minLens[row], got, bar)
				}
			}
		}
	})
}

// The pages that lack for the next step are those of rows that decode and are full, beyond what is reserved for them,
// as far as those that nobody has a right to do not suffice.
func TestShort(t *testing.T) {
	gr := smallGraphs()
	rows := gr.Rows()
	exec := build(t, func(counts, lens, used, prompts, most *Node) []*Node {
		st := state{Pages: pagetable.Table{RefCounts: counts}, Sequences: seqtable.Table{SeqLens: lens, Used: used},
			Rows: rowParams{PromptLens: prompts, MaxPages: most}}
		return []*Node{st.unreserved(gr.PageSize), gr.short(st)}
	})
	rapid.Check(t, func(t *rapid.T) {
		counts, lens := draws(t, "counts", gr.Pages, 0, 2), draws(t, "lengths", rows, 0, 20)
		used := rapid.SliceOfN(rapid.Bool(), rows, rows).Draw(t, "used")
		prompts, most := draws(t, "prompts", rows, 0, 12), draws(t, "most", rows, 0, 5)
		unreserved, needs := 0, 0
		for _, n := range counts {
			if n == 0 {
				unreserved++
			}
		}
		for i, n := range lens {
			held := (int(n) + gr.PageSize - 1) / gr.PageSize
			if !used[i] {
				continue
			}
			unreserved -= max(int(most[i])-held, 0)
			if i < gr.Slots && n >= prompts[i] && held*gr.PageSize == int(n) && held >= int(most[i]) {
				needs++
			}
		}
		out := call(t, exec, counts, lens, used, prompts, most)
		got := []int32{tensors.ToScalar[int32](out[0]), tensors.ToScalar[int32](out[1])}
		if want := []int32{int32(unreserved), int32(max(0, needs-unreserved))}; !slices.Equal(got, want) {
			t.Fatalf("unreserved and short are %v, want %v", got, want)
		}
	})
}

// An input that asks for nothing names no row, no page and no prompt.
func TestNewInputAsksForNothing(t *testing.T) {
	gr := smallGraphs()
	in := gr.NewInput()
	if len(in.Release) != gr.Rows() || slices.Contains(in.Release, true) || in.Waiting.Count+in.Ahead.Count != 0 {
		t.Errorf("%+v", in)
	}
	for _, list := range [][]int32{in.Named, in.Ahead.Rows, in.Ahead.Sources} {
		if len(list) == 0 || slices.ContainsFunc(list, func(i int32) bool { return i != schedule.None }) {
			t.Errorf("%v names something", list)
		}
	}
}
