package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// modelJSON is the model of a tokenizer.json. The vocabulary is read once the type is known, since its form depends on
// the type.
type modelJSON struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	Unk          *string         `json:"unk_token"`
	UnkID        *int            `json:"unk_id"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	MaxChars     *int            `json:"max_input_chars_per_word"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

// parseModel sets the vocabulary and the model. Old files do not name the type: models with merges are BPE, and models
// with a list as vocabulary are Unigram.
func (p *parts) parseModel(m *modelJSON) error {
	kind := m.Type
	if kind == "" {
		switch vocab := bytes.TrimSpace(m.Vocab); {
		case !pretoken.IsNull(m.Merges):
			kind = "BPE"
		case bytes.HasPrefix(vocab, []byte("[")):
			kind = "Unigram"
		case m.MaxChars != nil:
			kind = "WordPiece"
		}
	}
	if m.Unk != nil {
		p.unk = *m.Unk
	}
	switch kind {
	case "BPE":
		return p.parseBPE(m)
	case "Unigram":
		return p.parseUnigram(m)
	case "WordPiece":
		return p.parseWordPiece(m)
	}
	return fmt.Errorf("model %q is not supported (supported: BPE, Unigram, WordPiece)", kind)
}

func (p *parts) parseBPE(m *modelJSON) error {
	switch {
	case m.Dropout != nil && *m.Dropout != 0:
		return errors.New("model BPE with dropout is not supported")
	case m.Prefix != nil && *m.Prefix != "":
		return errors.New("model BPE with continuing_subword_prefix is not supported")
	case m.Suffix != nil && *m.Suffix != "":
		return errors.New("model BPE with end_of_word_suffix is not supported")
	}
	if err := json.Unmarshal(m.Vocab, &p.vocab); err != nil {
		return fmt.Errorf("tokenizer.json: vocab: %w", err)
	}
	merges, err := parseMerges(m.Merges)
	if err != nil {
		return fmt.Errorf("tokenizer.json: %w", err)
	}
	fuseUnk, byteFallback, ignoreMerges := m.FuseUnk, m.ByteFallback, m.IgnoreMerges
	p.model = func() (model.Model, error) {
		return model.NewBPE(p.vocab, merges, p.unk, fuseUnk, byteFallback, ignoreMerges)
	}
	return nil
}

func (p *parts) parseUnigram(m *modelJSON) error {
	var pairs [][]json.RawMessage
	if err := json.Unmarshal(m.Vocab, &pairs); err != nil {
		return fmt.Errorf("tokenizer.json: vocab: %w", err)
	}
	p.vocab = make(map[string]int32, len(pairs))
	scores := make([]float64, len(pairs))
	for id, pair := range pairs {
		var piece string
		if len(pair) != 2 || json.Unmarshal(pair[0], &piece) != nil || json.Unmarshal(pair[1], &scores[id]) != nil {
			return fmt.Errorf("tokenizer.json: vocab: entry %d is not a piece and its score", id)
		}
		if _, twice := p.vocab[piece]; twice {
			return fmt.Errorf("tokenizer.json: vocab: the piece %q is there twice", piece)
		}
		p.vocab[piece] = int32(id)
	}
	if m.UnkID == nil || *m.UnkID < 0 || *m.UnkID >= len(pairs) {
		return model.ErrNoUnknown
	}
	unk := int32(*m.UnkID)
	var err error
	if err = json.Unmarshal(pairs[unk][0], &p.unk); err != nil {
		return err
	}
	byteFallback := m.ByteFallback
	p.model = func() (model.Model, error) {
		var fallback *model.ByteTokens
		if byteFallback {
			fallback = model.NewByteTokens(p.vocab)
		}
		return model.NewUnigram(p.vocab, scores, unk, fallback), nil
	}
	return nil
}

func (p *parts) parseWordPiece(m *modelJSON) error {
	if err := json.Unmarshal(m.Vocab, &p.vocab); err != nil {
		return fmt.Errorf("tokenizer.json: vocab: %w", err)
	}
	prefix, most := "##", 100
	if m.Prefix != nil {
		prefix = *m.Prefix
	}
	if m.MaxChars != nil {
		most = *m.MaxChars
	}
	p.model = func() (model.Model, error) { return model.NewWordPiece(p.vocab, p.unk, prefix, most) }
	return nil
}

// parseMerges reads merges as pairs or, in older files, as "left right".
func parseMerges(raw json.RawMessage) ([][2]string, error) {
	inner := bytes.TrimLeft(bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("[")), " \t\r\n")
	if !bytes.HasPrefix(inner, []byte(`"`)) {
		var lists [][]string
		if err := json.Unmarshal(raw, &lists); err != nil {
			return nil, fmt.Errorf("merges: %w", err)
		}
		pairs := make([][2]string, len(lists))
		for i, l := range lists {
			if len(l) != 2 {
				return nil, fmt.Errorf("merge %d has %d parts instead of 2", i, len(l))
			}
			pairs[i] = [2]string(l)
		}
		return pairs, nil
	}
	var lines []string
	if err := json.Unmarshal(raw, &lines); err != nil {
		return nil, fmt.Errorf("merges: %w", err)
	}
	return splitMerges(lines)
}

// splitMerges reads merges written as "left right".
func splitMerges(lines []string) ([][2]string, error) {
	pairs := make([][2]string, 0, len(lines))
	for i, line := range lines {
		if strings.HasPrefix(line, "#version") {
			continue
		}
		left, right, ok := strings.Cut(line, " ")
		if !ok || strings.Contains(right, " ") {
			return nil, fmt.Errorf("merge %d is %q, not two tokens with a space between", i, line)
		}
		pairs = append(pairs, [2]string{left, right})
	}
	return pairs, nil
}
