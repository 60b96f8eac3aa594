package jinja

import (
	"time"

	"github.com/quire/quire/text/chat/jinja/value"
)

// The values of variables, in addition to nil, bool, int, float64 and string.
type (
	List    = value.List
	Tuple   = value.Tuple
	Dict    = value.Dict
	Func    = value.Func
	Decimal = value.Decimal
)

// Limits bound one Render.
type Limits struct {
	Output int           // bytes of text
	Memory int           // bytes of all strings and lists that the template makes
	Time   time.Duration // wall time
}

func (l Limits) meter() *value.Meter { return value.NewMeter(l.Memory, l.Time) }

// ErrLimit is wrapped by the error of a template that exceeds its Limits.
var ErrLimit = value.ErrLimit

// NewDict makes a dict of alternating keys and values.
func NewDict(pairs ...any) *Dict { return value.NewDict(pairs...) }

// ToJSON returns a value as the filter tojson writes it.
func ToJSON(v any, limits Limits) (string, error) {
	return value.ToJSON(limits.meter(), v, plainJSON)
}

// Integer reads an integer of JSON as Python does.
func Integer(digits string) (any, error) { return value.Integer(digits) }

// Strip is Python's str.strip.
func Strip(s string) string { return value.Strip(s) }

// StripRight is Python's str.rstrip.
func StripRight(s string) string { return value.StripRight(s) }
