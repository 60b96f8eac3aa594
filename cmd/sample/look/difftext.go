package look

import (
	"strings"

	"github.com/rivo/uniseg"
	"github.com/sergi/go-diff/diffmatchpatch"
)

const (
	// mostDiffWords is how many words that are not the same at both ends are compared with each other: the time grows
	// with the square.
	mostDiffWords = 2000
	// aroundWords is how many words are shown before and after a change; spaces count.
	aroundWords = 16
	// mostChanged is how many words of a change are shown.
	mostChanged = 120
	// alikeShare is the share of words that texts must have in common for single words to be marked.
	alikeShare = 0.4
)

// diffOf shows in a text how b differs from a, by words: words of a only are in [- -], words of b only in {+ +}, as in
// git diff --word-diff. Long runs of common words are left out unless whole is set.
func diffOf(a, b string, whole bool) string {
	var ids words
	x, y := ids.split(a), ids.split(b)
	head := 0
	for head < min(len(x), len(y)) && x[head] == y[head] {
		head++
	}
	tail := 0
	for tail < min(len(x), len(y))-head && x[len(x)-1-tail] == y[len(y)-1-tail] {
		tail++
	}
	middleA, middleB := x[head:len(x)-tail], y[head:len(y)-tail]
	changes := []diffmatchpatch.Diff{{Type: diffmatchpatch.DiffDelete, Text: string(middleA)},
		{Type: diffmatchpatch.DiffInsert, Text: string(middleB)}}
	if max(len(middleA), len(middleB)) <= mostDiffWords {
		d := diffmatchpatch.New()
		d.DiffTimeout = 0 // the result is the same on every machine
		if found := d.DiffCleanupSemantic(d.DiffMainRunes(middleA, middleB, false)); alike(found) {
			changes = found
		}
	}
	changes = append([]diffmatchpatch.Diff{{Type: diffmatchpatch.DiffEqual, Text: string(x[:head])}}, changes...)
	changes = append(changes, diffmatchpatch.Diff{Type: diffmatchpatch.DiffEqual, Text: string(x[len(x)-tail:])})
	var out strings.Builder
	for i, c := range changes {
		switch text := []rune(c.Text); {
		case len(text) == 0:
		case c.Type == diffmatchpatch.DiffDelete:
			out.WriteString("[-" + ids.changed(text, whole) + "-]")
		case c.Type == diffmatchpatch.DiffInsert:
			out.WriteString("{+" + ids.changed(text, whole) + "+}")
		case whole:
			out.WriteString(ids.text(text))
		default:
			out.WriteString(ids.around(text, i == 0, i == len(changes)-1))
		}
	}
	return out.String()
}

// alike reports whether enough is the same for a reader to find his way through the changes.
func alike(changes []diffmatchpatch.Diff) bool {
	same, all := 0, 0
	for _, c := range changes {
		n := len([]rune(c.Text))
		if all += n; c.Type == diffmatchpatch.DiffEqual {
			same += 2 * n
			all += n
		}
	}
	return float64(same) >= alikeShare*float64(all)
}

// words numbers the words of texts by runes that are no surrogates, as the library compares runes.
type words struct {
	ids   map[string]rune
	texts []string
}

const (
	surrogates = 0xD800 // the first
	surrogate  = 0x800  // how many
)

// split returns the words of a text, with spaces and marks between them as words.
func (w *words) split(text string) (ids []rune) {
	if w.ids == nil {
		w.ids = map[string]rune{}
	}
	for state := -1; text != ""; {
		var word string
		word, text, state = uniseg.FirstWordInString(text, state)
		id, ok := w.ids[word]
		if !ok {
			if id = rune(len(w.texts)); id >= surrogates {
				id += surrogate
			}
			w.ids[word] = id
			w.texts = append(w.texts, word)
		}
		ids = append(ids, id)
	}
	return ids
}

func (w *words) text(ids []rune) string {
	var b strings.Builder
	for _, id := range ids {
		if id >= surrogates {
			id -= surrogate
		}
		b.WriteString(w.texts[id])
	}
	return b.String()
}

// changed is what is shown of words that one text has.
func (w *words) changed(ids []rune, whole bool) string {
	if whole || len(ids) <= mostChanged {
		return w.text(ids)
	}
	return w.text(ids[:mostChanged]) + "…"
}

// around is what is shown of words that are the same: those next to changes.
func (w *words) around(ids []rune, first, last bool) string {
	before, after := aroundWords, aroundWords // after the change before, and before the change after
	if first {
		before = 0
	}
	if last {
		after = 0
	}
	if len(ids) <= before+after+1 {
		return w.text(ids)
	}
	return w.text(ids[:before]) + "…" + w.text(ids[len(ids)-after:])
}
