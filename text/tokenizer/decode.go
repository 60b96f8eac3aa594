package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// stage is one step of a decoder. It is fed token by token, and flush emits what it has held back. Decode runs a
// sequence through the same stages as a Stream, so that the two cannot differ.
type stage interface {
	push(token string, emit func(string))
	flush(emit func(string))
}

type decoderJSON struct {
	Type           string               `json:"type"`
	Decoders       []json.RawMessage    `json:"decoders"`
	Pattern        pretoken.PatternJSON `json:"pattern"`
	Content        string               `json:"content"`
	Start          int                  `json:"start"`
	Stop           int                  `json:"stop"`
	Replacement    string               `json:"replacement"`
	PrependScheme  string               `json:"prepend_scheme"`
	AddPrefixSpace *bool                `json:"add_prefix_space"`
	Prefix         *string              `json:"prefix"`
	Cleanup        *bool                `json:"cleanup"`
}

// newStages makes a chain of stages for a new sequence.
type newStages func() []stage

func parseDecoder(raw json.RawMessage) (newStages, error) {
	if pretoken.IsNull(raw) {
		return func() []stage { return []stage{&spaced{}} }, nil
	}
	d := &decoderBuilder{}
	if err := d.add(raw, 0); err != nil {
		return nil, err
	}
	return func() []stage {
		stages := make([]stage, len(d.makers))
		for i, mk := range d.makers {
			stages[i] = mk()
		}
		return stages
	}, nil
}

type decoderBuilder struct {
	makers []func() stage
	fused  bool // the tokens are one string from here on
}

func (d *decoderBuilder) add(raw json.RawMessage, depth int) error {
	if depth > pretoken.MaxNesting {
		return pretoken.ErrNesting
	}
	var j decoderJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return fmt.Errorf("decoder: %w", err)
	}
	if d.fused && j.Type != "Strip" && j.Type != "Fuse" && j.Type != "Sequence" {
		return fmt.Errorf("decoder %q after Fuse or ByteLevel is not supported", j.Type)
	}
	switch j.Type {
	case "Sequence":
		for _, child := range j.Decoders {
			if err := d.add(child, depth+1); err != nil {
				return err
			}
		}
		return nil
	case "ByteLevel":
		d.fused = true
		d.makers = append(d.makers, func() stage { return &byteLevelStage{} })
	case "ByteFallback":
		d.makers = append(d.makers, func() stage { return &byteFallbackStage{} })
	case "Fuse":
		d.fused = true
	case "Replace":
		if j.Pattern.String == nil || *j.Pattern.String == "" {
			return errors.New("decoder Replace is supported with a plain non-empty string only")
		}
		d.makers = append(d.makers, func() stage { return replaceStage{*j.Pattern.String, j.Content} })
	case "Metaspace":
		if utf8.RuneCountInString(j.Replacement) != 1 {
			return fmt.Errorf("decoder Metaspace: replacement %q is not one character", j.Replacement)
		}
		scheme, err := pretoken.PrependScheme(j.PrependScheme, j.AddPrefixSpace)
		if err != nil {
			return fmt.Errorf("decoder Metaspace: %w", err)
		}
		d.makers = append(d.makers, func() stage {
			return &metaspaceStage{mark: j.Replacement,
				dropFirst: scheme != "never"}
		})
	case "Strip":
		if utf8.RuneCountInString(j.Content) != 1 || j.Start < 0 || j.Stop < 0 {
			return fmt.Errorf("decoder Strip: content %q is not one character, or start %d or stop %d is negative",
				j.Content, j.Start, j.Stop)
		}
		fused := d.fused
		d.makers = append(d.makers, func() stage {
			return &stripStage{content: j.Content, start: j.Start, stop: j.Stop, fused: fused}
		})
	case "WordPiece":
		prefix := "##"
		if j.Prefix != nil {
			prefix = *j.Prefix
		}
		d.makers = append(d.makers, func() stage {
			return &wordPieceStage{prefix: prefix, cleanup: j.Cleanup == nil || *j.Cleanup}
		})
	default:
		return fmt.Errorf(
			"decoder %q is not supported (supported: Sequence, ByteLevel, ByteFallback, Fuse, Replace, Metaspace, "+
				"Strip, WordPiece)", j.Type)
	}
	return nil
}

// spaced joins tokens with spaces, as tokenizers without a decoder do.
type spaced struct{ some bool }

func (s *spaced) push(token string, emit func(string)) {
	if s.some {
		emit(" ")
	}
	s.some = true
	emit(token)
}
func (s *spaced) flush(func(string)) {}

// byteLevelStage reads tokens in the byte-level alphabet. A token with any other character stands for itself. The bytes
// of a character may be spread over several tokens.
type byteLevelStage struct{ pending []byte }

