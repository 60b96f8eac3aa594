package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/quire/quire/internal/pyjson"
	"github.com/quire/quire/text/chat/jinja"
)

// value returns JSON as a template sees it: as Python's json.loads returns it.
func value(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return next(d)
}

func next(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	switch t := token.(type) {
	case json.Number:
		return number(t)
	case json.Delim:
		var items []any
		for d.More() {
			item, err := next(d)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		if _, err := d.Token(); err != nil {
			return nil, fmt.Errorf("not JSON: %w", err)
		}
		if t == '{' { // its keys are items, too
			return jinja.NewDict(items...), nil
		}
		return &jinja.List{Items: items}, nil
	}
	return token, nil
}

func number(n json.Number) (any, error) {
	if digits, ok := strings.CutSuffix(string(n), pyjson.DecimalMark); ok {
		f, _ := strconv.ParseFloat(digits, 64)
		return jinja.Decimal{Float: f, Text: digits}, nil
	}
	if !strings.ContainsAny(string(n), ".eE") {
		i, err := jinja.Integer(string(n))
		if err != nil {
			return nil, fmt.Errorf("too large: %w", err)
		}
		return i, nil
	}
	f, _ := strconv.ParseFloat(string(n), 64) // beyond the range it is infinity, as in Python
	return f, nil
}
