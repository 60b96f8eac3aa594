package promptset

import "math"

// idName is the column that names a row.
const idName = "id"

// parentName is the column that names the row which a row goes on from.
const parentName = "parent"

// Parent says which row another one goes on from: its prompt is that row's prompt, one of that row's completions, then
// its own prompt, if it has one.
type Parent struct {
	ID         string // of that row; empty for none
	Generation *int   // of the completion; nil for the row's first
	Length     *int   // tokens of the completion that are kept at most; nil for all
}

// parentNumber sets parent_generation or parent_length.
func (r *Builder) parentNumber(name string, v numeric) {
	w, ok := v.whole()
	if !ok || w.big || w.i < 0 || w.i > math.MaxInt32 {
		r.fail("%s is %v; give a whole number from 0 to %d", name, v, math.MaxInt32)
		return
	}
	n := int(w.i)
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
			r.fail("%s is %d and the row has no parent; give it one, or leave %s out", name, *n, name)
		}
	}
}
