package main

import "strings"

// hostileTemplates are those of TestLimits in chat/chat_test.go.
func hostileTemplates() []string {
	return []string{
		"{% for a in range(100000) %}{% for b in range(100000) %}{% for c in range(100000) %}{% endfor %}{% endfor " +
			"%}{% endfor %}",
		"{% for a in range(100000) %}{% for b in range(100000) %}{% set x = 1 %}{% endfor %}{% endfor %}",
		"{% for a in range(100000) %}{{ 'a' * 100 }}{% endfor %}",
		"{% for a in range(100000) if range(100000) | select('odd') | list %}{% endfor %}",
		"{{ 'a' * 10 ** 12 }}",
		"{{ ('a' * 10 ** 6) * 10 ** 6 }}",
		"{{ [0] * 10 ** 12 }}",
		"{{ 'a' * 9223372036854775807 }}",
		"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s.replace('a', ns.s) %}{% " +
			"endfor %}",
		"{% set ns = namespace(s='aaaaaaaa') %}{% for i in range(60) %}{% set ns.s = ns.s.join(ns.s | list) %}{% " +
			"endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(60) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s | " +
			"tojson | length }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(40) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{% set ns.t " +
			"= [1] %}{% for i in range(40) %}{% set ns.t = [ns.t, ns.t] %}{% endfor %}{{ ns.s == ns.t }}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
		"{{ 'x' | center(10 ** 12) }}",
		"{{ 'x'.ljust(10 ** 12) }}",
		"{{ 'x' | indent(10 ** 12, true) }}",
		"{{ '%999999999d' % 1 }}",
		"{{ 10 ** 100000000 }}",
		"{{ range(10 ** 12) }}",
		"{% for x in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{{ " + strings.Repeat("(", 100000) + "1" + strings.Repeat(")", 100000) + " }}",
		"{{ " + strings.Repeat("not ", 100000) + "1 }}",
		"{{ " + strings.Repeat("-", 100000) + "1 }}",
		strings.Repeat("{% if 1 %}", 100000),
	}
}
