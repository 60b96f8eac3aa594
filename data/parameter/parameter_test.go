package parameter

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Every name occurs once for each prompt column that it may be used with, and each entry can be judged.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for p := range All() {
		key := p.Name + "/" + p.when.rows
		if seen[key] || seen[p.Name+"/"] {
			t.Errorf("%s is there twice", p.Name)
		}
		seen[key] = true
		for _, v := range p.neutral {
			if !json.Valid([]byte(v)) {
				t.Errorf("%s: %q is no JSON", p.Name, v)
			}
			if verdict, _ := p.Judge([]byte(v), nothing); verdict != NoEffect {
				t.Errorf("%s: %s has no effect and is judged %d", p.Name, v, verdict)
			}
		}
		if own := slices.Contains(OwnNames(), p.Sets); p.Sets != "" && !own {
			t.Errorf("%s sets %s, which is none of Quire's own", p.Name, p.Sets)
		}
		if p.Own() != (p.Type() != 0) {
			t.Errorf("%s has type %d", p.Name, p.Type())
		}
		if p.passes && (p.Sets != "" || p.neutral != nil || p.Note == "") {
			t.Errorf("%s passes, and says too much or not why", p.Name)
		}
	}
}

// Members of messages have names of their own, and no effect where they are empty or null.
func TestMembers(t *testing.T) {
	seen := map[string]bool{"role": true, "content": true}
	for p := range Members() {
		if seen[p.Name] || LookupMember(p.Name) != p || p.Sets != "" || p.passes {
			t.Errorf("%s is there twice, or is more than a member", p.Name)
		}
		seen[p.Name] = true
		for _, v := range append([]string{"null", `""`, "[]", "{}", `{"a":null}`}, p.neutral...) {
			if verdict, _ := p.Judge([]byte(v), nothing); verdict != NoEffect {
				t.Errorf("%s: %s is judged %d", p.Name, v, verdict)
			}
		}
		for _, v := range []string{`"x"`, "1", "true", `["x"]`, `{"a":1}`} {
			if verdict, _ := p.Judge([]byte(v), nothing); verdict != Refused {
				t.Errorf("%s: %s is judged %d", p.Name, v, verdict)
			}
		}
	}
	for _, name := range []string{"role", "content", "name", "tool_calls", "weight", "id"} {
		if LookupMember(name) != nil {
			t.Errorf("%s is refused", name)
		}
	}
}

func nothing(string) string { return "" }

func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        Verdict
		set         string
	}{
		{"max_completion_tokens", "2", Applied, "2"},
		{"max_new_tokens", "2", Applied, "2"},
		{"min_new_tokens", "2", Applied, "2"},
		{"n_predict", "-1", Applied, "-1"}, // and refused as max_tokens
		{"stop_sequences", `"x"`, Applied, `"x"`},
		{"num_return_sequences", "4", Applied, "4"},
		{"max_tokens", "null", NoEffect, ""},
		{"do_sample", "false", Applied, "0"},
		{"do_sample", "true", NoEffect, ""},
		{"do_sample", "1", Refused, ""},

		{"frequency_penalty", "0.5", Applied, "0.5"},
		{"diversity_penalty", "0.0", NoEffect, ""},
		{"diversity_penalty", "-0", NoEffect, ""},
		{"diversity_penalty", "0.5", Refused, ""},
		{"length_penalty", "1e0", NoEffect, ""},
		{"length_penalty", "0", Refused, ""},
		{"sequence_bias", "{}", NoEffect, ""},
		{"sequence_bias", `{"5":null}`, NoEffect, ""}, // a struct of a Parquet file
		{"sequence_bias", `{"5":-100}`, Refused, ""},
		{"logit_bias", `{"5":-100}`, Applied, `{"5":-100}`},
		{"best_of", "1", NoEffect, ""},
		{"best_of", "2", Refused, ""},
		{"response_format", `{"type":"json_object"}`, Applied, `{"type":"json_object"}`},
		{"functions", "[]", NoEffect, ""},
		{"functions", `[{"name":"f"}]`, Refused, ""},
		{"functions", `[{"name":null},null]`, NoEffect, ""},
		{"function_call", `"auto"`, NoEffect, ""},
		{"function_call", `{"name":"f"}`, Refused, ""},
		{"sampling_params", `{"max_tokens":2}`, Refused, ""},
		{"echo", "false", NoEffect, ""},
		{"echo", "true", Refused, ""},
		{"samplers", "[]", Refused, ""}, // no filters at all, not the usual ones
		{"json_schema", "{}", Applied, "{}"},

		{"logprobs", "true", NoEffect, ""},
		{"logprobs", "false", NoEffect, ""},
		{"logprobs", "0", Applied, "0"},
		{"logprobs", "1", Applied, "1"},
		{"logprobs", "[-0.5]", NoEffect, ""}, // what an earlier run wrote
		{"top_logprobs", "5", Applied, "5"},
		{"prompt_logprobs", "0", Applied, "0"},

		{"user", `"someone"`, NoEffect, ""},
		{"metadata", `{"a":1}`, NoEffect, ""},
		{"stream", "true", NoEffect, ""},
		{"model", `"gpt"`, NoEffect, ""},
	} {
		verdict, set := Lookup(c.name)[0].Judge([]byte(c.value), nothing)
		if verdict != c.want || string(set) != c.set {
			t.Errorf("%s %s: %d %s, want %d %s", c.name, c.value, verdict, set, c.want, c.set)
		}
	}
	given := func(own string) string { return map[string]string{"n": "4", "temperature": "0"}[own] }
	if verdict, _ := Lookup("best_of")[0].Judge([]byte("4.0"), given); verdict != NoEffect {
		t.Errorf("best_of equal to n: %d", verdict)
	}
	if verdict, _ := Lookup("do_sample")[0].Judge([]byte("true"), given); verdict != Contradicts {
		t.Errorf("do_sample at temperature 0: %d", verdict)
	}
}

