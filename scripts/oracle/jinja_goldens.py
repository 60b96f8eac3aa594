"""Renders single expressions with Python's jinja2, as transformers sets it up: jinja_goldens.py.

Writes text/chat/jinja/testdata/expressions.txt: a JSON list in each line, of the template and its text, or of the
template, null and the kind of Python's error. The variables are those of VARS; text/chat/jinja's test has them too.
"""
import json
import pathlib

import transformers.utils.chat_template_utils as ctu

OUT = pathlib.Path(__file__).resolve().parents[2] / "text" / "chat" / "jinja" / "testdata" / "expressions.txt"

VARS = {
    "big": 18446744073709551615, "neg": -12345678901234567890123, "f": 1e15, "z": -0.0, "n": 7, "x": 2.675,
    "s": "Straße ﬁ ŉ İ ΑΣ ǆ", "words": "the quick brown-fox jumps (over) [the] lazy dog's back",
    "rows": [{"a": "x", "b": 2}, {"a": "Y", "b": 1}, {"a": "X", "b": 3}, {"a": "y", "b": 1}],
    "d": {"z": 1, "a": [1, 2.5, None, True], "m": {"k": "v"}}, "none": None,
}

BIG = ["big", "neg", "n", "-3", "100000000000000000000", "9223372036854775807", "-9223372036854775808", "2 ** 64",
       "true", "2.5", "1e20", "1e300", "-0.0", "0", "1", "-1"]
OPERATORS = ["+", "-", "*", "//", "%", "/", "==", "<", ">=", "!=", "~"]

SNIPPETS = [f"{{{{ ({a}) {op} ({b}) }}}}" for a in BIG for b in BIG for op in OPERATORS]
SNIPPETS += [f"{{{{ ({a}) | {f} }}}}" for a in BIG + ["x", "2.5", "3.5", "1234567.891", "'12'", "none", "'x'"] for
    f in [
    "abs", "int", "float", "round", "round(2)", "round(-2)", "round(1, 'ceil')", "round(1, 'floor')", "string",
    "tojson",
    "tojson(indent=2)", "filesizeformat", "filesizeformat(true)"]]
SNIPPETS += [f"{{{{ ({a}) ** ({b}) }}}}" for a in ["2", "-2", "0", "1", "-1", "10", "1.1", "2.5", "-2.0", "big",
    "0.0"]
             for b in ["0", "1", "2", "3", "10", "-1", "-2", "-5", "63", "64", "0.5", "100", "big"]
             if not (b == "big" and a not in ["0", "1", "-1"])]
SNIPPETS += [f"{{{{ '%{c}' % ({v}) }}}}" for c in [
    "d", "i", "x", "X", "o", "#x", "#o", "08d", "+d", "-8d|", " d", ".5d", "e", "E", "f", ".0f", "g", "G", "#g",
    ".3g", "10.2f",
    "s", "r", "a", "c", "#08x", "5s", ".2s"] for v in BIG[:9] + ["2.5", "'abé'", "65", "1e10", "123456789.0",
    "1e-7"]]
SNIPPETS += [f"{{{{ '{{:{c}}}'.format({v}) }}}}" for c in [
    "", ">5", "<5", "^5", "*^9", "05", "d", "x", "#x", "#b", "o", ",", "_", "_x", "010,", "+", " ", ".2f", ".0f",
    "e", "g", ".3g",
    ".3", "%", ".1%", "n", "c", "s", ">30,", "020.3f", ",.2f", "=+10", "z.0f", ".0", "#.0f", "G", "_b", "a", "x^9"]
    for v in
    BIG[:9] + ["2.5", "-0.0", "1e16", "123.0", "1234567.891", "'ab'", "65", "-0.04", "1e-7"]]
SNIPPETS += [f"{{{{ {v}.{m} }}}}" for v in [
    "s", "'ΑΣ ΑΣΑ Σ.'", "'ǅa b-c'", "'日本a ｂ'", "'İI'", "'ß'", "''", "'ª'", "'Ⅷⅷ'", "'12'", "'²'", "'½'", "'一'",
    "'a1'", "'Ab Cd'",
    "'They\\'re Bill\\'s'", "'a\\tb\\n\\tc'", "'-42'", "'x y'"] for m in [
    "upper()", "lower()", "title()", "capitalize()", "swapcase()", "casefold()", "isupper()", "islower()",
    "istitle()",
    "isdigit()", "isdecimal()", "isnumeric()", "isalpha()", "isalnum()", "isspace()", "isascii()", "isidentifier()",
    "isprintable()", "zfill(5)", "expandtabs()", "expandtabs(4)"]]
