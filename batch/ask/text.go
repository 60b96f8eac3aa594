package ask

import (
	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/data/promptset"
	"github.com/quire/quire/text/chat/reply"
	"github.com/quire/quire/text/tokenizer"
)

// Text is what turns text into the tokens of a model, and back.
type Text struct {
	Vocab int
	Ends  int     // how many special tokens end each text
	EOS   []int32 // tokens that end a completion
	// Encode turns text into token ids, with the tokens that begin a text if special is true.
	Encode func(text string, special bool) ([]int32, error)
	// EncodePair turns a pair of texts into at most so many token ids, 0 for any number: see tokenizer.EncodePair.
	EncodePair func(a, b string, most int) (tokens []int32, second int, truncated bool, err error)
	// Spell returns the text of a completion with these tokens, which has no special ones. It may be nil.
	Spell func(tokens []int32) string
	// Spans returns the tokens of a text and what each stands for, for a model that scores tokens; nil for others.
	Spans func(text string) ([]int32, []tokenizer.Span, error)
	Late  *Late // how texts become tokens of which each has a vector; nil for others
	// Decode returns the text of tokens, with special ones. Mark returns the text of a completion with the special
	// tokens among marks at their positions, and with the token that ended it. Both may be nil.
	Decode func(tokens []int32) string
	Mark   func(tokens []int32, text string, marks []string) string
	// Token returns the token that has a text as its name. It may be nil.
	Token func(name string) (int32, bool)
	// Template is the source of the chat template, "" without one. It may be one that cannot be parsed.
	Template string
	// Render writes messages as one text, by the parameters of a row, of which it uses [parameter.Text]. It is nil if
	// there is no usable template, and then NoTemplate reports why.
	Render     func(messages []promptset.Message, by *parameter.Set) (string, error)
	NoTemplate error
}

// promptEnd is how many tokens of a prompt are looked at for the opening of reasoning.
const promptEnd = 16

// Thinks reports whether a completion begins within reasoning: the prompt ends with its opening, or within a message
// that has it.
func (t *Text) Thinks(forms *reply.Forms, row *promptset.Row, prompt []int32, set *parameter.Set) bool {
	if n := len(row.Messages); set.ContinueFinalMessage && n > 0 {
		return forms.Within(row.Messages[n-1].Content)
	}
	return t.Decode != nil && forms.Opens(t.Decode(prompt[max(0, len(prompt)-promptEnd):]))
}
