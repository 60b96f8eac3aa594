package schedule

import (
	"slices"
	"testing"
)

// pieces is a stream whose tokens are letters, and whose upper-case ones are special.
type pieces struct{ whole bool }

func (p pieces) Push(token int32) string {
	if token >= 'A' && token <= 'Z' && !p.whole {
		return ""
	}
	return string(rune(token))
}
func (pieces) Flush() string { return "" }

// The text ends before a stop string or behind it, and has special tokens where they are asked for. A token that ended
// the completion is there where the stop string would be.
func TestTextAsAsked(t *testing.T) {
	for _, c := range []struct {
		drawn string
		last  Finish
		r     Request
		want  string
	}{
		{"abcde", AtLength, Request{}, "abcde"},
		{"abcde", AtLength, Request{Stop: []string{"cd"}}, "ab"},
		{"abcde", AtLength, Request{Stop: []string{"cd"}, IncludeStop: true}, "abcd"},
		{"abcde", AtLength, Request{Stop: []string{"d", "cd", "c"}, IncludeStop: true}, "abc"},
		{"abcd", AtStopString, Request{Stop: []string{"cd"}, OnDevice: true}, "ab"},
		{"abcd", AtStopString, Request{Stop: []string{"cd"}, OnDevice: true, IncludeStop: true}, "abcd"},
		{"aBcE", AtStopToken, Request{}, "ac"},
		{"aBcE", AtStopToken, Request{KeepSpecial: true}, "aBc"},
		{"aBcE", AtStopToken, Request{KeepSpecial: true, IncludeStop: true}, "aBcE"},
		{"aBcE", AtStopToken, Request{IncludeStop: true}, "ac"},
		{"aBcE", AtLength, Request{KeepSpecial: true}, "aBcE"},
		{"aBcE", AtLength, Request{KeepSpecial: true, Stop: []string{"Bc"}}, "a"},
		{"aBcE", AtLength, Request{Stop: []string{"ac"}}, ""},
		// An ordinary token.
		{"abce", AtStopToken, Request{}, "abc"},
		{"abce", AtStopToken, Request{IncludeStop: true}, "abce"},
		{"abce", AtStopToken, Request{KeepSpecial: true}, "abc"},
		{"abce", AtLength, Request{}, "abce"},
		{"abce", AtStopToken, Request{Stop: []string{"ce"}}, "ab"},
		{"abce", AtStopToken, Request{Stop: []string{"x"}}, "abc"},
		{"abce", AtStopToken, Request{Stop: []string{"x"}, OnDevice: true}, "abc"},
		{"abce", AtStopString, Request{Stop: []string{"ce"}, OnDevice: true}, "ab"},
		{"Fhie", AtStopToken, Request{Stop: []string{"x"}}, "hi"},
	} {
		got := &Output{}
		for i, token := range c.drawn {
			finish := Running
			if i == len(c.drawn)-1 {
				finish = c.last
			}
			got.Owners, got.Tokens, got.Finish = append(got.Owners, 0), append(got.Tokens, token),
				append(got.Finish, int32(finish))
			got.Logprobs, got.Processed = append(got.Logprobs, 0), append(got.Processed, 0)
		}
		seq := &sequence{group: &group{}}
		seq.text.init(func(r *Request) Stream { return pieces{r.KeepSpecial} }, &c.r)
		var text string
		one := &result{owners: []*sequence{seq}, output: got}
		err := one.drain(false, func(done *Completion) { text = done.Text })
		if err != nil || text != c.want {
			t.Errorf("%q with %+v is %q, %v, want %q", c.drawn, c.r, text, err, c.want)
		}
	}
}

// A log-probability is at most 0, whatever the device's rounding makes of it.
func TestProcessedLogprobs(t *testing.T) {
	r := Request{}
	seq := &sequence{group: &group{}}
	seq.text.init(nil, &r)
	got := &Output{Owners: []int32{0, 0, 0}, Tokens: []int32{1, 2, 3}, Logprobs: []float32{-1, -2, -3},
		Processed: []float32{-0.5, 0.7, 0}, Finish: []int32{int32(Running), int32(Running), int32(AtLength)}}
	var done *Completion
	one := &result{owners: []*sequence{seq}, output: got}
	if err := one.drain(false, func(c *Completion) { done = c }); err != nil {
		t.Fatal(err)
	}
	if want := []float32{-0.5, 0, 0}; !slices.Equal(done.ProcessedLogprobs, want) {
		t.Errorf("%v, want %v", done.ProcessedLogprobs, want)
	}
}
