package tokenqueue_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"pgregory.net/rapid"

	"github.com/quire/quire/tokenqueue"
)

// Steps are packed as the plain-Go twin does it: with slots that have no prompt, that share tokens, whose first part is
// gone, whose turn it is, and that decode with drafts or without.
func TestPromptsAgainstHost(t *testing.T) {
	const slots, limit, capacity, most = 5, 9, 40, 3
	onBackends(t, func(t *testing.T, backend compute.Backend) {
		exec, err := NewExec(backend, func(in []*Node) []*Node {
			tokens, starts, done, lens, queued, room := in[0], in[1], in[2], in[3], in[4], in[5]
			turns := in[8]
			drafts := &tokenqueue.Drafts{Tokens: Reshape(in[6], slots, most), Counts: in[7]}
			g := tokens.Graph()
			ids := Iota(g, queued.Shape(), 0)
			q := tokenqueue.New(g, slots).Enqueue(queued, ids, done, GreaterOrEqual(queued, ZerosLike(queued)))
			p := tokenqueue.Prompts{Tokens: tokens, Starts: starts, Done: done, Lens: lens,
				Turns: turns}.PackDrafts(q.Next(slots), drafts, room, limit)
			return []*Node{p.Tokens, p.SlotIDs, p.PosIDs, p.NumTokens}
		})
		if err != nil {
			t.Fatal(err)
		}
		rapid.Check(t, func(t *rapid.T) {
			arena := rapid.SliceOfN(rapid.Int32Range(0, 1000), capacity, capacity).Draw(t, "tokens")
			starts, done, lens := make([]int32, slots), make([]int32, slots), make([]int32, slots)
			turns := rapid.SliceOfN(rapid.Int32Range(0, slots), slots, slots).Draw(t, "turns")
			prompts := make([]tokenqueue.HostPrompt, slots)
			queued := slices.Repeat([]int32{-1}, slots)
			drafts := rapid.SliceOfN(rapid.Int32Range(0, 1000), slots*most, slots*most).Draw(t, "drafts")
			counts := make([]int32, slots)
			room := rapid.Int32Range(0, limit).Draw(t, "room")
			for i := range slots {
				n := rapid.IntRange(0, 12).Draw(t, "length")
				ran := rapid.IntRange(0, n+3).Draw(t, "done") // slots that decode are past their prompts
				at := rapid.IntRange(0, capacity-12).Draw(t, "at")
				starts[i], done[i], lens[i] = int32(at-min(ran, n)), int32(ran), int32(n)
				prompt := append(make([]int32, min(ran, n)), arena[at:at+n-min(ran, n)]...)
				prompts[i] = tokenqueue.HostPrompt{Tokens: prompt, Done: ran, Turn: int(turns[i])}
				if ran >= n && rapid.Bool().Draw(t, "decodes") {
					queued[i] = rapid.Int32Range(0, 1000).Draw(t, "token")
					counts[i] = rapid.Int32Range(0, most).Draw(t, "drafts")
					prompts[i].Next = append([]int32{queued[i]}, drafts[i*most:i*most+int(counts[i])]...)
				}
			}
			want := tokenqueue.PackPrompts(prompts, int(room), limit)
			out, err := exec.Call(arena, starts, done, lens, queued, room, drafts, counts, turns)
			if err != nil {
				t.Fatal(err)
			}
			var got []tokenqueue.Entry
			tokens, ids, pos := tensors.MustCopyFlatData[int32](out[0]), tensors.MustCopyFlatData[int32](out[1]),
				tensors.MustCopyFlatData[int32](out[2])
			n := int(tensors.ToScalar[int32](out[3]))
			for i := range tokens {
				if i < n {
					got = append(got, tokenqueue.Entry{Token: tokens[i], Slot: ids[i], Pos: pos[i]})
				} else if tokens[i] != -1 || ids[i] != -1 || pos[i] != -1 {
					t.Fatalf("padding %d is %d, %d, %d", i, tokens[i], ids[i], pos[i])
				}
			}
			if !slices.Equal(got, want) {
				t.Fatalf("got %v, want %v", got, want)
			}
		})
	})
}
