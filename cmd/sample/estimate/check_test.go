package estimate

import (
	"bytes"
	"strings"
	"testing"

	"github.com/quire/quire/batch/check"
)

// What is expected stands below what there is at most.
func TestPrintCheck(t *testing.T) {
	r := check.Report{Rows: 2, Completions: 2, CompletionTokens: 2000, KVBytesPerToken: 1 << 20,
		LongestSequence: 1100, MeanSequence: 1024, TokensPerSecond: 12.34, SecondsOfDrawing: 162,
		Expected: &check.Expectation{
			Like:             check.Earlier{Output: "trial", Completions: 1, MeanTokens: 100, LengthShare: 0.25},
			CompletionTokens: 200.4, MeanSequence: 128, Seconds: 16.2}}
	for _, c := range []struct {
		given bool
		want  string
	}{
		{false, "time           at most 2m42s, at 12.3 tokens/s as trial had\n  expected     16s\n"},
		{true, "time           at most 2m42s, at 12.34 tokens/s as given\n  expected     16s\n"},
	} {
		var got bytes.Buffer
		printCheck(&got, &r, c.given)
		_, tail, _ := strings.Cut(got.String(), "completions")
		want := "    2 with at most 2,000 tokens\n" +
			"  expected     200 tokens: 1 completion of trial has a mean of 100.0 tokens, and 25 % ended at their " +
			"limit\n" +
			"KV cache       1,048,576 bytes a token: 1.1 GiB for the longest sequence (1100 tokens), 1.0 GiB for the " +
			"mean one, at most\n  expected     128 MiB for the mean sequence (128 tokens)\n" + c.want
		if tail != want {
			t.Errorf("%s\nwant\n%s", tail, want)
		}
	}
}
