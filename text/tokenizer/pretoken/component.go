// Package pretoken prepares text for a model: normalizers rewrite it, and pre-tokenizers split it into the pieces that
// the model encodes on their own. They are the components of a tokenizer.json.
package pretoken

import (
	"encoding/json"
	"errors"
)

// Normalizer rewrites a text. A nil normalizer leaves it as it is.
type Normalizer func(string) string

// PatternJSON is a pattern of tokenizer.json: {"String": s} or {"Regex": s}.
type PatternJSON struct {
	String *string `json:"String"`
	Regex  *string `json:"Regex"`
}

// or returns the value of a flag, or otherwise if it is nil.
func or(flag *bool, otherwise bool) bool {
	if flag == nil {
		return otherwise
	}
	return *flag
}

func IsNull(raw json.RawMessage) bool { return len(raw) == 0 || string(raw) == "null" }

const MaxNesting = 16

var ErrNesting = errors.New("components are nested too deeply")

// Piece is a part of the text that the model encodes on its own. atStart reports whether the input begins with it.
type Piece struct {
	Text    string
	atStart bool
}

// Splitter splits a piece into smaller ones and appends them to out.
type Splitter func(out []Piece, p Piece) ([]Piece, error)
