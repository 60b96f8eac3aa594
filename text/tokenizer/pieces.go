package tokenizer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/quire/quire/text/tokenizer/model"
)

// PieceForm is how the bytes of pieces become text.
type PieceForm int

// The forms.
const (
	PlainPieces     PieceForm = iota // the bytes are the text
	ByteLevelPieces                  // the bytes are UTF-8; each maximal invalid part becomes U+FFFD
	// FallbackPieces are PlainPieces, except for byte tokens, which are written as PieceEscape and the byte: a run of
	// byte tokens is text if it is UTF-8 as a whole, and otherwise one U+FFFD per token. PieceRunEnd stands for a token
	// without bytes, which ends a run.
	FallbackPieces
)

// Bytes of FallbackPieces that are not text.
const (
	PieceRunEnd = 0xFE
	PieceEscape = 0xFF
)

// Pieces are the bytes that each token adds to a text, as a [Stream] decodes it.
type Pieces struct {
	Form PieceForm
	// Bytes has the piece of token i from Starts[i] to Starts[i+1]. Special tokens have none.
	Bytes  []byte
	Starts []int32
	// The text loses its first bytes if they are Drop, at most Drops of them.
	Drop  byte
	Drops int
}

// Pieces returns the pieces of all tokens. It fails if a text is not the concatenation of its tokens' pieces, as with
// decoders that treat the first token differently.
func (t *Tokenizer) Pieces() (*Pieces, error) { return t.pieces() }

func (t *Tokenizer) makePieces() (*Pieces, error) {
	p := &Pieces{Starts: []int32{0}}
	each, behind := t.stages(), []stage(nil)
	for i, s := range each {
		if !seesTokens(s) {
			each, behind = each[:i], each[i:]
			break
		}
	}
	if len(behind) > 0 {
		switch behind[0].(type) {
		case *byteLevelStage:
			p.Form, behind = ByteLevelPieces, behind[1:]
		case *byteFallbackStage:
			p.Form, behind = FallbackPieces, behind[1:]
		}
	}
	if len(behind) > 0 {
		if s, ok := behind[0].(*stripStage); ok && s.fused && s.stop == 0 && len(s.content) == 1 {
			p.Drop, p.Drops, behind = s.content[0], s.start, behind[1:]
		}
	}
	if len(behind) > 0 {
		return nil, fmt.Errorf("the tokenizer's decoder (%s) does not make text token by token",
			strings.TrimPrefix(fmt.Sprintf("%T", behind[0]), "*tokenizer."))
	}
	for id := range t.tokens {
		if t.has[id] && !t.special[int32(id)] {
			if err := p.add(t.tokens[id], each); err != nil {
				return nil, fmt.Errorf("token %d: %w", id, err)
			}
		}
		p.Starts = append(p.Starts, int32(len(p.Bytes)))
	}
	return p, nil
}

// seesTokens reports whether a stage treats each token independently of the others.
func seesTokens(s stage) bool {
	switch s := s.(type) {
	case replaceStage:
		return true
	case *metaspaceStage:
		return !s.dropFirst
	case *stripStage:
		return !s.fused
	}
	return false
}

// add appends the piece of a token, which runs through the stages alone.
func (p *Pieces) add(token string, each []stage) error {
	for _, s := range each {
		s.push(token, func(text string) { token = text })
	}
	switch p.Form {
	case ByteLevelPieces:
		p.Bytes = model.AppendByteLevel(p.Bytes, token)
	case FallbackPieces:
		if b, ok := model.ByteOfToken(token); ok {
			p.Bytes = append(p.Bytes, PieceEscape, b)
		} else if token == "" {
			p.Bytes = append(p.Bytes, PieceRunEnd)
		} else if strings.IndexByte(token, PieceRunEnd) >= 0 || strings.IndexByte(token, PieceEscape) >= 0 {
			return fmt.Errorf("its text %q is not UTF-8", token)
		} else {
			p.Bytes = append(p.Bytes, token...)
		}
	default:
		p.Bytes = append(p.Bytes, token...)
	}
	return nil
}

// TokenText returns the bytes that a token adds to a text, or the name of a special token. If the decoder does not
// treat tokens one by one it returns the text of the token alone.
func (t *Tokenizer) TokenText(id int32) []byte {
	switch p, err := t.Pieces(); {
	case t.special[id]:
		return []byte(t.Token(id))
	case id < 0 || int(id) >= len(t.tokens):
		return nil
	case err != nil:
		return []byte(t.Decode([]int32{id}, false))
	default:
		return p.text(id)
	}
}

// text returns the bytes of a token's piece as text.
func (p *Pieces) text(id int32) []byte {
	piece := p.Bytes[p.Starts[id]:p.Starts[id+1]]
	if p.Form != FallbackPieces {
		return slices.Clone(piece)
	}
	var text []byte
	for i := 0; i < len(piece); i++ {
		switch {
		case piece[i] == PieceRunEnd:
			continue
		case piece[i] == PieceEscape && i+1 < len(piece):
			i++
		}
		text = append(text, piece[i])
	}
	return text
}
