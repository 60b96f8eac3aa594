package verdict

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/quire/quire/data/promptset/completion"
	"github.com/quire/quire/data/promptset/jsonvalue"
	"github.com/quire/quire/data/promptset/record"
)

func row(column, raw string) *record.Row {
	return &record.Row{ID: "a", Source: record.Object{jsonvalue.Member{Key: column, Raw: []byte(raw)}}}
}

func TestVerifiers(t *testing.T) {
	for _, c := range []struct {
		settings  Settings
		text, raw string // raw is the row's column want
		verdict   Verdict
		failure   string
	}{
		{settings: Settings{Regex: "b+"}, text: "abbc", verdict: Verdict{true, "bb"}},
		{settings: Settings{Regex: "a(b+)"}, text: "abbc", verdict: Verdict{true, "bb"}},
		{settings: Settings{Regex: "a(b+)|c"}, text: "c", verdict: Verdict{true, "c"}},
		{settings: Settings{Regex: "b+"}, text: "ac"},
		{settings: Settings{Regex: "b", Extract: "a.*"}, text: "b a c"},
		{settings: Settings{Equals: "want"}, text: " 18 \n", raw: "18", verdict: Verdict{true, "18"}},
		{settings: Settings{Equals: "want"}, text: "18.0", raw: `"18"`, verdict: Verdict{true, "18.0"}},
		{settings: Settings{Equals: "want"}, text: "1,018", raw: `1018`, verdict: Verdict{true, "1,018"}},
		{settings: Settings{Equals: "want"}, text: "1,01", raw: `101`, verdict: Verdict{false, "1,01"}},
		{settings: Settings{Equals: "want"}, text: "true", raw: `true`, verdict: Verdict{true, "true"}},
		{settings: Settings{Equals: "want"}, text: "1e3", raw: `1000`, verdict: Verdict{false, "1e3"}},
		{settings: Settings{Equals: "want"}, text: "Yes", raw: `"yes"`, verdict: Verdict{false, "Yes"}},
		{settings: Settings{Equals: "want", Extract: `\d+`}, text: "1 and 2 are 3.", raw: `3`, verdict: Verdict{true, "3"}},
		{settings: Settings{Equals: "want", Extract: `is (\w+)`}, text: "It is 4, is it", raw: `"it"`,
			verdict: Verdict{true, "it"}},
		{settings: Settings{Equals: "want", Extract: `\d+`}, text: "none", raw: `3`},
		{settings: Settings{Equals: "want"}, text: "3", raw: `null`,
			failure: `the row's column "want" is null, and there is nothing to compare with`},
		{settings: Settings{Equals: "other"}, text: "3", raw: `3`, failure: `the row has no column "other" to compare with`},
		{settings: Settings{Schema: `{"type":"object","required":["b"],"properties":{"a":{"minimum":3}}}`},
			text: ` {"b": null, "a": 3} `, verdict: Verdict{true, ""}},
		{settings: Settings{Schema: `{"properties":{"a":{"minimum":3}}}`}, text: `{"a": 2}`,
			verdict: Verdict{false, "at /a: minimum: got 2, want 3"}},
		{settings: Settings{Schema: `{"properties":{"a":{"minimum":3}}}`}, text: `{"a": 1e1000000000}`,
			verdict: Verdict{false, "a number has a very large exponent"}},
		{settings: Settings{Schema: `{}`}, text: `{} {}`,
			verdict: Verdict{false, "not JSON: invalid character after top-level value"}},
		{settings: Settings{Schema: `{"format": "date"}`}, text: `"2026-02-30"`},
		{settings: Settings{Schema: `{"type": "integer"}`, Regex: "1"}, text: `21`, verdict: Verdict{true, ""}},
		{settings: Settings{Schema: `{"type": "integer"}`, Regex: "3"}, text: `21`},
		{settings: Settings{Majority: 0.9, Extract: `\d`}, text: `1 2`, verdict: Verdict{true, "2"}},
	} {
		v, err := New(&c.settings)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Verify(t.Context(), &Completion{Row: row("want", c.raw), Text: c.text})
		if c.failure != "" {
			if err == nil || err.Error() != c.failure {
				t.Errorf("%+v of %q: %+v, %v; want %s", c.settings, c.text, got, err, c.failure)
			}
			continue
		}
		if c.settings.Schema == `{"format": "date"}` && err == nil && !got.Accepted &&
			strings.Contains(got.Text, "date") {
			continue
		}
		if err != nil || got != c.verdict {
			t.Errorf("%+v of %q: %+v, %v; want %+v", c.settings, c.text, got, err, c.verdict)
		}
	}
}

// resultsOf draws results of generations 0 and on.
func resultsOf(t *rapid.T, most int) (all []completion.Result) {
	for g := range rapid.IntRange(0, most).Draw(t, "known") {
		r := completion.Result{Generation: g, Judgment: completion.Rejected}
		r.Verdict = rapid.SampledFrom([]string{"", "a", "a", "b", "c"}).Draw(t, "answer")
		if rapid.Bool().Draw(t, "accepted") {
			r.Judgment = completion.Accepted
		}
		if rapid.IntRange(0, 20).Draw(t, "fails") == 0 {
			r.Err, r.Judgment = "failed", completion.Unjudged
		}
		all = append(all, r)
	}
	return all
}

