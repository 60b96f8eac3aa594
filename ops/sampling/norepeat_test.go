package sampling_test

import (
	"encoding/json"
	"math"
	"os"
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"pgregory.net/rapid"

	"github.com/quire/quire/ops/sampling"
)

// noRepeatRow is a row whose tokens may not repeat.
type noRepeatRow struct {
	size   int32
	tokens []int32
	forced int32
}

// barred is NoRepeat by its definition: the tokens after which a sequence of size tokens would occur twice.
func (r *noRepeatRow) barred() (tokens []int32) {
	n := int(r.size)
	if n == 0 || r.forced >= 0 || len(r.tokens) < n {
		return nil
	}
	last := r.tokens[len(r.tokens)-(n-1):]
	for i := range len(r.tokens) - n + 1 {
		if slices.Equal(r.tokens[i:i+n-1], last) {
			tokens = append(tokens, r.tokens[i+n-1])
		}
	}
	slices.Sort(tokens)
	return slices.Compact(tokens)
}

// newNoRepeat returns what bars tokens of rows of histories of so many tokens.
func newNoRepeat(t testing.TB, backend compute.Backend, vocabulary, length int) func(tester, []noRepeatRow) [][]int32 {
	t.Helper()
	exec, err := NewExec(backend, func(logits, size, tokens, lens, forced *Node) *Node {
		by := sampling.Processors{Forced: forced,
			NoRepeat: &sampling.NoRepeat{Size: size, Tokens: tokens, Lens: lens}}
		return by.Apply(logits)
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(exec.Finalize)
	return func(t tester, rows []noRepeatRow) (barred [][]int32) {
		t.Helper()
		n := len(rows)
		logits, tokens := make([][]float32, n), make([][]int32, n)
		size, lens, forced := make([]int32, n), make([]int32, n), make([]int32, n)
		for i, r := range rows {
			for token := range vocabulary {
				logits[i] = append(logits[i], float32(token%7)-3)
			}
			tokens[i] = append(slices.Clone(r.tokens), slices.Repeat([]int32{3}, length-len(r.tokens))...)
			size[i], lens[i], forced[i] = r.size, int32(len(r.tokens)), r.forced
		}
		out, err := exec.Exec(logits, size, tokens, lens, forced)
		if err != nil {
			t.Fatal(err)
		}
		barred = make([][]int32, n)
		for i, after := range out[0].Value().([][]float32) {
			for token, l := range after {
				switch {
				case math.IsInf(float64(l), -1):
					barred[i] = append(barred[i], int32(token))
				case l != logits[i][token]:
					t.Errorf("%+v: token %d has logit %v, had %v", rows[i], token, l, logits[i][token])
				}
			}
			if rows[i].forced >= 0 {
				if len(barred[i]) != vocabulary-1 || slices.Contains(barred[i], rows[i].forced) {
					t.Errorf("%+v: barred %v", rows[i], barred[i])
				}
				barred[i] = nil
			}
		}
		return barred
	}
}

// The forbidden tokens of random rows equal the definition's.
func TestNoRepeatIsItsDefinition(t *testing.T) {
	const count, vocabulary, length = 12, 30, 40
	onEach(t, func(t *testing.T, backend compute.Backend) {
		bar := newNoRepeat(t, backend, vocabulary, length)
		rapid.Check(t, func(t *rapid.T) {
			rows := make([]noRepeatRow, count)
			for i := range rows {
				token := rapid.Int32Range(0, rapid.Int32Range(0, 6).Draw(t, "kinds"))
				rows[i] = noRepeatRow{tokens: rapid.SliceOfN(token, 1, length).Draw(t, "tokens"), forced: -1,
					size: rapid.SampledFrom([]int32{0, 1, 2, 3, 4, 7, 40, 41, math.MaxInt32}).Draw(t, "size")}
				if rapid.IntRange(0, 9).Draw(t, "forces") == 0 {
					rows[i].forced = token.Draw(t, "forced")
				}
			}
			for i, got := range bar(t, rows) {
				if want := rows[i].barred(); !slices.Equal(got, want) {
					t.Fatalf("%+v: tokens %v are barred, want %v", rows[i], got, want)
				}
			}
		})
	})
}

// Goldens of transformers' NoRepeatNGramLogitsProcessor, made by scripts/oracle/norepeat_goldens.py.
func TestNoRepeatLikeTransformers(t *testing.T) {
	var cases []struct {
		Size           int32
		Tokens, Barred []int32
	}
	data, err := os.ReadFile("testdata/norepeat.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &cases); err != nil {
		t.Fatal(err)
	}
	rows, some := make([]noRepeatRow, len(cases)), 0
	for i, c := range cases {
		rows[i] = noRepeatRow{c.Size, c.Tokens, -1}
		some += len(c.Barred)
		if want := rows[i].barred(); !slices.Equal(want, c.Barred) {
			t.Errorf("%+v: the definition bars %v, transformers %v", rows[i], want, c.Barred)
		}
	}
	if len(cases) < 500 || some < 500 {
		t.Errorf("%d cases with %d barred tokens", len(cases), some)
	}
	onEach(t, func(t *testing.T, backend compute.Backend) {
		for i, got := range newNoRepeat(t, backend, 32, 60)(t, rows) {
			if !slices.Equal(got, cases[i].Barred) {
				t.Errorf("%+v: tokens %v are barred, want %v", rows[i], got, cases[i].Barred)
			}
		}
	})
}
