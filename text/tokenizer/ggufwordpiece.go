package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"

	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// continues begins a WordPiece token that continues a word.
const continues = "##"

// setWordPiece sets the stages of BERT's tokenizer. Files have a mark before tokens that begin a word, where BERT has
// one before tokens that continue it. Letters become lower case, and lose their accents, if the file says so or, in
// older files, if no token has a large letter.
func setWordPiece(p *parts, f gguf.Metadata, g ggufTokens) error {
	if p.specials.Unknown < 0 {
		return model.ErrNoUnknown
	}
	p.unk = g.tokens[p.specials.Unknown]
	kinds, vocab, large := g.kinds(), make(map[string]int32, len(g.tokens)), false
	for i, token := range g.tokens {
		if len(kinds) == 0 || kinds[i] == model.NormalPiece {
			word, begins := strings.CutPrefix(token, spaceMark)
			large = large || hasLarge(word)
			switch {
			case begins && word == "": // the mark itself, within a word
				token = continues + token
			case begins:
				token = word
			default:
				token = continues + token
			}
		}
		if _, twice := vocab[token]; twice {
			return fmt.Errorf("the GGUF file has the token %q twice", token)
		}
		vocab[token] = int32(i)
	}
	p.vocab = vocab
	lower := ggufFlag(f, "normalizer.lowercase", !large)
	text, err := json.Marshal(map[string]any{"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true,
		"strip_accents": nil, "lowercase": lower})
	if err != nil {
		return err
	}
	var errs [3]error
	p.normalize, errs[0] = pretoken.ParseNormalizer(text, 0)
	p.pre, _, errs[1] = pretoken.ParseSplitters(json.RawMessage(`{"type":"BertPreTokenizer"}`), 0)
	p.stages, errs[2] = parseDecoder(json.RawMessage(`{"type":"WordPiece","prefix":"##","cleanup":true}`))
	const longest = 100 // characters of a word
	p.model = func() (model.Model, error) { return model.NewWordPiece(p.vocab, p.unk, continues, longest) }
	return errors.Join(errs[:]...)
}

// hasLarge reports whether a token of a text has a letter that BERT's normalizer makes small. Older files do not tell
// that [CLS] is a special token, and ℝ has no small form.
func hasLarge(token string) bool {
	return !(strings.HasPrefix(token, "[") && strings.HasSuffix(token, "]")) &&
		strings.ContainsFunc(token, func(r rune) bool { return unicode.ToLower(r) != r })
}