SNIPPETS += [f"{{{{ {v} | {m} }}}}" for v in [
    "s", "'ΑΣ ΑΣΑ Σ.'", "'ǅa b-c <d{{e'", "words", "'İI'", "'ß'", "''", "'a\\x1cb'", "none", "12"] for m in [
    "upper", "lower", "title", "capitalize", "urlencode", "striptags", "wordcount", "pprint", "forceescape"]]
SNIPPETS += [
    # numbers that are keys, items and conditions
    "{{ {18446744073709551616: 'a', 1: 'b'}[2 ** 64] }}{{ {1e20: 'x'}[100000000000000000000] }}"
    "{{ {2 ** 53 + 1: 1} == {9007199254740992.0: 1} }}",
    "{{ [2 ** 70, 5, 1e19, 2 ** 64] | sort }}{{ [2 ** 70, 5] | max }}{{ [2 ** 64, 2 ** 64] | unique | list }}"
    "{{ 2 ** 64 in [2 ** 64] }}",
    "{{ [2 ** 63, 1, 2.0] | sum }}{{ [9223372036854775807, 1] | sum }}{{ rows | sum('b', 2 ** 64) }}",
    "{{ 2 ** 64 is integer }}{{ 2 ** 64 is number }}{{ 2 ** 64 is float }}{{ 2 ** 64 is even }}"
    "{{ 2 ** 64 is divisibleby 2 ** 60 }}",
    "{{ 9007199254740993 == 9007199254740992.0 }}{{ 9007199254740993 > 9007199254740992.0 }}"
    "{{ 2 ** 64 == 18446744073709551616.0 }}",
    "{{ -(2 ** 63) }}{{ +(2 ** 64) }}{{ -big }}{{ - -9223372036854775808 }}{{ not big }}{{ 'y' if big }}",
    "{{ [1, 2, 3][big] }}|{{ [1, 2, 3][:big] }}|{{ 'abc'[big:] }}{{ 'abc'[neg:] }}",
    "{{ 'ab' * 0 }}{{ range(big, big + 2) | list }}{{ range(5, 1, -2) }}{{ range(3) }}{{ range(big, big + 3)[1] }}",
    "{{ range(0) }}{{ range(3) == range(0, 3) }}{{ range(3) is sequence }}{{ range(3)[1] }}{{ 2 in range(3) }}"
    "{{ range(3) | tojson }}",
    "{{ range(3).index(1) }}{{ range(3).count(9) }}{{ range(3) | sum }}{{ range(3) | join }}{{ range(3) | last }}"
    "{{ range(3) | length }}",
    "{{ range(3) + [1] }}", "{{ range(1, 10)[2:5] | list }}{% for i in range(3) %}{{ loop.revindex }}{{ i }}"
    "{% endfor %}",
    "{{ d.keys() }}{{ d.values() }}{{ d.items() }}", "{{ d.keys() | list | tojson }}"
    "{{ d.keys() == {'a': 1, 'm': 2, 'z': 3}.keys() }}",
    "{{ d.keys() | tojson }}", "{{ d.keys()[0] }}|", "{{ d.keys() | first }}{{ d.items() | last }}"
    "{{ d.values() | length }}{{ 'z' in d.keys() }}",
    "{{ d.keys() is sequence }}{{ d.keys() is iterable }}{{ d.items() | list }}{{ d.keys() | sort }}"
    "{{ d.keys() | join(',') }}",
    "{% set a = namespace(x=1, y='b') %}{{ a }}{{ a | string }}{% set a.x = [1] %}{{ a }}",
    "{{ 0xffffffffffffffffff }}{{ 0b101 }}{{ 0o17 }}{{ 1_000_000 }}{{ 100000000000000000000000 }}{{ 1e5 }}"
    "{{ 1_0.5 }}",
    "{{ '18446744073709551616' | int }}{{ 'ffffffffffffffffffff' | int(base=16) }}{{ '0x1F' | int(base=0) }}"
    "{{ '1_000' | int }}{{ ' +7 ' | int }}"
    "{{ '٣٤' | int }}{{ '1e20' | int }}{{ 'inf' | int(5) }}{{ '12abc' | int(3) }}{{ '1__0' | int }}"
    "{{ '_1' | int }}{{ '0b11' | int(base=2) }}"
    "{{ 'z' | int(base=36) }}{{ '5' | int(base=40) }}{{ '010' | int }}{{ '010' | int(7, 0) }}{{ '' | int }}"
    "{{ '-' | int }}",
    "{{ '1_0.5' | float }}{{ 'nan' | float }}{{ '-inf' | float }}{{ '0x10' | float }}{{ '١.٥' | float }}"
    "{{ '1e400' | float }}{{ '.5' | float }}{{ '5.' | float }}",
    "{{ 1e400 | int }}", "{{ ('nan' | float) | int(3) }}", "{{ ('nan' | float) <= 1 }}"
    "{{ ('nan' | float) == ('nan' | float) }}",
    "{{ (10 ** 400) | float }}", "{{ 10 ** 400 + 1.0 }}", "{{ 10 ** 400 // 10 ** 398 }}"
    "{{ 10 ** 400 / 10 ** 398 }}", "{{ 10 ** 400 / 2 }}",
    "{{ 10 ** 5000 }}", "{{ (10 ** 5000) | tojson }}", "{{ (10 ** 5000) % 1000007 }}",
    "{{ (10 ** 4299) | string | length }}",
    "{{ 1 // 0.1 }}{{ 7.5 // -2 }}{{ -7.5 % 2 }}{{ 7.5 % -2 }}{{ 0.0 % -2 }}{{ -0.0 // 3 }}{{ 1e300 * 1e10 }}"
    "{{ 5 % 0.3 }}",
    "{{ 1e300 ** 2 }}", "{{ (-8) ** 0.5 }}", "{{ 3 // 0 }}", "{{ big % 0 }}", "{{ 2.5 // 0 }}", "{{ 3.0 ** -2 }}"
    "{{ 10 ** -3 }}{{ 2 ** -1074 }}{{ 1.5 ** 7 }}",
    "{{ [[1, 2.0], (3,), {'a': 18446744073709551616}] }}"
    "{{ [18446744073709551616, 1.0, -0.0, 1e16, 1e15, 1e22, 1e-5, 0.0001] | tojson }}",
    "{{ '{0} {1} {0}'.format(1, 'b') }}"
    "{{ '{a.x} {b[k]} {c[1]}'.format(a=namespace(x=3), b={'k': 'v'}, c=[1, 2]) }}{{ '{{}}'.format() }}",
    "{{ '{!r} {!s} {!a}'.format('é', 'é', 'é') }}{{ '{:{}}|'.format('a', 5) }}"
    "{{ '{:{w}.{p}f}'.format(3.14159, w=8, p=2) }}",
    "{{ '{} {0}'.format(1) }}", "{{ '{0} {}'.format(1) }}", "{{ '{'.format() }}", "{{ '}'.format() }}",
    "{{ '{:>5}'.format(none) }}", "{{ '{}'.format(none) }}",
    "{{ '{:>5}'.format([1]) }}", "{{ '{:d}'.format('a') }}", "{{ '{:s}'.format(1) }}", "{{ '{:d}'.format(1.0) }}",
    "{{ '{:.2d}'.format(1) }}",
    "{{ '{:>5}'.format(true) }}{{ '{}'.format(true) }}{{ '{a}'.format_map({'a': 1}) }}"
    "{{ '{0[a]}'.format({'a': 5}) }}",
    "{{ '{0.__class__}'.format('a') }}", "{{ '{:5}|{:<5}|{:5}'.format('a', 1, 2.5) }}"
    "{{ '{:x>5}{:é<4}'.format(1, 2) }}",
    # filters
    "{% for g in rows | groupby('a') %}{{ g.grouper }}:{{ g.list | length }}"
    "{{ g }};{% endfor %}{% for k, v in rows | groupby('b') %}{{ k }}{{ v }}{% endfor %}",
    "{% for k, v in rows | groupby('a', case_sensitive=true) %}{{ k }}{{ v | map(attribute='b') | list }}"
    "{% endfor %}{{ rows | groupby('c', default=0) | first | first }}",
    "{{ (rows | groupby('b'))[0] | tojson }}{{ (rows | groupby('b'))[0][0] }}"
    "{{ rows | groupby('b') | map('first') | list }}",
    "{{ [] | groupby('a') }}", "{{ rows | groupby('c') }}",
    "{{ range(10) | slice(3) | list }}{{ range(10) | slice(3, 'x') | list }}{{ [] | slice(2) | list }}"
    "{{ 'abcd' | slice(3) | list }}",
    "{{ range(7) | batch(3) | list }}{{ range(7) | batch(3, '-') | list }}",
    "{{ 'a b/c?d=é&~' | urlencode }}{{ {'a b': 'c/d', 'é': 1} | urlencode }}"
    "{{ [('k', 'v v'), ('q', 2)] | urlencode }}{{ 12 | urlencode }}",
    "{{ '<p>a  <b>b</b> <!-- x <i> --> &amp; &lt;c&gt; &eacute;&#39;</p>\\n d < e' | striptags }}"
    "{{ 'a <!-- b' | striptags }}{{ 'x > y' | striptags }}",
    "{{ rows | sort(attribute='a,b') | map(attribute='b') | list }}"
    "{{ rows | sort(attribute='b,a') | map(attribute='a') | list }}",
    "{{ rows | sort(attribute='b', reverse=true) | map(attribute='a') | list }}"
    "{{ [[2, 'b'], [1, 'a']] | sort(attribute=0) }}{{ [[2, 'b'], [2, 'a']] | sort(attribute='0,1') }}",
    "{{ d | pprint }}", "{{ {'b': 'x' * 50, 'a': ['y' * 30, 'z' * 30, 2 ** 70], 'c': ('q' * 70,)} | pprint }}",
    "{{ (words * 4) | pprint }}", "{{ ['a\\nb' * 20, {'k' * 30: words * 3}] | pprint }}",
    "{{ [[1] * 40, (1, 2) * 30] | pprint }}", "{{ {'k': words * 3} | pprint }}",
    "{{ words | wordwrap(20) }}", "{{ words | wordwrap(5) }}", "{{ words | wordwrap(5, false) }}",
    "{{ words | wordwrap(20, wrapstring='|') }}",
    "{{ ('aaa bbb\\n\\nccc   ddd\\n  eee ' ~ 'x' * 30) | wordwrap(10) }}",
    "{{ 'well-known e-mail a--b --c d-- x-1 1-x ab-cd-ef-gh' | wordwrap(6) }}",
    "{{ 'well-known e-mail a--b ab-cd-ef-gh' | wordwrap(6, break_on_hyphens=false) }}",
    "{{ 'élan-vital日本-語 naïve-café' | wordwrap(8) }}", "{{ '' | wordwrap }}|",
    "{{ 'a ' * 60 | int }}{{ ('a ' * 60) | wordwrap }}", "{{ 'aaaaaaaaaa-bbbbbbbbbbbb' | wordwrap(8) }}",
    "{{ 'x' | wordwrap(0) }}",
    "{{ {'class': 'a\"b', 'id': none, 'n': 2} | xmlattr }}{{ {'a': 1} | xmlattr(false) }}{{ {} | xmlattr }}|",
    "{{ {'a b': 1} | xmlattr }}",
    "{{ 'a' | upper is upper }}{{ 'ß' is lower }}{{ '' is lower }}{{ 'Ab' is upper }}{{ 'ǅ' is upper }}"
    "{{ 1 is lower }}",
    "{{ ['ß', 'SS', 'a'] | sort }}{{ ['İ', 'i̇'] | unique | list }}{{ ['B', 'a'] | min }}",
    "{{ 12 | center(6) }}|{{ 'abc' | truncate(2, true, '') }}{{ none | default('x') }}"
    "{{ none | default('x', true) }}{{ 'a,b' | replace(',', '') }}",
]


def main():
    lines = []
    for source in dict.fromkeys(SNIPPETS):
        try:
            line = [source, ctu._compile_jinja_template(source).render(**VARS)]
        except Exception as e:
            line = [source, None, type(e).__name__]
        if "complex" in str(line[1:]) or line[1] is not None and "j)" in line[1]:
            continue
        lines.append(json.dumps(line, ensure_ascii=False))
    OUT.write_text("\n".join(lines) + "\n")


main()
