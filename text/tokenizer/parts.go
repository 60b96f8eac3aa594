package tokenizer

import (
	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// Specials names the tokens with a role. An id of -1 means there is none.
type Specials struct {
	BOS, EOS, Unknown, Pad int32
}

var noSpecials = Specials{-1, -1, -1, -1}

// parts is what a tokenizer is built from, independent of the kind of file.
type parts struct {
	vocab map[string]int32
	unk   string
	model func() (model.Model, error) // made once all parts are known

	added     []addedToken
	alike     []addedToken // tokens with the same text as another
	normalize pretoken.Normalizer
	pre       []pretoken.Splitter
	byteLevel bool
	frame     frame
	stages    newStages

	specials     Specials // -1 for each token that the tokenizer's own file does not name
	addBOSAndEOS bool     // the configuration, not the tokenizer's own file, defines the frame
	names        map[string]string
	templates    map[string]string
}
