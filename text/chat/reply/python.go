package reply

import (
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The marks around calls in Python's syntax.
const (
	pythonStart, pythonEnd = "<|python_start|>", "<|python_end|>"       // Llama 4
	callsStart, callsEnd   = "<function_calls>", "</function_calls>"    // OLMo 3
	lfmStart, lfmEnd       = "<|tool_call_start|>", "<|tool_call_end|>" // LFM2
	lfmTools, lfmNewTools  = "<|tool_list_start|>", `"List of tools: ["`
	// a phrase of templates whose models use the format
	pythonList = "[func_name1(params_name1=params_value1"
	mostNested = 10_000 // depth of nested values, as in encoding/json
)

// pythonic parses [f(a=1, b='x'), g()], used by Llama 3.2, Llama 4 and others: the whole text is a list of calls. The
// first call that does not follow the format is left as text, with everything after it.
func pythonic(text string) (calls []ToolCall, rest string) {
	list := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(text), pythonStart), pythonEnd)
	calls, left, after, ok := pythonCalls(python{text: list}, "")
	if !ok || len(calls) == 0 || strings.TrimLeft(after, blank) != "" {
		return nil, text
	}
	return calls, left
}

// olmo parses calls in Python's syntax, one per line between marks, used by OLMo 3.
func olmo(text string, _ Tools) (calls []ToolCall, left string, size int) {
	p := python{text: text[len(callsStart):]}
	var others []string
	for {
		p.skip()
		if rest, over := strings.CutPrefix(p.text, callsEnd); over {
			return calls, strings.Join(others, "\n"), len(text) - len(rest)
		}
		attempt := p
		if call, ok := attempt.call(); ok {
			calls, p.text = append(calls, call), attempt.text
			p.take(',')
			continue
		}
		index, mark := first(p.text, []string{"\n", callsEnd}) // other text is on a line of its own
		if mark == "" {
			return nil, "", 0
		}
		others, p.text = append(others, p.text[:index]), p.text[index:]
	}
}

// lfm parses a list of calls in Python's syntax, or calls in JSON, between marks, used by LFM2. In a list in Python's
// syntax, the first call that does not follow the format is left as text, with everything after it.
func lfm(text string, _ Tools) (calls []ToolCall, left string, size int) {
	tail := text[len(lfmStart):]
	rest := ""
	if call, n, ok := decodeCall(tail, "arguments"); ok {
		calls, rest = []ToolCall{call}, tail[n:]
	} else if list, others, n := decodeCalls(tail, "arguments"); len(list) > 0 {
		calls, left, rest = list, others, tail[n:]
	} else if calls, left, rest, ok = pythonCalls(python{text: tail, lines: true}, lfmEnd); !ok {
		return nil, "", 0
	}
	rest, ok := ended(rest, lfmEnd, lfmStart)
	if !ok {
		return nil, "", 0
	}
	return calls, left, len(text) - len(rest)
}

// pythonCalls parses a list of calls up to an end mark, or up to the end of the text if that is "". left is the first
// call that does not follow the format, and everything after it.
func pythonCalls(p python, end string) (calls []ToolCall, left, rest string, ok bool) {
	for more := p.take('['); more; more = p.take(',') {
		attempt := p
		call, isCall := attempt.call()
		if !isCall {
			index := len(p.text)
			if end != "" {
				index, _ = first(p.text, []string{end})
			}
			return calls, strings.TrimSuffix(strings.Trim(p.text[:index], blank), "]"), p.text[index:], true
		}
		calls, p.text = append(calls, call), attempt.text
	}
	ok = p.take(']')
	return calls, "", p.text, ok
}

// python reads Python's values and calls as JSON.
type python struct {
	text  string
	depth int
	lines bool // texts may contain newlines
}

// call parses a function call.
func (p *python) call() (call ToolCall, ok bool) {
	call.Name = p.name()
	if call.Name == "" || !p.take('(') {
		return call, false
	}
	call.Arguments, ok = p.members(')', func() (string, bool) {
		key := p.name()
		return key, key != "" && !strings.Contains(key, ".") && p.take('=')
	})
	return call, ok
}

func (p *python) skip() { p.text = strings.TrimLeft(p.text, " \t\r\n") }

func (p *python) atEnd() bool {
	p.skip()
	return p.text == ""
}

// take consumes a character if it comes next.
func (p *python) take(c byte) bool {
	p.skip()
	if p.text == "" || p.text[0] != c {
		return false
	}
	p.text = p.text[1:]
	return true
}

