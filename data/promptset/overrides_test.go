package promptset

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"github.com/quire/quire/data/parameter"
)

// A parameter under the name that other engines have for it is read as under Quire's own, and errors name what was
// written.
func TestOtherNamesOfParameters(t *testing.T) {
	dir := t.TempDir()
	read := func(t *rapid.T, object string) (Overrides, string) {
		path := filepath.Join(dir, "x.jsonl")
		if err := os.WriteFile(path, []byte(object), 0o666); err != nil {
			t.Fatal(err)
		}
		r, err := Open(t.Context(), []string{path})
		if err != nil {
			t.Fatal(err)
		}
		for row := range r.Rows(t.Context()) {
			if row.Err != nil {
				return Overrides{}, row.Err.(*RowError).What
			}
			return row.Overrides, ""
		}
		t.Fatal("no row")
		return Overrides{}, ""
	}
	var names []*parameter.Parameter
	for p := range parameter.All() {
		if t := parameter.TypeOf(p.Name); !p.Own() && t != 0 && t != parameter.Structured {
			names = append(names, p)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(names).Draw(t, "name")
		value := rapid.SampledFrom([]string{"1", "2.0", "-1", "2.5", "1e3", "9223372036854775808", `"x"`,
			`["a","b"]`, `[null]`, "[]", "true", "null", "{}"}).Draw(t, "value")
		// Some values of a name have no effect, although they would be errors of Quire's own parameter.
		if verdict, _ := p.Judge([]byte(value), func(string) string { return "" }); verdict == parameter.NoEffect {
			t.Skip()
		}
		own, ownErr := read(t, fmt.Sprintf(`{"prompt": "a", %q: %s}`, p.Sets, value))
		got, err := read(t, fmt.Sprintf(`{"prompt": "a", %q: %s}`, p.Name, value))
		if want := strings.Replace(ownErr, p.Sets, p.Name, 1); err != want || !reflect.DeepEqual(got, own) {
			t.Fatalf("%s %s: %+v %q, want %+v %q", p.Name, value, got, err, own, want)
		}
		both, err := read(t, fmt.Sprintf(`{"prompt": "a", %q: %s, %q: %s}`, p.Name, value, p.Sets, value))
		if (err == "") != (ownErr == "") || !reflect.DeepEqual(both, own) {
			t.Fatalf("%s and %s %s: %+v %q, want %+v %q", p.Name, p.Sets, value, both, err, own, ownErr)
		}
	})
}

// The columns of a Parquet file mean the same as these values in a JSONL file, for any types.
func TestParametersOfParquet(t *testing.T) {
	type format struct {
		Type   *string `parquet:"type,optional"`
		Schema *string `parquet:"json_schema,optional"`
	}
	type row struct {
		Prompt   string           `parquet:"prompt"`
		Tokens   *float64         `parquet:"max_new_tokens,optional"`
		Max      *int32           `parquet:"max_tokens,optional"`
		About    *float32         `parquet:"max_completion_tokens,optional"`
		Stop     [][]byte         `parquet:"stop_strings,list"`
		Penalty  *float32         `parquet:"diversity_penalty,optional"`
		Format   *format          `parquet:"response_format,optional"`
		Bias     map[string]int32 `parquet:"logit_bias"`
		Tools    []format         `parquet:"tools,list"`
		Sample   *bool            `parquet:"do_sample,optional"`
		Seed     *int64           `parquet:"seed,optional"`
		Logprobs []float32        `parquet:"logprobs,list"`
		Repeat   *int64           `parquet:"length_penalty,optional,decimal(1:18)"` // of tenths
	}
	text, two, half, nan, three, minus, no := "text", 2.0, float32(0.5), math.NaN(), int32(3), int64(-1), false
	object, zero, broken := "json_object", float32(0), 2.5
	whole, more := int64(10), int64(15)
	exact, about, far := float32(1<<24-1), float32(1<<24), float64(1<<53)
	for _, c := range []struct {
		row  row
		want string // of the error, or the overrides
	}{
		{row{Tokens: &two, Stop: [][]byte{[]byte("x"), []byte("y")}}, `max_tokens 2 stop ["x","y"]`},
		{row{Tokens: &two, Penalty: &zero, Format: &format{Type: &text}, Sample: &no},
			`max_tokens 2 temperature 0 structured_outputs null`},
		{row{Bias: map[string]int32{}, Tools: []format{}, Format: &format{}, Logprobs: []float32{-1}}, ``},
		{row{Repeat: &whole}, ``},
		{row{Repeat: &more}, `parameter length_penalty is not supported as 1.5; leave it out, give 1, which`},
		{row{Tokens: &broken}, `max_new_tokens is 2.5; give a whole number`},
		{row{About: &exact}, `max_tokens 16777215`},
		{row{About: &about}, `max_completion_tokens is 16777216, which a floating-point column holds only about`},
		{row{Tokens: &far}, `max_new_tokens is 9007199254740992, which a floating-point column holds only about`},
		{row{Tokens: &nan}, `max_new_tokens is not a finite number; give one, or null`},
		{row{Tokens: &two, Max: &three}, `max_new_tokens is 2 and max_tokens is 3, and both set max_tokens; keep one`},
		{row{Penalty: &half}, `parameter diversity_penalty is not supported as 0.5; leave it out, give 0, which`},
		{row{Format: &format{Type: &object}},
			`structured_outputs {"json_object":true}`},
		{row{Bias: map[string]int32{"5": -100}}, `logit_bias {"5":-100}`},
		{row{Bias: map[string]int32{"5": -101}}, `logit_bias has -101 for token 5, but must have numbers from -100`},
		{row{Tools: []format{{Type: &text}}},
			`tools [{"type":"text"}]`},
		{row{Seed: &minus}, ``},
	} {
		c.row.Prompt = "a"
		path := filepath.Join(t.TempDir(), "x.parquet")
		if err := parquet.WriteFile(path, []row{c.row}); err != nil {
			t.Fatal(err)
		}
		got := rows(t, open(t, path))[0]
		var set []string
		for _, own := range parameter.OwnNames() {
			// An empty list is what the library writes for none.
			if v := got.Overrides.Text(own); v != "" && v != "[]" {
				set = append(set, own+" "+v)
			}
		}
		text := strings.Join(set, " ")
		if got.Err != nil {
			text = strings.TrimPrefix(got.Err.Error(), path+" row 0: ")
		}
		if !strings.HasPrefix(text, c.want) || c.want == "" && text != "" {
			t.Errorf("got  %s\nwant %s", text, c.want)
		}
	}
}
