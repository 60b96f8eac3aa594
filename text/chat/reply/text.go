package reply

import (
	"bytes"
	"encoding/json"
	"strings"
)

// first returns the first of some marks in a text and its position. The mark is "" if there is none.
func first(text string, marks []string) (index int, mark string) {
	index = len(text)
	for _, m := range marks {
		if i := strings.Index(text[:min(len(text), index+len(m))], m); i >= 0 && i < index {
			index, mark = i, m
		}
	}
	return index, mark
}

// blank are the characters between words and lines.
const blank = " \t\r\n"

// joined joins the texts around calls. Between two is the blank space that they had there, or else a line's end.
func joined(texts []string) string {
	var b strings.Builder
	last := ""
	for _, text := range texts {
		inner := strings.Trim(text, blank)
		if inner == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteString(separator(last[len(strings.TrimRight(last, blank)):],
				text[:len(text)-len(strings.TrimLeft(text, blank))]))
		}
		b.WriteString(inner)
		last = text
	}
	return b.String()
}

// separator is the one of two blank spaces that separates more.
func separator(before, after string) string {
	lines := func(text string) int { return strings.Count(text, "\n") }
	switch {
	case before == "" && after == "":
		return "\n"
	case lines(after) > lines(before), before == "":
		return after
	}
	return before
}

// cutBefore cuts a text before the first mark.
func cutBefore(text, mark string) (before, rest string) {
	if index := strings.Index(text, mark); index >= 0 {
		return text[:index], text[index:]
	}
	return text, ""
}

// decodeObject returns the JSON object that a text begins with, as it is written.
func decodeObject(text string) (raw string, size int, ok bool) {
	if trimmed := strings.TrimLeft(text, blank); !strings.HasPrefix(trimmed, "{") {
		return "", 0, false
	}
	return decodeValue(text)
}

// decodeValue returns the JSON value that a text begins with, as it is written.
func decodeValue(text string) (raw string, size int, ok bool) {
	d := json.NewDecoder(strings.NewReader(text))
	var value json.RawMessage
	if d.Decode(&value) != nil {
		return "", 0, false
	}
	return string(value), int(d.InputOffset()), true
}

// quoted is text as JSON.
func quoted(text string) string {
	b, _ := marshal(text)
	return string(bytes.TrimSpace(b))
}

// marshal is json.Marshal without escapes that only HTML needs.
func marshal(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimRight(b.Bytes(), "\n"), err
}
