package parameter

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// The table has each field of Set once, with a default that may be given.
func TestOwn(t *testing.T) {
	fields := map[any]string{}
	var s Set
	var walk func(v reflect.Value)
	walk = func(v reflect.Value) {
		for i := range v.NumField() {
			if v.Type().Field(i).Anonymous {
				walk(v.Field(i))
				continue
			}
			fields[v.Field(i).Addr().Interface()] = v.Type().Field(i).Name
		}
	}
	walk(reflect.ValueOf(&s).Elem())
	flags := map[string]bool{}
	for p := range Own() {
		name := fields[p.At(&s)]
		if delete(fields, p.At(&s)); !strings.EqualFold(name, strings.ReplaceAll(p.Name, "_", "")) {
			t.Errorf("%s is field %q", p.Name, name)
		}
		if p.Flag != "" && flags[p.Flag] || p.Short != "" && flags[p.Short] || p.Note == "" {
			t.Errorf("%s has a flag of another, or no help", p.Name)
		}
		flags[p.Flag], flags[p.Short] = true, true
		_, sampled := reflect.TypeFor[Sampling]().FieldByName(name)
		if sampled != (p.Device != "") {
			t.Errorf("%s: what the device has stands in Sampling, and only that", p.Name)
		}
	}
	if len(fields) > 0 {
		t.Errorf("the table lacks %v", fields)
	}
	d := Defaults()
	if err := d.Check(func(own string) string { return own }); err != nil {
		t.Error(err)
	}
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		change func(*Set)
		want   string
	}{
		{func(s *Set) { s.N = 0 }, "--n is 0, but must be 1 to 1048576"},
		{func(s *Set) { s.N, s.Generation = 3, 1<<31-3 }, "--generation is 2147483645, but must be 0 to 2147483644"},
		{func(s *Set) { s.MaxTokens = -1 }, "--max_tokens is -1, but must be at least 1"},
		{func(s *Set) { s.MinTokens, s.MaxTokens = 5, 4 },
			"--min_tokens is 5, but must be 0 to max_tokens, which is 4"},
		{func(s *Set) { s.MaxTokens = 0 }, "--max_tokens is 0, but must be at least 1, or 0 with prompt_logprobs"},
		{func(s *Set) { s.MaxTokens, s.PromptLogprobs = 0, 0 }, ""},
		{func(s *Set) { s.PromptLogprobs = 257 }, "--prompt_logprobs is 257, but must be 0 to 256"},
		{func(s *Set) { s.PromptLogprobs = -1 }, "--prompt_logprobs is -1, but must be 0 to 256"},
		{func(s *Set) { s.TopLogprobs = 257 }, "--top_logprobs is 257, but must be 0 to 256"},
		{func(s *Set) { s.TopP = 0 }, "--top_p is 0, but must be in 0 < --top_p <= 1 (1 is off)"},
		{func(s *Set) { s.Stop = []string{"a", ""} }, `--stop "" is empty or not UTF-8`},
		{func(s *Set) { s.TopK = -2 }, "--top_k is -2, but must be in 0 <= --top_k <= 2147483647 (0 is off)"},
		{func(s *Set) { s.TopK = -1 }, ""},
	} {
		s := Defaults()
		c.change(&s)
		got := ""
		if err := s.Check(func(own string) string { return "--" + own }); err != nil {
			got = err.Error()
		}
		if got != c.want || got == "" && s.TopK != 0 {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}

// job.json has the parameters as it had them before there was a table.
func TestIdentity(t *testing.T) {
	s := Defaults()
	got, err := json.Marshal(s.Identity())
	want := `{"ignore_eos":false,"max_tokens":256,"min_p":0,"n":1,"seed":0,"stop":null,"temperature":1,"top_k":0,"top_p":1}`
	if err != nil || string(got) != want {
		t.Errorf("got  %s (%v)\nwant %s", got, err, want)
	}
	s.MinTokens = 3 // which came later
	if s.Identity()["min_tokens"] != 3 {
		t.Errorf("%v", s.Identity())
	}
}

// What is given comes before what is not, and nothing else changes.
func TestOver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var g Given
		want := Defaults()
		for p := range Own() {
			if g.Has(p) || g.Value(p) != nil {
				t.Fatalf("%s is given", p.Name)
			}
			if !rapid.Bool().Draw(t, p.Name) {
				continue
			}
			for _, at := range []any{g.Give(p), p.At(&want)} {
				switch at := at.(type) {
				case *int:
					*at = 5
				case *float64:
					*at = 0.5
				case *uint64:
					*at = 7
				case *bool:
					*at = true
				case *[]string:
					*at = []string{"x"}
				case *string:
					*at = "x"
				case *ObjectJSON:
					*at = `{"x":1}`
				case *ListJSON:
					*at = "[1]"
				}
			}
			if !g.Has(p) || !reflect.DeepEqual(g.Value(p), p.slot.get(&want)) {
				t.Fatalf("%s is %v", p.Name, g.Value(p))
			}
		}
		if got := g.Over(Defaults()); !reflect.DeepEqual(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}
