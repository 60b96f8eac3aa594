package ask

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"
)

// Embedding is how texts become the tokens of an encoder.
type Embedding struct {
	Prompt    string // text before each text
	Trim      bool   // without the spaces around a text
	Lowercase bool
	// Check returns why vectors can't have a number of dimensions that a line of a batch file asks for.
	Check func(dimensions int) error
}

// text returns what is tokenized of a text, as in sentence-transformers.
func (e *Embedding) text(text string) string {
	if text = e.Prompt + text; e.Trim {
		text = strings.TrimSpace(text)
	}
	if e.Lowercase {
		text = cases.Lower(language.Und).String(text)
	}
	return text
}

// Beginning returns the first tokens of a prompt, or what belongs to them, at most so many, with the last ones, which
// end each text.
func Beginning[T any](tokens []T, most, ends int) []T {
	end := 0
	if ends < most {
		end = ends
	}
	return slices.Concat(tokens[:most-end], tokens[len(tokens)-end:])
}
