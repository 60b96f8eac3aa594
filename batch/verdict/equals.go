package verdict

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/big"
	"regexp"
	"strings"

	"github.com/quire/quire/internal/visible"
)

// equals accepts a text that equals a column of the row: as text without spaces around it, or as a number.
type equals struct{ column string }

func (e equals) Verify(_ context.Context, c *Completion) (Verdict, error) {
	want, err := e.wanted(c)
	if err != nil || !c.found {
		return Verdict{}, err
	}
	return Verdict{sameAnswer(c.Part, want), c.Part}, nil
}

func (equals) Close() error { return nil }

// wanted returns the row's value of the column as text.
func (e equals) wanted(c *Completion) (string, error) {
	if c.Row.Source == nil || !c.Row.Source.Has(e.column) {
		return "", fmt.Errorf("the row has no column %s to compare with", visible.Quoted(e.column))
	}
	object := c.Row.Source.AppendJSON([]byte{'{'}, func(column string) (string, bool) {
		return column, column == e.column
	})
	var columns map[string]json.RawMessage
	if err := json.Unmarshal(append(object, '}'), &columns); err != nil {
		return "", fmt.Errorf("the row's column %s: %w", visible.Quoted(e.column), err)
	}
	raw := columns[e.column]
	var text string
	switch {
	case len(raw) == 0 || bytes.Equal(raw, []byte("null")):
		return "", fmt.Errorf("the row's column %s is null, and there is nothing to compare with",
			visible.Quoted(e.column))
	case json.Unmarshal(raw, &text) == nil:
		return strings.TrimSpace(text), nil
	}
	return string(raw), nil
}

// number is a decimal number, perhaps with commas between thousands. Exponents are left out: a short text could be a
// number that takes minutes to compare.
var number = regexp.MustCompile(`^[+-]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?$`)

// sameAnswer compares two answers as texts, or as numbers if both are.
func sameAnswer(a, b string) bool {
	if a == b {
		return true
	}
	if !number.MatchString(a) || !number.MatchString(b) {
		return false
	}
	x, _ := new(big.Rat).SetString(strings.ReplaceAll(a, ",", ""))
	y, _ := new(big.Rat).SetString(strings.ReplaceAll(b, ",", ""))
	return x != nil && y != nil && x.Cmp(y) == 0
}