func (s *byteLevelStage) push(token string, emit func(string)) {
	s.pending = model.AppendByteLevel(s.pending, token)
	s.emit(emit, false)
}

func (s *byteLevelStage) flush(emit func(string)) { s.emit(emit, true) }

func (s *byteLevelStage) emit(emit func(string), final bool) {
	var out strings.Builder
	used := appendLossy(&out, s.pending, final)
	s.pending = append(s.pending[:0], s.pending[used:]...)
	if out.Len() > 0 {
		emit(out.String())
	}
}

// byteFallbackStage joins runs of <0xNN> tokens: to their text if the whole run is valid UTF-8, and otherwise to one
// U+FFFD per byte. It holds back a run until its end.
type byteFallbackStage struct{ run []byte }

func (s *byteFallbackStage) push(token string, emit func(string)) {
	if b, ok := model.ByteOfToken(token); ok {
		s.run = append(s.run, b)
		return
	}
	s.flush(emit)
	emit(token)
}

func (s *byteFallbackStage) flush(emit func(string)) {
	if len(s.run) == 0 {
		return
	}
	if utf8.Valid(s.run) {
		emit(string(s.run))
	} else {
		for range s.run { // one by one, since a later stage may depend on the number of tokens
			emit(replacementChar)
		}
	}
	s.run = s.run[:0]
}

type replaceStage struct{ old, with string }

func (s replaceStage) push(token string, emit func(string)) {
	emit(strings.ReplaceAll(token, s.old, s.with))
}
func (s replaceStage) flush(func(string)) {}

// metaspaceStage replaces marks by spaces, and drops the marks of the first token.
type metaspaceStage struct {
	mark      string
	dropFirst bool
	some      bool
}

func (s *metaspaceStage) push(token string, emit func(string)) {
	with := " "
	if s.dropFirst && !s.some {
		with = ""
	}
	s.some = true
	emit(strings.ReplaceAll(token, s.mark, with))
}
func (s *metaspaceStage) flush(func(string)) {}

// wordPieceStage puts spaces between words, and removes the prefix of tokens that continue a word.
type wordPieceStage struct {
	prefix  string
	cleanup bool
	some    bool
}

var wordPieceCleanup = []struct{ old, with string }{{" .", "."}, {" ?", "?"}, {" !", "!"}, {" ,", ","}, {" ' ", "'"},
	{" n't", "n't"}, {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}}

func (s *wordPieceStage) push(token string, emit func(string)) {
	if s.some {
		if rest, ok := strings.CutPrefix(token, s.prefix); ok {
			token = rest
		} else {
			token = " " + token
		}
	}
	s.some = true
	if s.cleanup {
		for _, c := range wordPieceCleanup {
			token = strings.ReplaceAll(token, c.old, c.with)
		}
	}
	emit(token)
}
func (s *wordPieceStage) flush(func(string)) {}

// stripStage removes up to start and stop contents from the ends of each token, or of the whole text if the tokens are
// fused.
type stripStage struct {
	content     string
	start, stop int
	fused       bool

	taken int  // contents removed from the front
	body  bool // the front has ended
	tail  int  // contents held back, since they may be the end
}

func (s *stripStage) push(token string, emit func(string)) {
	if !s.fused {
		token, _ = cutPrefixes(token, s.content, s.start)
		for i := 0; i < s.stop && strings.HasSuffix(token, s.content); i++ {
			token = strings.TrimSuffix(token, s.content)
		}
		emit(token)
		return
	}
	if !s.body {
		n := 0
		token, n = cutPrefixes(token, s.content, s.start-s.taken)
		s.taken += n
		if token == "" {
			return
		}
		s.body = true
	}
	if s.stop == 0 {
		emit(token)
		return
	}
	rest := strings.TrimRight(token, s.content)
	held := (len(token) - len(rest)) / len(s.content)
	out := rest
	if rest != "" {
		out = strings.Repeat(s.content, s.tail) + rest
		s.tail = 0
	}
	s.tail += held
	if extra := s.tail - s.stop; extra > 0 {
		out += strings.Repeat(s.content, extra)
		s.tail = s.stop
	}
	emit(out)
}

func (s *stripStage) flush(func(string)) {}

func cutPrefixes(token, content string, most int) (string, int) {
	n := 0
	for n < most && strings.HasPrefix(token, content) {
		token = token[len(content):]
		n++
	}
	return token, n
}

// spaceMark is SentencePiece's character for a space.
const spaceMark = "\u2581"

// markedStages decodes pieces with space marks. It removes strip spaces from the start of the text.
func markedStages(strip int) newStages {
	return func() []stage {
		return []stage{replaceStage{spaceMark, " "}, &byteFallbackStage{},
			&stripStage{content: " ", start: strip, fused: true}}
	}
}
