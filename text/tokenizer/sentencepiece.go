package tokenizer

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// pieceModel is the part of SentencePiece's ModelProto, the content of a tokenizer.model, that is read.
type pieceModel struct {
	pieces []string
	scores []float64
	kinds  []model.PieceKind

	kind         uint64 // 1 Unigram, 2 BPE
	byteFallback bool
	suffix       bool                       // white space is a suffix of words
	unk          int32                      // the id of the unknown piece
	roles        map[protowire.Number]int64 // ids of TrainerSpec: unk 40, bos 41, eos 42, pad 43
	normalizer   pieceNormalizer
}

// Fields of ModelProto and of the messages in it.
const (
	protoPieces, protoTrainer, protoNormalizer, protoDenormalizer = 1, 2, 3, 5

	pieceText, pieceScore, pieceType = 1, 2, 3

	trainerType, trainerSuffix, trainerByteFallback                     = 3, 24, 35
	trainerUnk, trainerBOS, trainerEOS, trainerPad                      = 40, 41, 42, 43
	normalizerChars, normalizerPrefix, normalizerTidy, normalizerEscape = 2, 3, 4, 5
)

// pieceNormalizer rewrites text as SentencePiece does before it searches for pieces.
type pieceNormalizer struct {
	chars  *pretoken.CharsMap // nil: characters stay as they are
	frozen *addedMatcher      // user-defined pieces stay as they are; nil for none
	prefix bool               // add_dummy_prefix
	suffix bool               // the prefix is added after the text
	tidy   bool               // remove_extra_whitespaces
	escape bool               // spaces are written as marks
}

// next returns what the start of s becomes, and how many bytes of s it replaces.
func (n *pieceNormalizer) next(s string) (string, int) {
	if n.frozen != nil {
		if length := n.frozen.prefix(s); length > 0 {
			return s[:length], length
		}
	}
	return n.chars.Next(s)
}

func (n *pieceNormalizer) normalize(s string) string {
	space := " "
	if n.escape {
		space = spaceMark
	}
	for n.tidy && s != "" {
		text, length := n.next(s)
		if text != " " {
			break
		}
		s = s[length:]
	}
	if s == "" {
		return ""
	}
	var out strings.Builder
	if n.prefix && !n.suffix {
		out.WriteString(space)
	}
	afterSpace := n.tidy
	for s != "" {
		text, length := n.next(s)
		s = s[length:]
		for afterSpace && strings.HasPrefix(text, " ") {
			text = text[1:]
		}
		if text != "" {
			out.WriteString(strings.ReplaceAll(text, " ", space))
			afterSpace = n.tidy && strings.HasSuffix(text, " ")
		}
	}
	text := out.String()
	for n.tidy && strings.HasSuffix(text, space) {
		text = strings.TrimSuffix(text, space)
	}
	if n.prefix && n.suffix {
		text += space
	}
	return text
}

// stripped is how many spaces at the start of a normalized text do not belong to the text.
func (n *pieceNormalizer) stripped() int {
	if (n.prefix || n.tidy) && !n.suffix {
		return 1
	}
	return 0
}

// parseSentencePiece reads a tokenizer.model. Control pieces are found in the text, as in transformers; the parts
// between them are encoded separately as SentencePiece does.
func parseSentencePiece(data []byte) (*parts, error) {
	m, err := readPieceModel(data)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.model: %w", err)
	}
	p := &parts{vocab: make(map[string]int32, len(m.pieces)), unk: m.pieces[m.unk], addBOSAndEOS: true,
		specials: Specials{BOS: m.role(trainerBOS), EOS: m.role(trainerEOS), Unknown: m.unk, Pad: m.role(trainerPad)}}
	var user []addedToken
	for i, piece := range m.pieces {
		if _, twice := p.vocab[piece]; twice {
			return nil, fmt.Errorf("tokenizer.model: the piece %q is there twice", piece)
		}
		p.vocab[piece] = int32(i)
		switch token := (addedToken{ID: int32(i), Content: piece, Special: true}); m.kinds[i] {
		case model.ControlPiece:
			p.added = append(p.added, token)
		case model.UserPiece:
			user = append(user, token)
		}
	}
	var frozen *addedMatcher
	if len(user) > 0 {
		frozen = newAddedMatcher(user, func(s string) string { return s })
		m.normalizer.frozen = frozen
	}
	m.normalizer.suffix = m.suffix
	p.normalize, p.stages = m.normalizer.normalize, markedStages(m.normalizer.stripped())
	p.model = func() (model.Model, error) { return m.model(frozen, p.vocab) }
	return p, nil
}

func (m *pieceModel) model(frozen *addedMatcher, vocab map[string]int32) (model.Model, error) {
	var fallback *model.ByteTokens
	if m.byteFallback {
		fallback = model.NewByteTokens(vocab)
	}
	switch m.kind {
	case 1:
		return model.NewPieceUnigram(m.pieces, m.scores, m.kinds, m.unk, true, fallback), nil
	case 2:
		scores := make([]float32, len(m.scores))
		for i, s := range m.scores {
			scores[i] = float32(s)
		}
		o := model.ScoredOptions{Unknown: m.unk, FuseUnknown: true, Bytes: fallback}
		if frozen != nil {
			o.Frozen = frozen.prefix
		}
		return model.NewScored(m.pieces, scores, m.kinds, o), nil
	}
	return nil, fmt.Errorf("tokenizer.model: model type %d is not supported (1, Unigram, and 2, BPE, are)", m.kind)
}

