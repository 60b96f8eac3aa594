// Package tokenizer turns text into the token ids that a model was trained on, and back.
//
// It reads a tokenizer.json (BPE, Unigram, WordPiece), SentencePiece's tokenizer.model (BPE, Unigram), tiktoken's files
// of ranks, and the metadata of GGUF files. It returns exactly the ids of Hugging Face tokenizers, SentencePiece and
// tiktoken. Opening a file with an unknown component fails with an error that names it. Files are untrusted input.
package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"sync"
	"unicode/utf8"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// Tokenizer encodes and decodes text. All its methods are safe for concurrent use.
type Tokenizer struct {
	words     *model.Words
	normalize pretoken.Normalizer
	pre       []pretoken.Splitter
	raw       *addedMatcher // tokens found in the text as given
	norm      *addedMatcher // tokens found in the normalized text
	frame     frame
	stages    newStages

	tokens    []string // by id; "" if has is false
	has       []bool
	ids       map[string]int32 // of added tokens
	vocab     map[string]int32
	special   map[int32]bool
	specials  Specials
	names     map[string]string
	templates map[string]string
	pieces    func() (*Pieces, error) // made when they are first wanted
}

func build(p *parts) (*Tokenizer, error) {
	m, err := p.model()
	if err != nil {
		return nil, err
	}
	t := &Tokenizer{
		words: model.NewWords(m, p.byteLevel), normalize: p.normalize, pre: p.pre, frame: p.frame, stages: p.stages,
		ids: make(map[string]int32, len(p.added)), vocab: p.vocab, special: make(map[int32]bool), specials: p.specials,
		names: map[string]string{}, templates: p.templates,
	}
	t.pieces = sync.OnceValues(t.makePieces)
	if err := t.index(p); err != nil {
		return nil, err
	}
	var raw, normalized []addedToken
	for _, a := range p.added {
		if a.Normalized {
			normalized = append(normalized, a)
		} else {
			raw = append(raw, a)
		}
	}
	maps.Copy(t.names, p.names)
	for name, id := range map[string]int32{"bos_token": p.specials.BOS, "eos_token": p.specials.EOS,
		"unk_token": p.specials.Unknown, "pad_token": p.specials.Pad} {
		if text := t.Token(id); t.names[name] == "" && text != "" {
			t.names[name] = text
		}
	}
	t.raw = newAddedMatcher(raw, func(s string) string { return s })
	t.norm = newAddedMatcher(normalized, t.normalized)
	pair := p.frame.pair
	for _, ids := range [][]int32{p.frame.before, p.frame.after, pair.before, pair.between, pair.after} {
		for _, id := range ids {
			if t.Token(id) == "" {
				return nil, fmt.Errorf("the token %d that is added around a text is not in the vocabulary", id)
			}
		}
	}
	return t, nil
}

// index fills the tables of tokens by id.
func (t *Tokenizer) index(p *parts) error {
	highest := int32(-1)
	for token, id := range p.vocab {
		if id < 0 {
			return fmt.Errorf("token %q has the negative id %d", token, id)
		}
		highest = max(highest, id)
	}
	for _, a := range p.added {
		if a.ID < 0 {
			return fmt.Errorf("added token %q has the negative id %d", a.Content, a.ID)
		}
		if !utf8.ValidString(a.Content) {
			return fmt.Errorf("added token %d, %q, is not valid UTF-8", a.ID, a.Content)
		}
		if id, ok := p.vocab[a.Content]; ok && id != a.ID {
			return fmt.Errorf("added token %q has id %d, but %d in the vocabulary", a.Content, a.ID, id)
		}
		highest = max(highest, a.ID)
	}
	count := len(p.vocab) + len(p.added)
	if count == 0 {
		return errors.New("the vocabulary is empty")
	}
	// A table by id must not let a few bytes of file ask for gigabytes.
	if limit := 4*count + 1<<16; int(highest) > limit {
		return fmt.Errorf("token id %d is far beyond the %d tokens of the vocabulary", highest, count)
	}
	t.tokens = make([]string, highest+1)
	t.has = make([]bool, highest+1)
	for token, id := range p.vocab {
		if t.has[id] && t.tokens[id] <= token {
			continue // two names for an id: the choice must not hang on map order
		}
		t.tokens[id], t.has[id] = token, true
	}
	for _, a := range p.alike {
		t.tokens[a.ID], t.has[a.ID] = a.Content, true
		if a.Special {
			t.special[a.ID] = true
		}
	}
	special := make(map[string]bool)
	for _, a := range p.added {
		t.tokens[a.ID], t.has[a.ID] = a.Content, true
		t.ids[a.Content] = a.ID
		special[a.Content] = special[a.Content] || a.Special
	}
	for _, a := range p.added {
		if a.Normalized { // it decodes to what it was looked for as, and is then not known as special
			t.tokens[a.ID] = t.normalized(a.Content)
		}
		if special[t.tokens[a.ID]] {
			t.special[a.ID] = true
		}
	}
	return nil
}

