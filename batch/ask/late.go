package ask

import (
	"slices"

	"github.com/quire/quire/engine"
	"github.com/quire/quire/engine/admit"
)

// Late is how a text becomes the tokens of which each has a vector: a side of sentence.Late, by token ids.
type Late struct {
	Marker  int32 // follows the first token of a text; negative: none
	Most    int   // bounds the tokens of a text, the marker included; 0: the model's limit does
	Filled  int   // how many tokens a text has at least; more follow a shorter one
	Filler  int32
	Seen    bool // tokens attend to those that follow
	Skipped map[int32]bool
}

// longest is how many tokens a text may have that is not to be longer than most; 0: any number.
func (l *Late) longest(most int) int {
	if l == nil || l.Most == 0 {
		return most
	}
	if most == 0 {
		return l.Most
	}
	return min(most, l.Most)
}

// room is how many tokens of a text's own there are within so many.
func (l *Late) room(most int) int {
	if l != nil && l.Marker >= 0 {
		return most - 1
	}
	return most
}

// complete gives a request of a text the tokens that are not of the text.
func (l *Late) complete(r *engine.Request) {
	if l == nil {
		return
	}
	if l.Marker >= 0 && len(r.Tokens) > 0 {
		r.Tokens = slices.Concat(r.Tokens[:1], []int32{l.Marker}, r.Tokens[1:])
	}
	if n := l.Filled - len(r.Tokens); n > 0 {
		r.Tokens = slices.Concat(r.Tokens, slices.Repeat([]int32{l.Filler}, n))
		if !l.Seen {
			r.Sequences = []admit.Sequence{{Tokens: r.Tokens, Unseen: n}}
		}
	}
}
