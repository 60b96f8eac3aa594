package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/quire/quire/chat/jinja"
)

// value returns JSON as a template sees it: what Python's json.loads makes of it.
func value(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := next(d)
	if err != nil {
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	return v, nil
}

func next(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		return number(t), nil
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
			return nil, err
		}
		if t == '{' { // whose keys come as items too
			return jinja.NewDict(items...), nil
		}
		return &jinja.List{Items: items}, nil
	}
	return token, nil
}

func number(n json.Number) any {
	if i, err := strconv.Atoi(string(n)); err == nil {
		return i
	}
	f, _ := strconv.ParseFloat(string(n), 64) // beyond its range an infinity, as in Python
	return f
}
