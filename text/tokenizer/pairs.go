package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// pairFrame holds the special tokens put around a pair of texts. The zero value puts none.
type pairFrame struct {
	before, between, after []int32
	// kept is how many of the tokens between the texts are of the first kind. Those after them are of the second, and
	// so is the second text; oneKind: all are of the first.
	kept int
	// wrong is why pairs are not encoded; nil if they are.
	wrong error
}

// oneKind is a pairFrame's kept if all tokens are of one kind.
const oneKind = -1

// isNone reports whether the frame is the zero value.
func (f pairFrame) isNone() bool {
	return len(f.before)+len(f.between)+len(f.after) == 0 && f.kept == 0 && f.wrong == nil
}

// within returns the frame of two processors, one after the other.
func (f pairFrame) within(outer pairFrame) pairFrame {
	switch {
	case outer.isNone():
		return f
	case f.isNone():
		return outer
	}
	return pairFrame{wrong: errors.New("two parts of the tokenizer's post_processor put tokens around pairs")}
}

// framedTwice is the frame that puts the tokens of a text around each text of a pair.
func framedTwice(f frame) pairFrame {
	return pairFrame{before: f.before, between: slices.Concat(f.after, f.before), after: f.after, kept: len(f.after)}
}

// pairTemplate reads how a template puts tokens around pairs.
func (p *postJSON) pairTemplate() (f pairFrame) {
	wrong := func(format string, args ...any) pairFrame {
		return pairFrame{wrong: fmt.Errorf("the tokenizer's post_processor TemplateProcessing "+format+" in a pair",
			args...)}
	}
	type item struct {
		ID   string `json:"id"`
		Kind int    `json:"type_id"`
	}
	places, seen, second := []*[]int32{&f.before, &f.between, &f.after}, 0, false
	for _, entry := range p.Pair {
		one := item{}
		text, special := entry["Sequence"], entry["SpecialToken"]
		if json.Unmarshal(slices.Concat(text, special), &one) != nil {
			return wrong("has an item that is neither Sequence nor SpecialToken")
		}
		if second = second || one.Kind == 1; one.Kind > 1 || one.Kind < 0 || second && one.Kind == 0 {
			return wrong("has kinds of tokens other than 0 and then 1")
		}
		switch {
		case text != nil && one.ID == []string{"A", "B", ""}[min(seen, 2)]:
			if seen++; seen == 1 && second {
				return wrong("has a first text of the second kind")
			}
			if seen == 2 && !second {
				f.kept = oneKind
			}
		case text != nil:
			return wrong("has the texts in another order than A, B")
		default:
			tokens, ok := p.Specials[one.ID]
			if !ok {
				return wrong("has the special token %q without ids", one.ID)
			}
			if *places[seen] = append(*places[seen], tokens.IDs...); seen == 1 && !second {
				f.kept = len(f.between)
			}
		}
	}
	switch {
	case seen < 2:
		return wrong("leaves a text out")
	case f.kept == oneKind && second:
		return wrong("has a second kind of tokens that does not begin before the second text")
	}
	return f
}

// EncodePair returns the token ids of a pair of texts, with the special tokens that the tokenizer puts around pairs,
// and the number of the first token of the second kind; 0 if all are of one kind. If they are more than most, the
// longer text loses tokens at its end until both have the same length, and then both do, as transformers truncates
// pairs ("longest_first"); 0 keeps all.
func (t *Tokenizer) EncodePair(a, b string, most int) (tokens []int32, second int, truncated bool, err error) {
	f := t.frame.pair
	if f.wrong != nil {
		return nil, 0, false, f.wrong
	}
	first, err := t.Encode(a, false)
	if err != nil {
		return nil, 0, false, err
	}
	other, err := t.Encode(b, false)
	if err != nil {
		return nil, 0, false, err
	}
	added := len(f.before) + len(f.between) + len(f.after)
	if most > 0 && most < added {
		return nil, 0, false, fmt.Errorf("a pair has %d special tokens, and is truncated to %d tokens", added, most)
	}
	if most > 0 && added+len(first)+len(other) > most {
		n, m := longestFirst(len(first), len(other), most-added)
		first, other, truncated = first[:n], other[:m], true
	}
	if f.kept != oneKind {
		second = len(f.before) + len(first) + f.kept
	}
	return slices.Concat(f.before, first, f.between, other, f.after), second, truncated, nil
}

// longestFirst returns how many tokens of two texts with a and b tokens are kept of most in all.
func longestFirst(a, b, most int) (int, int) {
	swapped := a > b
	if swapped {
		a, b = b, a
	}
	if a > most {
		b = a
	} else {
		b = max(a, most-a)
	}
	if a+b > most {
		a = most / 2
		b = a + most%2
	}
	if swapped {
		a, b = b, a
	}
	return a, b
}