// name takes a name with dots between its parts. It is "" if there is none.
func (p *python) name() string {
	p.skip()
	n := 0
	for n < len(p.text) {
		switch c := p.text[n]; {
		case c == '_' || c|0x20 >= 'a' && c|0x20 <= 'z' || n > 0 && (c >= '0' && c <= '9' || c == '.'):
			n++
			continue
		}
		break
	}
	name := p.text[:n]
	p.text = p.text[n:]
	return name
}

// members reads the members of an object up to end. key reads their keys. If keys are names of arguments each occurs
// only once.
func (p *python) members(end byte, key func() (string, bool)) (object string, ok bool) {
	out, seen := []byte("{"), map[string]bool{}
	for !p.take(end) {
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		name, ok := key()
		if !ok || seen[name] && end == ')' {
			return "", false
		}
		seen[name] = true
		value, ok := p.value()
		if !ok {
			return "", false
		}
		out = append(append(append(out, quoted(name)...), ": "...), value...)
		if !p.take(',') {
			if !p.take(end) {
				return "", false
			}
			break
		}
	}
	return string(append(out, '}')), true
}

// value parses a value.
func (p *python) value() (value string, ok bool) {
	if p.depth++; p.depth > mostNested {
		return "", false
	}
	defer func() { p.depth-- }()
	if p.skip(); p.text == "" {
		return "", false
	}
	switch c := p.text[0]; c {
	case '\'', '"':
		text, ok := p.quoted()
		return quoted(text), ok
	case '[', '(':
		p.text = p.text[1:]
		return p.list(map[byte]byte{'[': ']', '(': ')'}[c])
	case '{':
		p.text = p.text[1:]
		return p.members('}', func() (string, bool) {
			if p.skip(); p.text == "" || p.text[0] != '"' && p.text[0] != '\'' {
				return "", false
			}
			key, ok := p.quoted()
			return key, ok && p.take(':')
		})
	}
	if name := p.name(); name != "" {
		value, ok = map[string]string{"True": "true", "true": "true", "False": "false", "false": "false",
			"None": "null", "null": "null"}[name]
		return value, ok
	}
	return p.number()
}

func (p *python) list(end byte) (list string, ok bool) {
	out := []byte("[")
	for !p.take(end) {
		if len(out) > 1 {
			out = append(out, ", "...)
		}
		value, ok := p.value()
		if !ok {
			return "", false
		}
		out = append(out, value...)
		if !p.take(',') {
			if !p.take(end) {
				return "", false
			}
			break
		}
	}
	return string(append(out, ']')), true
}

// number parses a decimal number.
func (p *python) number() (number string, ok bool) {
	n := 0
	for n < len(p.text) && strings.IndexByte("+-0123456789.eE", p.text[n]) >= 0 {
		n++
	}
	number = p.text[:n]
	p.text = p.text[n:]
	if json.Valid([]byte(number)) {
		_, err := strconv.ParseFloat(number, 64) // JSON has no infinite numbers
		return number, err == nil || !strings.ContainsAny(number, "eE")
	}
	x, err := strconv.ParseFloat(number, 64) // .5, 1., +1
	digits := strings.TrimLeft(number, "+-")
	if err != nil || len(digits) > 1 && digits[0] == '0' && digits[1] != '.' {
		return "", false
	}
	return strconv.FormatFloat(x, 'g', -1, 64), true
}

// escapes are the escapes of one character.
var escapes = map[byte]byte{'n': '\n', 't': '\t', 'r': '\r', 'a': '\a', 'b': '\b', 'f': '\f', 'v': '\v', '0': 0,
	'\\': '\\', '\'': '\'', '"': '"'}

// quoted parses text in quotes.
func (p *python) quoted() (text string, ok bool) {
	quote := p.text[0]
	var out []byte
	for i := 1; i < len(p.text); i++ {
		c := p.text[i]
		switch {
		case c == quote:
			p.text = p.text[i+1:]
			return string(out), utf8.Valid(out)
		case c == '\n' && !p.lines:
			return "", false
		case c != '\\' || i+1 == len(p.text):
			out = append(out, c)
			continue
		}
		i++
		c = p.text[i]
		if digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]; digits > 0 {
			if i+digits >= len(p.text) {
				return "", false
			}
			r, err := strconv.ParseUint(p.text[i+1:i+1+digits], 16, 32)
			if err != nil || r > utf8.MaxRune {
				return "", false
			}
			out = utf8.AppendRune(out, rune(r))
			i += digits
		} else if e, ok := escapes[c]; ok {
			out = append(out, e)
		} else {
			out = append(out, '\\', c) // Python keeps the backslash of an unknown escape
		}
	}
	return "", false
}