// A row that is decided stays decided by the same completions, and no row is decided before it has as many more as its
// rule says at least.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		most := rapid.IntRange(1, 12).Draw(t, "most")
		s := Settings{Regex: ".", Until: rapid.IntRange(0, 3).Draw(t, "until")}
		if rapid.Bool().Draw(t, "majority") {
			s = Settings{Majority: rapid.SampledFrom([]float64{0.6, 0.9, 0.95}).Draw(t, "certainty")}
		}
		rule, all := NewRule(&s, most), resultsOf(t, most)
		decided := 0
		for n := range len(all) + 1 {
			got := rule.Decided(all[:n])
			switch {
			case decided > 0 && got != decided:
				t.Fatalf("decided by %d, and by %d of %d", decided, got, n)
			case got > n:
				t.Fatalf("decided by %d of %d", got, n)
			}
			if decided = got; decided > 0 || n == len(all) {
				continue
			}
			least := rule.Least(all[:n])
			if least < 1 {
				t.Fatalf("%d more after %d completions, which do not decide", least, n)
			}
			for more := 1; more < least && n+more <= len(all); more++ {
				if at := rule.Decided(all[:n+more]); at > 0 && all[at-1].Err == "" {
					t.Fatalf("decided by %d, and after %d there were at least %d to come", at, n, least)
				}
			}
		}
		if len(all) == most && decided == 0 {
			t.Fatal("not decided by all")
		}
	})
}

// The certainty of a majority is that of the Beta distribution, here integrated by a sum of many terms.
func TestCertaintyOfMajorities(t *testing.T) {
	for first := range 12 {
		for second := range first + 1 {
			const steps = 20000
			above, all := 0.0, 0.0
			for i := range steps {
				x := (float64(i) + 0.5) / steps
				density := math.Pow(x, float64(first)) * math.Pow(1-x, float64(second))
				if all += density; x > 0.5 {
					above += density
				}
			}
			for _, certainty := range []float64{0.55, 0.9, 0.95} {
				if math.Abs(above/all-certainty) < 1e-4 {
					continue
				}
				m := majority{new(big.Rat).SetFloat64(certainty), 100}
				if got := m.certain(first, second); got != (above/all > certainty) {
					t.Errorf("%d to %d votes are certain with %g: %t; the integral is %g", first, second, certainty,
						got, above/all)
				}
			}
		}
	}
}

func TestMajorityConcludes(t *testing.T) {
	rule := NewRule(&Settings{Majority: 0.9}, 9)
	var all []completion.Result
	for g, answer := range strings.Split("a,b,,b,a,c,b,b", ",") {
		all = append(all, completion.Result{Generation: g, Verdict: answer})
	}
	rule.Conclude(all)
	got := ""
	for _, r := range all {
		got += fmt.Sprint(r.Judgment)
	}
	if got != "12121122" {
		t.Error(got)
	}
}

// asking notes what it is asked, and waits for its context.
type asking struct{ asked chan string }

func (a asking) Verify(ctx context.Context, c *Completion) (Verdict, error) {
	a.asked <- c.Text
	select {
	case <-ctx.Done():
		return Verdict{}, ctx.Err()
	case <-time.After(time.Hour):
		return Verdict{Accepted: true}, nil
	}
}

func (asking) Close() error { return errors.New("closed") }

// A judge that is closed tells nothing any more, also not that questions failed.
func TestClosedJudgeTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v := asking{make(chan string, 9)}
		j := NewJudge(v, 2)
		var told atomic.Int32
		for i := range 5 {
			j.Submit(&Completion{Text: fmt.Sprint(i)}, func(Verdict, error) { told.Add(1) })
		}
		time.Sleep(90 * time.Minute)
		if err := j.Close(); err == nil || err.Error() != "closed" {
			t.Error(err)
		}
		if told.Load() != 2 || len(v.asked) != 4 {
			t.Errorf("%d verdicts were told of %d that were asked for", told.Load(), len(v.asked))
		}
	})
}

// A verdict is text, and other JSON stands as it is. What accepts must be true or false.
func TestAnswers(t *testing.T) {
	for answer, want := range map[string]Verdict{
		`{"accepted": true}`: {Accepted: true}, `{"accepted": false, "verdict": "no"}`: {Text: "no"},
		`{"accepted": true, "verdict": 3.5}`:      {Accepted: true, Text: "3.5"},
		`{"accepted": true, "verdict": {"a":[]}}`: {Accepted: true, Text: `{"a":[]}`},
		`{"accepted": true, "verdict": null}`:     {Accepted: true},
	} {
		if got, err := verdictOf([]byte(answer)); err != nil || got != want {
			t.Errorf("%s: %+v, %v", answer, got, err)
		}
	}
	for answer, want := range map[string]string{
		`{"accepted": 1}`: "must be true or false", `{"accepted": "true"}`: "must be true or false",
		`{"accepted": null}`: "is missing there", `true`: "must be a JSON object", `[]`: "must be a JSON object",
		`{"error": 5}`: "must be text", `yes`: "no JSON object",
	} {
		if _, err := verdictOf([]byte(answer)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", answer, err)
		}
	}
	for version, want := range map[string]string{"http://json-schema.org/draft-03/schema#": "not supported",
		"http://json-schema.org/draft-07/schema#": ""} {
		_, err := newSchema(`{"$schema": "` + version + `", "type": "object"}`)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", version, err)
		}
	}
}
