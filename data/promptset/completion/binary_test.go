package completion

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"pgregory.net/rapid"
)

func TestResultBytes(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := resultGenerator.Draw(t, "result")
		b, err := want.AppendBinary([]byte("before"))
		if err != nil {
			t.Fatal(err)
		}
		b = b[len("before"):]
		var got Result
		if err := got.UnmarshalBinary(b); err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("read %+v, %v; want %+v", got, err, want)
		}
		if g, err := GenerationOf(b); err != nil || g != want.Generation {
			t.Fatal(g, err)
		}
		for n := range b {
			if err := got.UnmarshalBinary(b[:n]); !errors.Is(err, ErrResultBytes) {
				t.Fatalf("%d bytes of %d: %v", n, len(b), err)
			}
		}
		if err := got.UnmarshalBinary(append(b, 0)); !errors.Is(err, ErrResultBytes) {
			t.Fatal(err)
		}
	})
}

func FuzzResultBytes(f *testing.F) {
	for _, r := range []Result{{}, {Text: "text", TokenIDs: []int32{1, -1}, Logprobs: []float32{-0.5},
		FinishReason: "stop"}, {TopIDs: [][]int32{{1, 2}, {}, nil}, PromptLogprobs: []float32{-1}}} {
		b, _ := r.AppendBinary(nil)
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var r Result
		if r.UnmarshalBinary(b) != nil {
			return
		}
		again, _ := r.AppendBinary(nil)
		var s Result
		if err := s.UnmarshalBinary(again); err != nil || fmt.Sprint(r) != fmt.Sprint(s) {
			t.Fatalf("%+v is read again as %+v: %v", r, s, err)
		}
	})
}

var resultGenerator = rapid.Custom(func(t *rapid.T) Result {
	r := Result{
		Generation: rapid.Int().Draw(t, "generation"), Text: rapid.String().Draw(t, "text"),
		FinishReason: rapid.String().Draw(t, "reason"),
		PromptTokens: rapid.Int().Draw(t, "prompt"), CompletionTokens: rapid.Int().Draw(t, "completion"),
		Err: rapid.String().Draw(t, "error"),
	}
	if rapid.Bool().Draw(t, "tokens") {
		r.TokenIDs = rapid.SliceOf(rapid.Int32()).Draw(t, "token ids")
	}
	if rapid.Bool().Draw(t, "logprobs") {
		r.Logprobs = rapid.SliceOf(rapid.Float32()).Draw(t, "logprobs values")
	}
	for _, list := range []*[]float32{&r.ProcessedLogprobs, &r.PromptLogprobs, &r.ChoiceProbabilities, &r.Embedding} {
		if rapid.Bool().Draw(t, "has") {
			*list = rapid.SliceOf(rapid.Float32()).Draw(t, "floats")
		}
	}
	for _, lists := range []*[][]float32{&r.TopLogprobs, &r.PromptTopLogprobs, &r.Vectors} {
		if rapid.Bool().Draw(t, "has") {
			*lists = rapid.SliceOf(rapid.SliceOf(rapid.Float32())).Draw(t, "lists of floats")
		}
	}
	for _, lists := range []*[][]int32{&r.TopIDs, &r.PromptTopIDs} {
		if rapid.Bool().Draw(t, "has") {
			*lists = rapid.SliceOf(rapid.SliceOf(rapid.Int32())).Draw(t, "lists of ids")
		}
	}
	if rapid.Bool().Draw(t, "has") {
		r.Hidden = rapid.SliceOf(rapid.Byte()).Draw(t, "hidden")
		r.Experts = rapid.SliceOf(rapid.Uint16()).Draw(t, "experts")
	}
	if rapid.Bool().Draw(t, "judged") {
		r.Judgment = rapid.SampledFrom([]Judgment{Rejected, Accepted}).Draw(t, "judgment")
		r.Verdict = rapid.String().Draw(t, "verdict")
	}
	if rapid.Bool().Draw(t, "conversation") {
		r.Conversation = Conversation{Turns: rapid.Int().Draw(t, "turns"), Messages: rapid.String().Draw(t, "messages"),
			Mask: rapid.SliceOf(rapid.Int32()).Draw(t, "mask")}
	}
	if rapid.Bool().Draw(t, "has") {
		r.PromptTokenIDs = rapid.SliceOf(rapid.Int32()).Draw(t, "prompt's ids")
	}
	return r
})
