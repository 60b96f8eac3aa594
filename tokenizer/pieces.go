package tokenizer

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// PieceForm says how the bytes of pieces become text.
type PieceForm int

// The forms.
const (
	PlainPieces     PieceForm = iota // they are the text
	ByteLevelPieces                  // they are UTF-8; each maximal part that is not becomes U+FFFD
	// FallbackPieces are PlainPieces but for byte tokens, each written as PieceEscape and its byte: a run of them is
	// text if it is UTF-8 as a whole, and else one U+FFFD a token. PieceRunEnd stands for a token without bytes, which
	// ends a run.
	FallbackPieces
)

// Bytes of FallbackPieces that are not of text.
const (
	PieceRunEnd = 0xFE
	PieceEscape = 0xFF
)

// Pieces are what tokens add to a text, token by token, as a [Stream] makes it.
type Pieces struct {
	Form PieceForm
	// Bytes has the piece of token i from Starts[i] to Starts[i+1]. Special tokens have none.
	Bytes  []byte
	Starts []int32
	// The text loses its first bytes where they are Drop, Drops of them at most.
	Drop  byte
	Drops int
}

// Pieces returns the pieces of all tokens. It is an error where a text is not that of its tokens, one behind the other,
// as with decoders that write a token otherwise where it is the first.
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

// seesTokens says that a stage treats each token alike, whatever others there are.
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

// add appends the piece of a token, which the stages have to themselves.
func (p *Pieces) add(token string, each []stage) error {
	for _, s := range each {
		s.push(token, func(text string) { token = text })
	}
	switch p.Form {
	case ByteLevelPieces:
		p.Bytes = appendLevel(p.Bytes, token)
	case FallbackPieces:
		if b, ok := fallbackByte(token); ok {
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

// appendLevel appends the bytes of a token in the byte-level alphabet. A token with any other character stands for
// itself.
func appendLevel(to []byte, token string) []byte {
	n := len(to)
	for _, r := range token {
		b, ok := runeToByte[r]
		if !ok {
			return append(to[:n], token...)
		}
		to = append(to, b)
	}
	return to
}

// fallbackByte is the byte of a token <0xNN>.
func fallbackByte(token string) (byte, bool) {
	if len(token) == 6 && strings.HasPrefix(token, "<0x") && token[5] == '>' {
		if b, err := strconv.ParseUint(token[3:5], 16, 8); err == nil {
			return byte(b), true
		}
	}
	return 0, false
}

// TokenText returns the bytes that a token adds to a text, or the name of a special token. Those of tokens that a
// decoder does not treat one by one are the text of the token alone.
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

// text returns the bytes of a token's piece as those of text.
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
