package admit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/quire/quire/data/parameter"
	"github.com/quire/quire/models"
	"github.com/quire/quire/ops/sampling"
	"github.com/quire/quire/text/tokenizer"
)

// breakers makes the breakers of requests with DRY.
type breakers struct {
	tokenizer *tokenizer.Tokenizer // may be nil
	vocab     int32                // tokens of the vocabulary
	maxLen    int                  // longest length of sequences

	mu sync.Mutex // guards made
	// made are those made recently, by what they are made of: most rows of a job have the same.
	made map[string]*sampling.Breakers
}

func newBreakers(model models.Config, tok *tokenizer.Tokenizer, maxLen int) *breakers {
	return &breakers{tokenizer: tok, vocab: int32(model.VocabSize), maxLen: maxLen}
}

// mostBreakers bounds the breakers that are kept.
const mostBreakers = 64

// forRequest returns the breakers of a request with DRY, nil if it has none.
func (s *breakers) forRequest(r *Request) (*sampling.Breakers, error) {
	if r.Sampling.DRYPenaltyLastN < 0 && s.maxLen > parameter.MaxDRYLastN {
		return nil, invalid("dry_penalty_last_n", "dry_penalty_last_n is -1, which looks at a whole sequence, and "+
			"one may have %d tokens (see `max-model-len`), but at most %d are looked at: give a number",
			s.maxLen, parameter.MaxDRYLastN)
	}
	if len(r.DRYSequenceBreakers) == 0 && len(r.DRYBreakers) == 0 {
		return nil, nil
	}
	key := fmt.Sprintf("%q %v", r.DRYSequenceBreakers, r.DRYBreakers)
	s.mu.Lock()
	defer s.mu.Unlock()
	if b := s.made[key]; b != nil {
		return b, nil
	}
	made, err := s.compile(r)
	if err != nil {
		return nil, err
	}
	if len(s.made) >= mostBreakers || s.made == nil {
		s.made = map[string]*sampling.Breakers{}
	}
	s.made[key] = made
	return made, nil
}

func (s *breakers) compile(r *Request) (*sampling.Breakers, error) {
	b := &sampling.Breakers{Classes: make([]uint32, sampling.ClassWords(int(s.vocab)))}
	for _, sequence := range r.DRYBreakers {
		for _, token := range sequence {
			if token < 0 || token >= s.vocab {
				return nil, invalid("dry_sequence_breakers", "a breaker of DRY has token %d, the vocabulary has 0 to "+
					"%d", token, s.vocab-1)
			}
		}
		if len(sequence) == 0 || !addBreaker(b, sequence[0], sequence[1:]) {
			return nil, invalid("dry_sequence_breakers", "a breaker of DRY has no tokens, or more than %d after its "+
				"first, or more than %d are of several tokens: give fewer", sampling.MostTail, sampling.Heads)
		}
	}
	for _, text := range r.DRYSequenceBreakers {
		if err := s.addText(b, text); err != nil {
			return nil, err
		}
	}
	return b, nil
}

// addText adds the tokens of a text, as llama.cpp does: each token that contains the text, and each token that ends
// with a prefix of it, followed by the tokens of the rest.
func (s *breakers) addText(b *sampling.Breakers, text string) error {
	refuse := func(format string, args ...any) error {
		return invalid("dry_sequence_breakers", "dry_sequence_breakers has %q, "+format,
			append([]any{text}, args...)...)
	}
	tok := s.tokenizer
	switch {
	case tok == nil:
		return refuse("and the engine has no tokenizer: give tokens in Request.DRYBreakers")
	case text == "":
		return refuse("which is empty: leave it out")
	case len(text) > parameter.MaxDRYBreaker:
		return refuse("which has more than %d bytes, where llama.cpp cuts it: give a shorter one",
			parameter.MaxDRYBreaker)
	}
	rests := make([][]int32, len(text)) // rests by their start
	for i := 1; i < len(text); i++ {
		ids, err := tok.Encode(text[i:], false)
		if err != nil {
			return refuse("which cannot be split into tokens: %w", err)
		}
		rests[i] = ids[:min(len(ids), sampling.MostTail)]
	}
	drop, drops := byte(0), 0
	if p, err := tok.Pieces(); err == nil {
		drop, drops = p.Drop, p.Drops
	}
	for token := range int32(min(tok.VocabSize(), int(s.vocab))) {
		piece := tok.TokenText(token)
		for k := 0; k < drops && len(piece) > 0 && piece[0] == drop; k++ { // as in the text of one token alone
			piece = piece[1:]
		}
		if bytes.Contains(piece, []byte(text)) {
			b.Add(token, 1)
			continue
		}
		for i := range min(len(piece), len(text)-1) {
			rest := rests[i+1]
			if !strings.HasPrefix(text, string(piece[len(piece)-i-1:])) {
				continue
			}
			if index := slices.IndexFunc(rest, tok.IsSpecial); index >= 0 {
				return refuse("which has the special token %s after its beginning: give the token alone",
					tok.Token(rest[index]))
			}
			if !addBreaker(b, token, rest) {
				return refuse("which together with the others is more than %d sequences of tokens: give fewer or "+
					"shorter ones", sampling.Heads)
			}
		}
	}
	return nil
}

// addBreaker adds a sequence of tokens, if there is room for it.
func addBreaker(b *sampling.Breakers, head int32, tail []int32) bool {
	if len(tail) == 0 {
		b.Add(head, 1)
		return true
	}
	index := slices.IndexFunc(b.Tails, func(t []int32) bool { return slices.Equal(t, tail) })
	if index < 0 {
		if index = len(b.Tails); index == sampling.Heads || len(tail) > sampling.MostTail {
			return false
		}
		b.Tails = append(b.Tails, slices.Clone(tail))
	}
	b.Add(head, 2<<index)
	return true
}
