package jinja

import (
	"errors"
	"strings"

	"github.com/quire/quire/text/chat/jinja/value"
)

var plainJSON = value.JSONStyle{Item: ", ", Key: ": "}

// filterToJSON is tojson as transformers defines it: Python's json.dumps without ensure_ascii. Nothing is escaped for
// HTML.
func filterToJSON(meter *value.Meter, v any, p *value.Params) (any, error) {
	style := plainJSON
	style.ASCII = p.Bool("ensure_ascii", false)
	indent, separators := p.Any("indent", nil), p.Any("separators", nil)
	style.Sorted = p.Bool("sort_keys", false)
	if err := p.Done(); err != nil {
		return nil, err
	}
	if indent != nil {
		style.Item, style.Lines = ",", true
		n, _, isInt, _ := value.Number(indent)
		s, isText := indent.(string)
		switch {
		case isInt:
			s = strings.Repeat(" ", min(max(0, n), 64))
		case !isText:
			return nil, errors.New("indent must be an integer or a string")
		}
		style.Indent = s
	}
	if separators != nil {
		items, err := value.Iterate(separators)
		if err != nil || len(items) != 2 {
			return nil, errors.New("separators must be two strings")
		}
		style.Item, style.Key = value.Str(meter, items[0]), value.Str(meter, items[1])
	}
	return value.ToJSON(meter, v, style)
}