// A name with dashes is the name with underscores: of Quire's own parameters, and of those that are refused.
func TestDashes(t *testing.T) {
	for name, own := range map[string]string{"max-tokens": "max_tokens", "max-new-tokens": "max_tokens",
		"top-p": "top_p"} {
		if p := Sink(name); p == nil || p.Name != own {
			t.Errorf("%s sets %v, want %s", name, p, own)
		}
	}
	for p := range All() {
		if dashed := strings.ReplaceAll(p.Name, "_", "-"); len(Lookup(dashed)) != len(Lookup(p.Name)) {
			t.Errorf("%s means %d things, and %s %d", dashed, len(Lookup(dashed)), p.Name, len(Lookup(p.Name)))
		}
	}
}

func TestNear(t *testing.T) {
	for column, want := range map[string]string{
		"temprature": "temperature", "tempreature": "temperature", "temperatur": "temperature",
		"Temperature": "temperature",
		"max_token":   "max_tokens", "max_tokns": "max_tokens", "maxTokens": "max_tokens", "max-tokens": "",
		"topK": "top_k", "top-p": "", "MIN_P": "min_p", "ingore_eos": "ignore_eos", "Seed": "seed",
		"max_completion_token": "max_completion_tokens", "freqency_penalty": "frequency_penalty",
		"repetition_penality": "repetition_penalty", "stop_sequence": "stop_sequences", "logit_bais": "logit_bias",
		"guided_jsn": "guided_json", "reponse_format": "response_format",
		// Data.
		"topic": "", "top_q": "", "step": "", "steps": "", "need": "", "feed": "", "speed": "", "ids": "", "ID": "",
		"N": "", "k": "",
		"generations": "", "generator": "", "document": "", "function": "", "samples": "", "temperatures": "",
		"temperature_c": "",
		"prompts":       "", "prompt2": "", "message": "", "logprob": "", "users": "", "num_tokens": "", "n_tokens": "",
		"topics":      "",
		"mean_length": "", "output_text": "", "title": "", "stops": "", "grammer": "", "": "", "_": "", "max": "",
		"tool": "",
	} {
		if got, _ := Near(column); got != want {
			t.Errorf("%q is near to %q, want %q", column, got, want)
		}
	}
	for p := range All() {
		if got, ok := Near(p.Name); ok {
			t.Errorf("%s is a parameter, and near to %s", p.Name, got)
		}
	}
}

// No name and no value is too odd to be judged.
func TestAnything(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.Custom(func(t *rapid.T) string {
			p := rapid.SampledFrom(table).Draw(t, "parameter")
			letters := []rune(p.Name)
			letters[rapid.IntRange(0, len(letters)-1).Draw(t, "at")] = rapid.Rune().Draw(t, "letter")
			return string(letters)
		})).Draw(t, "name")
		if near, ok := Near(name); ok && len(Lookup(near)) == 0 {
			t.Fatalf("%q is near to %q, which is none", name, near)
		}
		p := rapid.SampledFrom(table).Draw(t, "judge")
		odd := rapid.SampledFrom([]string{"null", "{}", "[[]]", "1e400", `{"a":[null]}`})
		value := rapid.OneOf(rapid.String(), odd).Draw(t, "value")
		verdict, set := p.Judge([]byte(value), nothing)
		if (verdict == Applied) != (len(set) > 0) {
			t.Fatalf("%s %q: verdict %d, %q", p.Name, value, verdict, set)
		}
		if strings.TrimSpace(value) == "null" && verdict != NoEffect {
			t.Fatalf("%s: null has an effect", p.Name)
		}
	})
}

func BenchmarkNear(b *testing.B) {
	for b.Loop() {
		Near("average_length_of_words")
		Near("topic")
	}
}