// role returns the id in a field of TrainerSpec, or -1 if it is not a control piece.
func (m *pieceModel) role(field protowire.Number) int32 {
	id, set := m.roles[field]
	if !set {
		id = map[protowire.Number]int64{trainerUnk: 0, trainerBOS: 1, trainerEOS: 2, trainerPad: -1}[field]
	}
	if id < 0 || id >= int64(len(m.pieces)) || m.kinds[id] != model.ControlPiece {
		return -1
	}
	return int32(id)
}

var errProto = errors.New("it is not a SentencePiece model")

func readPieceModel(data []byte) (*pieceModel, error) {
	m := &pieceModel{kind: 1, unk: -1, roles: make(map[protowire.Number]int64),
		normalizer: pieceNormalizer{prefix: true, tidy: true, escape: true}}
	err := fields(data, func(n protowire.Number, v uint64, b []byte) error {
		switch n {
		case protoPieces:
			return m.readPiece(b)
		case protoTrainer:
			return m.readTrainer(b)
		case protoNormalizer:
			return m.readNormalizer(b)
		case protoDenormalizer:
			return m.readDenormalizer(b)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(m.pieces) == 0 {
		return nil, errProto
	}
	if m.unk < 0 {
		return nil, model.ErrNoUnknown
	}
	return m, nil
}

func (m *pieceModel) readPiece(data []byte) error {
	text, score, kind := "", 0.0, uint64(model.NormalPiece)
	err := fields(data, func(n protowire.Number, v uint64, b []byte) error {
		switch n {
		case pieceText:
			text = string(b)
		case pieceScore:
			score = float64(math.Float32frombits(uint32(v)))
		case pieceType:
			kind = v
		}
		return nil
	})
	if kind < uint64(model.NormalPiece) || kind > uint64(model.BytePiece) || math.IsNaN(score) {
		return fmt.Errorf("piece %q has the type %d and the score %g", text, kind, score)
	}
	if !utf8.ValidString(text) {
		return fmt.Errorf("piece %d, %q, is not valid UTF-8", len(m.pieces), text)
	}
	if model.PieceKind(kind) == model.UnknownPiece {
		if m.unk >= 0 {
			return errors.New("two pieces are the unknown one")
		}
		m.unk = int32(len(m.pieces))
	}
	m.pieces, m.scores, m.kinds = append(m.pieces, text), append(m.scores, score), append(m.kinds,
		model.PieceKind(kind))
	return err
}

func (m *pieceModel) readTrainer(data []byte) error {
	return fields(data, func(n protowire.Number, v uint64, _ []byte) error {
		switch n {
		case trainerType:
			m.kind = v
		case trainerByteFallback:
			m.byteFallback = v != 0
		case trainerSuffix:
			m.suffix = v != 0
		case trainerUnk, trainerBOS, trainerEOS, trainerPad:
			m.roles[n] = int64(int32(v))
		}
		return nil
	})
}

func (m *pieceModel) readNormalizer(data []byte) error {
	return fields(data, func(n protowire.Number, v uint64, b []byte) (err error) {
		switch n {
		case normalizerChars:
			m.normalizer.chars, err = pretoken.NewCharsMap(b)
		case normalizerPrefix:
			m.normalizer.prefix = v != 0
		case normalizerTidy:
			m.normalizer.tidy = v != 0
		case normalizerEscape:
			m.normalizer.escape = v != 0
		}
		return err
	})
}

func (m *pieceModel) readDenormalizer(data []byte) error {
	return fields(data, func(n protowire.Number, _ uint64, b []byte) error {
		if n == normalizerChars && len(b) > 0 {
			return errors.New("a denormalizer is not supported")
		}
		return nil
	})
}

// fields calls each with the fields of a message: v is the value of a number, b the bytes of others.
func fields(data []byte, each func(n protowire.Number, v uint64, b []byte) error) error {
	for len(data) > 0 {
		n, kind, used := protowire.ConsumeTag(data)
		if used < 0 {
			return errProto
		}
		data = data[used:]
		var v uint64
		var b []byte
		switch kind {
		case protowire.VarintType:
			v, used = protowire.ConsumeVarint(data)
		case protowire.Fixed32Type:
			var word uint32
			word, used = protowire.ConsumeFixed32(data)
			v = uint64(word)
		case protowire.BytesType:
			b, used = protowire.ConsumeBytes(data)
		default:
			used = protowire.ConsumeFieldValue(n, kind, data)
		}
		if used < 0 {
			return errProto
		}
		data = data[used:]
		if err := each(n, v, b); err != nil {
			return err
		}
	}
	return nil
}
