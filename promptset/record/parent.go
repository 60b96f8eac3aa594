package record

import (
	"math"

	"github.com/quire/quire/promptset/jsonvalue"
)

// Parent says which row another one goes on from: its prompt is that row's prompt, one of that row's completions, then
// its own prompt, if it has one.
type Parent struct {
	ID         string // of that row; empty for none
	Generation *int   // of the completion; nil for the row's first
	Length     *int   // tokens of the completion that are kept at most; nil for all
}

// ParentNumber sets parent_generation or parent_length.
func (r *Builder) ParentNumber(name string, v jsonvalue.Number) {
	w, ok := v.Whole()
	if !ok || w.Big || w.Int < 0 || w.Int > math.MaxInt32 {
		r.Fail("%s is %v; give a whole number from 0 to %d", name, v, math.MaxInt32)
		return
	}
	n := int(w.Int)
	if name == "parent_length" {
		r.Parent.Length = &n
	} else {
		r.Parent.Generation = &n
	}
}

// checkParent refuses what has a meaning only beside a parent.
func (r *Builder) checkParent() {
	if r.Parent.ID != "" {
		return
	}
	for name, n := range map[string]*int{"parent_generation": r.Parent.Generation, "parent_length": r.Parent.Length} {
		if n != nil {
			r.Fail("%s is %d and the row has no parent; give it one, or leave %s out", name, *n, name)
		}
	}
}
