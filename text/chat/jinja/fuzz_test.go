package jinja_test

import (
	"errors"
	"testing"
	"time"

	"github.com/quire/quire/text/chat/jinja"
)

// FuzzParse lexes, parses and runs any text: an error of the language or a result within the limits, soon, never a
// panic.
func FuzzParse(f *testing.F) {
	for _, source := range []string{
		"", "{", "{{", "{%", "{#", "{{ a }}", "{# c #}{%- if x -%}a{%+ elif y %}b{% else %}c{% endif -%}",
		"{% for k, v in d.items() if k recursive %}{{ loop.index0 }}{% else %}none{% endfor %}",
		"{% set ns = namespace(a=1) %}{% set ns.a = ns.a + 1 %}{{ ns.a }}",
		"{% macro m(a, b='c') %}{{ a ~ b }}{% endmacro %}{{ m('x', b=1) }}",
		"{% raw %}{{ x }}{% endraw %}", "{{ 'a\\u00e9\\n\"' ~ 1e400 ~ 0x1f ~ 1_000 }}",
		"{{ [1, (2, 3), {'a': 4}][0:-1:2] | map('string') | join(', ') }}",
		"{{ x is defined and not y is none or z if 1 < 2 <= 3 else 4 ** -5 // 6 % 7 }}",
		"{% call(a) m() %}{{ a }}{% endcall %}",
		"{% filter upper %}a{% endfilter %}", "{{ '%5.2f|%s' % (1.5, 'a') }}", "{{ d['a'].b(c=1, *e, **f) }}",
		"{% generation %}a{% endgeneration %}",
		"{{ 2 ** 70 % 10 ** 19 // 3 - 0xffffffffffffffffff }}{{ '{:>+0#30_x}|{0!r:^5}'.format(2 ** 80) }}",
		"{{ [{'a': 1}, {'a': 'b'}] | groupby('a') }}{{ range(9) | slice(2) }}{{ 'a-b c--d' | wordwrap(3) | pprint }}",
		"{{ 'Straße ﬁ' | title }}{{ 'ΑΣ'.swapcase() }}{{ d | urlencode }}{{ '<a>&amp;' | striptags }}",
		"{{ '%#x' % 10 ** 20 }}{{ 1234567 | round(-3) }}",
	} {
		f.Add(source)
	}
	small := jinja.Limits{Output: 1 << 16, Memory: 1 << 20, Time: 200 * time.Millisecond}
	f.Fuzz(func(t *testing.T, source string) {
		template, err := jinja.Parse(source)
		if err != nil {
			var syntax *jinja.SyntaxError
			if !errors.As(err, &syntax) || syntax.Line < 1 {
				t.Fatalf("%v is no syntax error of a line", err)
			}
			return
		}
		vars := func() map[string]any {
			return map[string]any{"x": 1, "d": jinja.NewDict("a", "b"),
				"l": &jinja.List{Items: []any{"a", 2, 0.5, nil, true}}}
		}
		start := time.Now()
		text, err := template.Render(vars(), small)
		if took := time.Since(start); took > 30*time.Second {
			t.Fatalf("it took %s", took)
		}
		if len(text) > small.Output {
			t.Fatalf("%d bytes of text", len(text))
		}
		if again, err2 := template.Render(vars(), small); err == nil && err2 == nil && again != text {
			t.Fatalf("%q, then %q", text, again)
		}
	})
}
