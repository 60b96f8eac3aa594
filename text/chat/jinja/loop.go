package jinja

import (
	"errors"
	"fmt"

	"github.com/quire/quire/text/chat/jinja/value"
)

// loop is the variable "loop" in a for loop.
type loop struct {
	items   []any
	index   int
	depth   int // 0 for the outermost
	changed any
	meter   *value.Meter
	recurse func(items any, depth int) (any, error) // nil unless recursive
}

func (l *loop) TypeName() string { return "LoopContext" }

func (l *loop) Repr() string { return fmt.Sprintf("<LoopContext %d/%d>", l.index+1, len(l.items)) }

// Attr returns an attribute of the loop variable.
func (l *loop) Attr(name string) (any, bool) {
	n := len(l.items)
	switch name {
	case "index":
		return l.index + 1, true
	case "index0":
		return l.index, true
	case "revindex":
		return n - l.index, true
	case "revindex0":
		return n - l.index - 1, true
	case "first":
		return l.index == 0, true
	case "last":
		return l.index == n-1, true
	case "length":
		return n, true
	case "depth":
		return l.depth + 1, true
	case "depth0":
		return l.depth, true
	case "previtem":
		if l.index == 0 {
			return value.Undefined{Why: "there is no previous item"}, true
		}
		return l.items[l.index-1], true
	case "nextitem":
		if l.index == n-1 {
			return value.Undefined{Why: "there is no next item"}, true
		}
		return l.items[l.index+1], true
	case "cycle":
		return &value.Func{Name: "cycle", Call: func(args []any, _ *value.Dict) (any, error) {
			if len(args) == 0 {
				return nil, errors.New("no items for cycling given")
			}
			return args[l.index%len(args)], nil
		}}, true
	case "changed":
		return &value.Func{Name: "changed", Call: func(args []any, _ *value.Dict) (any, error) {
			now := value.Tuple(args)
			same := value.Equal(l.meter, l.changed, now)
			l.changed = now
			return !same, nil
		}}, true
	}
	return nil, false
}
