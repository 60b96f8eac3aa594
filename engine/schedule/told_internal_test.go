package schedule

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// What is told of a completion stays: each text is where the next one begins, and the whole one too, whatever stop
// strings may end it.
func TestToldTextStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letters := rapid.StringOfN(rapid.RuneFrom([]rune("aabB")), 1, 4, -1)
		r := Request{Stop: rapid.SliceOfN(letters, 0, 3).Draw(t, "stop"),
			MinTokens: rapid.IntRange(0, 3).Draw(t, "min"), IncludeStop: rapid.Bool().Draw(t, "include")}
		var told []Partial
		r.Told = func(p Partial) { told = append(told, p) }
		seq := &sequence{group: &group{}}
		seq.text.init(func(*Request) Stream { return pieces{} }, &r)
		var done *Completion
		tokens := []rune(rapid.StringOfN(rapid.RuneFrom([]rune("aabB")), 1, 12, -1).Draw(t, "drawn"))
		for i, call := 0, 0; i < len(tokens); i += call { // calls of several tokens
			call = min(rapid.IntRange(1, 4).Draw(t, "call"), len(tokens)-i)
			got := &Output{}
			for k, token := range tokens[i : i+call] {
				finish := Running
				if i+k == len(tokens)-1 {
					finish = AtLength
				}
				got.Owners, got.Tokens, got.Finish = append(got.Owners, 0), append(got.Tokens, token),
					append(got.Finish, int32(finish))
				got.Logprobs, got.Processed = append(got.Logprobs, 0), append(got.Processed, 0)
			}
			before := len(told)
			r := &result{owners: []*sequence{seq}, output: got}
			if err := r.drain(false, func(c *Completion) { done = c }); err != nil {
				t.Fatal(err)
			}
			if done == nil && len(told) != before+1 {
				t.Fatalf("told %d times of a call of %d tokens", len(told)-before, call)
			}
			if done != nil {
				break
			}
		}
		for i, p := range told {
			next := done.Text
			if i+1 < len(told) {
				next = told[i+1].Text
			}
			if !strings.HasPrefix(next, p.Text) || !slices.Equal(done.Tokens[:len(p.Tokens)], p.Tokens) {
				t.Fatalf("%q was told, then %q", p.Text, next)
			}
		}
	})
}
