package jinja_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/quire/quire/text/chat/jinja"
)

// The language itself is compared with Python's in package chat, on the cases
// of its testdata/goldens.json.

var limits = jinja.Limits{Output: 1 << 20, Memory: 1 << 24, Time: time.Minute}

func ExampleTemplate_Render() {
	t, err := jinja.Parse("{% for p in people %}{{ p.name | upper }}{{ ', ' if not loop.last }}{% endfor %}")
	if err != nil {
		fmt.Println(err)
		return
	}
	people := &jinja.List{Items: []any{jinja.NewDict("name", "Ada"), jinja.NewDict("name", "Grace")}}
	fmt.Println(t.Render(map[string]any{"people": people}, limits))
	// Output: ADA, GRACE <nil>
}

func TestFunctionsAndErrors(t *testing.T) {
	half := &jinja.Func{Name: "half", Call: func(args []any, kwargs *jinja.Dict) (any, error) {
		n, ok := args[0].(int)
		if !ok {
			return nil, errors.New("half takes an integer")
		}
		return float64(n) / 2, nil
	}}
	const same = "a prompt must be the same in each run"
	for source, want := range map[string]string{
		"{{ half(3) }}":                      "1.5 <nil>",
		"\n{{ half('x') }}":                  " line 2: half takes an integer",
		"{{ x.y }}":                          " line 1: 'x' is undefined",
		"{{ raise_exception('no') }}":        " line 1: no",
		"{{ lipsum(1) }}":                    " line 1: the function lipsum is not supported: " + same,
		"{{ 'a b' | random }}":               " line 1: the filter random is not supported: " + same,
		"{{ 'a' | urlize }}":                 " line 1: the filter urlize is not supported: it makes links of HTML",
		"{{ ['a'] | map('random') | list }}": " line 1: filter map: the filter random is not supported: " + same,
		`{{ '\N{BULLET}' }}`: " line 1: the escape \\N{...}, a character by its name, is not supported: " +
			"write the character itself",
	} {
		template, err := jinja.Parse(source)
		text := ""
		if err == nil {
			text, err = template.Render(map[string]any{"half": half}, limits)
		}
		if got := fmt.Sprint(text, " ", err); got != want {
			t.Errorf("%q: %q, want %q", source, got, want)
		}
	}
}

func TestTimeLimit(t *testing.T) {
	template, err := jinja.Parse("{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}")
	if err != nil {
		t.Fatal(err)
	}
	_, err = template.Render(nil, jinja.Limits{Output: 1, Memory: 1 << 50, Time: 50 * time.Millisecond})
	if !errors.Is(err, jinja.ErrLimit) {
		t.Errorf("error %v, want ErrLimit", err)
	}
}
