package ask

import (
	"slices"
	"strings"

	"golang.org/x/text/cases"
	"golang.org/x/text/language"

	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/engine"
)

// Embedding is how texts become the tokens of an encoder.
type Embedding struct {
	Prompt    string // text before each text
	Trim      bool   // without the spaces around a text
	Lowercase bool
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

// embed returns the request of a row with one prompt for its vector.
func (b *Builder) embed(row *promptset.Row) (*engine.Request, error) {
	set := b.Parameters(row)
	if err := set.Check(row.ParameterName); err != nil {
		return nil, err
	}
	tokens, err := b.EncodeRow(row)
	if err != nil {
		return nil, err
	}
	most := set.TruncatePromptTokens
	if most < 0 {
		most = b.MaxModelLen()
	}
	whole := len(tokens)
	if most > 0 && whole > most {
		tokens = b.beginning(row, tokens, most)
	}
	return &engine.Request{ID: row.ID, Tokens: tokens, N: 1, Truncated: len(tokens) < whole}, nil
}

// beginning returns the first tokens of a prompt, and the tokens that end each text after them.
func (b *Builder) beginning(row *promptset.Row, tokens []int32, most int) []int32 {
	end := 0
	if row.Kind == promptset.KindText && b.Text.Ends < most {
		end = b.Text.Ends
	}
	return slices.Concat(tokens[:most-end], tokens[len(tokens)-end:])
}