func (t *Tokenizer) normalized(s string) string {
	if t.normalize == nil {
		return s
	}
	return t.normalize(s)
}

// Encode returns the token ids of text. With addSpecial the tokens that the tokenizer puts around a text, such as a
// BOS, are added; a rendered chat template has them in its text already. Invalid UTF-8 is replaced first, each maximal
// invalid part by one U+FFFD; a caller that would refuse it has to check before. Characters that the vocabulary cannot
// express become its unknown token, or nothing if it has none, as in Hugging Face tokenizers.
//
// The one error is a split pattern that took more than ten seconds, which only patterns outside the usual families can
// do.
func (t *Tokenizer) Encode(text string, addSpecial bool) ([]int32, error) {
	text = validUTF8(text)
	ids := make([]int32, 0, len(text)/3+4)
	if addSpecial {
		ids = append(ids, t.frame.before...)
	}
	var whole, found [8]segment
	var pieces []pretoken.Piece
	for _, outer := range t.raw.split(whole[:0], text, true) {
		if outer.token >= 0 {
			ids = append(ids, outer.token)
			continue
		}
		for _, inner := range t.norm.split(found[:0], t.normalized(outer.text), outer.atStart) {
			if inner.token >= 0 {
				ids = append(ids, inner.token)
				continue
			}
			var err error
			if pieces, err = pretoken.Split(t.pre, pieces[:0], inner.text, inner.atStart); err != nil {
				return nil, err
			}
			for _, p := range pieces {
				ids = t.words.Append(ids, p.Text)
			}
		}
	}
	if addSpecial {
		ids = append(ids, t.frame.after...)
	}
	return ids, nil
}

// VocabSize returns the highest token id plus one.
func (t *Tokenizer) VocabSize() int { return len(t.tokens) }

// SpecialIDs returns the tokens with a role.
func (t *Tokenizer) SpecialIDs() Specials { return t.specials }

// IsSpecial reports whether Decode can leave id out as a special token.
func (t *Tokenizer) IsSpecial(id int32) bool { return t.special[id] }

// Token returns the vocabulary's spelling of id, "" when there is none. It is not text: byte-level and metaspace tokens
// are spelled in their own alphabet.
func (t *Tokenizer) Token(id int32) string {
	if id < 0 || int(id) >= len(t.tokens) {
		return ""
	}
	return t.tokens[id]
}

// ID returns the id of the token spelled so.
func (t *Tokenizer) ID(token string) (int32, bool) {
	if id, ok := t.ids[token]; ok {
		return id, true
	}
	id, ok := t.vocab[token]
	return id, ok
}

// ChatTemplate returns the Jinja chat template that came with the tokenizer, "" for none.
func (t *Tokenizer) ChatTemplate() string { return t.templates[chattemplates.Default] }

// ToolTemplate returns the chat template for conversations with tools: the same one, unless the tokenizer has another.
func (t *Tokenizer) ToolTemplate() string {
	return cmp.Or(t.templates[chattemplates.Tools], t.templates[chattemplates.Default])
}

// SpecialTexts returns the texts of special tokens by the names that chat templates have for them: "bos_token",
// "pad_token", and names of the model's own.
func (t *Tokenizer) SpecialTexts() map[string]string { return t.names }
