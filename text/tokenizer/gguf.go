package tokenizer

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/models/gguf"
	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

func openGGUF(path string) (p *parts, err error) {
	err = gguf.ReadMetadata(path, func(f gguf.Metadata) error {
		p, err = partsOfGGUF(f)
		return err
	})
	return p, err
}

// ggufPrefix is the prefix of the tokenizer's keys.
const ggufPrefix = "tokenizer.ggml."

func partsOfGGUF(f gguf.Metadata) (*parts, error) {
	kind, _ := f.String(ggufPrefix + "model")
	if kind == "" {
		return nil, errors.New("the GGUF file has no tokenizer (no tokenizer.ggml.model)")
	}
	var g ggufTokens
	g.tokens, _ = f.Strings(ggufPrefix + "tokens")
	g.types, _ = f.Ints(ggufPrefix + "token_type")
	g.scores, _ = f.Floats(ggufPrefix + "scores")
	p := &parts{specials: noSpecials, names: map[string]string{}, templates: map[string]string{},
		frame: frame{pair: pairFrame{wrong: errors.New("GGUF files do not state how pairs of texts become tokens")}}}
	p.templates[chattemplates.Default], _ = f.String(ggufTemplate)
	if text, _ := f.String(ggufTemplate + "." + chattemplates.Tools); text != "" {
		p.templates[chattemplates.Tools] = text
	}
	if err := p.ggufVocabulary(g.tokens, g.types); err != nil {
		return nil, err
	}
	if err := p.ggufSpecials(f, g.tokens); err != nil {
		return nil, err
	}
	lines, _ := f.Strings(ggufPrefix + "merges")
	merges, err := splitMerges(lines)
	if err != nil {
		return nil, fmt.Errorf("the GGUF file: %w", err)
	}
	addBOS, addEOS := false, false
	switch kind {
	case "gpt2":
		if len(merges) == 0 && g.needMerges() {
			return nil, fmt.Errorf("the GGUF file has no %smerges, which make tokens of letters", ggufPrefix)
		}
		pre, _ := f.String(ggufPrefix + "pre")
		addBOS, err = p.ggufByLevels(pre, merges)
	case "gemma4":
		addBOS, err = p.ggufByLevels("gemma4", merges)
	case "llama":
		addBOS = true
		err = p.ggufLlama(f, g, merges)
	case "t5":
		addEOS = true
		err = p.ggufUnigram(f, g)
	case "bert":
		addBOS, addEOS = true, true
		err = setWordPiece(p, f, g)
	default:
		err = fmt.Errorf("the GGUF tokenizer model %q is not supported (gpt2, llama, gemma4, t5 and bert are)", kind)
	}
	if err != nil {
		return nil, err
	}
	p.ggufFrame(f, addBOS, addEOS)
	if architecture, _ := f.String("general.architecture"); architecture == "bert" {
		p.frame.pair = p.ggufPair(f, kind == "bert")
	}
	return p, nil
}

// ggufTokens are the tokens of a file; types may be empty.
type ggufTokens struct {
	tokens []string
	types  []int64
	scores []float64
}

// kinds returns the types as SentencePiece's kinds, which have the same numbers.
func (g ggufTokens) kinds() []model.PieceKind {
	kinds := make([]model.PieceKind, len(g.types))
	for i, t := range g.types {
		kinds[i] = model.NormalPiece
		if t > 0 && t <= int64(model.BytePiece) {
			kinds[i] = model.PieceKind(t)
		}
	}
	return kinds
}

// needMerges reports whether most tokens have several characters.
func (g ggufTokens) needMerges() bool {
	several := 0
	for _, token := range g.tokens {
		if utf8.RuneCountInString(token) > 1 {
			several++
		}
	}
	return several > len(g.tokens)/2
}

// needScores fails if tokens lack scores.
func (g ggufTokens) needScores() error {
	if len(g.scores) != len(g.tokens) {
		return fmt.Errorf("the GGUF file has %d tokens but %d scores, and no merges", len(g.tokens), len(g.scores))
	}
	return nil
}

// ggufVocabulary sets the vocabulary and the added tokens. types may be empty.
func (p *parts) ggufVocabulary(tokens []string, types []int64) error {
	if len(tokens) == 0 {
		return errors.New("the GGUF file has no tokenizer.ggml.tokens")
	}
	if len(types) != 0 && len(types) != len(tokens) {
		return fmt.Errorf("the GGUF file has %d tokens but %d token types", len(tokens), len(types))
	}
	isAdded := func(id int32) bool {
		if len(types) == 0 {
			return false
		}
		k := model.PieceKind(types[id])
		return k == model.ControlPiece || k == model.UnknownPiece || k == model.UserPiece
	}
	p.vocab = make(map[string]int32, len(tokens))
	for i, token := range tokens {
		id := int32(i)
		if other, twice := p.vocab[token]; twice { // text becomes the added or the later one, as in llama.cpp
			if isAdded(other) && !isAdded(id) {
				id, other = other, id
			}
			p.alike = append(p.alike, addedToken{ID: other, Content: token,
				Special: isAdded(other) && model.PieceKind(types[other]) != model.UserPiece})
		}
		p.vocab[token] = id
	}
	for i, token := range tokens {
		if id := int32(i); p.vocab[token] == id && isAdded(id) {
			p.added = append(p.added, addedToken{ID: id, Content: token,
				Special: model.PieceKind(types[i]) != model.UserPiece})
		}
	}
	return nil
}

// ggufRoles are the keys of special tokens, by their names in chat templates. llama.cpp writes "seperator".
var ggufRoles = map[string][]string{"bos_token": {"bos_token_id"}, "eos_token": {"eos_token_id"},
	"unk_token": {"unknown_token_id"}, "pad_token": {"padding_token_id"}, "cls_token": {"cls_token_id"},
	"mask_token": {"mask_token_id"}, "sep_token": {"separator_token_id", "seperator_token_id"}}

// ggufSpecials sets the ids of special tokens. An id is -1 if the file does not name the token.
func (p *parts) ggufSpecials(f gguf.Metadata, tokens []string) error {
	ids := map[string]int32{}
	for name, keys := range ggufRoles {
		ids[name] = -1
		for _, key := range keys {
			id, ok := f.Int(ggufPrefix + key)
			if !f.Has(ggufPrefix+key) || ok &&
				(id == -1 || id == math.MaxUint32) { // llama.cpp writes these for no token
				continue
			}
			if !ok || id < 0 || id >= int64(len(tokens)) {
				return fmt.Errorf("the GGUF file: %s %d is not one of its %d tokens", key, id, len(tokens))
			}
			ids[name] = int32(id)
			p.names[name] = tokens[id]
		}
	}
	p.specials = Specials{BOS: ids["bos_token"], EOS: ids["eos_token"], Unknown: ids["unk_token"],
		Pad: ids["pad_token"]}
	return nil
}

// ggufByLevels sets the stages of a tokenizer with merges and the pre-tokenizer pre.
func (p *parts) ggufByLevels(pre string, merges [][2]string) (addBOS bool, err error) {
	split, ok := ggufSplits[pre]
	if !ok {
		return false, fmt.Errorf("the GGUF pre-tokenizer %q is not supported (tokenizer.ggml.pre may be %s); "+
			"the model's folder with its tokenizer.json may be", pre,
			strings.TrimPrefix(strings.Join(slices.Sorted(maps.Keys(ggufSplits)), ", "), ", "))
	}
	p.normalize = split.normalize
	p.model = func() (model.Model, error) {
		return model.NewBPE(p.vocab, merges, "", false, !split.level(), split.ignoreMerges)
	}
	if p.pre, err = split.pre(); err != nil {
		return false, err
	}
	if p.byteLevel = split.level(); p.byteLevel {
		p.stages = func() []stage { return []stage{&byteLevelStage{}} }
	} else {
		p.stages = markedStages(0)
	}
	return split.addBOS, nil
}

// ggufFrame sets the tokens before and after each text. addBOS and addEOS are the defaults of the kind of tokenizer.
func (p *parts) ggufFrame(f gguf.Metadata, addBOS, addEOS bool) {
	if ggufFlag(f, "add_bos_token", addBOS) && p.specials.BOS >= 0 {
		p.frame.before = []int32{p.specials.BOS}
	}
	if ggufFlag(f, "add_eos_token", addEOS) && p.specials.EOS >= 0 {
		p.frame.after = []int32{p.specials.EOS}
	}
}

// ggufPair is the frame of pairs in BERT's family, as llama.cpp makes it. RoBERTa and XLM-R have another separator
// between the texts, and one kind of tokens.
func (p *parts) ggufPair(f gguf.Metadata, wordPiece bool) pairFrame {
	pair := pairFrame{before: p.frame.before, between: p.frame.after, after: p.frame.after, kept: oneKind}
	if wordPiece {
		pair.kept = len(pair.between)
	}
	if ggufFlag(f, "add_sep_token", !wordPiece) {
		separator := p.specials.EOS
		if name, ok := p.names["sep_token"]; ok {
			separator = p.vocab[name]
		}
		if separator < 0 {
			return pairFrame{wrong: errors.New("the GGUF file adds a separator between texts, and does not name it")}
		}
		pair.between = append(slices.Clone(pair.between), separator)
	}
	return pair
}

// ggufLlama sets the stages of a SentencePiece vocabulary of BPE. Most have scores and no merges.
func (p *parts) ggufLlama(f gguf.Metadata, g ggufTokens, merges [][2]string) error {
	unk := p.specials.Unknown
	if unk >= 0 {
		p.unk = g.tokens[unk]
	}
	spaces := pretoken.Replace(" ", spaceMark)
	p.normalize, p.stages = spaces, markedStages(0)
	if ggufFlag(f, "add_space_prefix", true) {
		first := pretoken.Prepend(spaceMark)
		p.normalize = func(s string) string { return spaces(first(s)) }
		p.stages = markedStages(1)
	}
	if len(merges) > 0 {
		p.model = func() (model.Model, error) { return model.NewBPE(p.vocab, merges, p.unk, true, true, false) }
		return nil
	}
	p.model = func() (model.Model, error) {
		scores := make([]float32, len(g.scores))
		for i, s := range g.scores {
			scores[i] = float32(s)
		}
		return model.NewScored(g.tokens, scores, g.kinds(),
			model.ScoredOptions{Unknown: unk, FuseUnknown: true, Bytes: model.NewByteTokens(p.vocab)}), nil
	}
	return g.needScores()
}

// ggufUnigram sets the stages of a SentencePiece vocabulary of Unigram.
func (p *parts) ggufUnigram(f gguf.Metadata, g ggufTokens) error {
	var charsmap []byte
	mapping, _ := f.Ints(ggufPrefix + "precompiled_charsmap")
	for _, b := range mapping {
		charsmap = append(charsmap, byte(b))
	}
	spec := pieceNormalizer{escape: true, prefix: ggufFlag(f, "add_space_prefix", true),
		tidy: ggufFlag(f, "remove_extra_whitespaces", true)}
	var err error
	if spec.chars, err = pretoken.NewCharsMap(charsmap); err != nil {
		return fmt.Errorf("the GGUF file: %w", err)
	}
	if p.specials.Unknown < 0 {
		return model.ErrNoUnknown
	}
	p.unk = g.tokens[p.specials.Unknown]
	p.normalize, p.stages = spec.normalize, markedStages(spec.stripped())
	p.model = func() (model.Model, error) {
		return model.NewPieceUnigram(g.tokens, g.scores, g.kinds(), p.specials.Unknown, false, nil), nil
	}
	return g.needScores()
}

// ggufFlag returns a flag of the tokenizer, or otherwise if the file lacks it.
func ggufFlag(f gguf.Metadata, key string, otherwise bool) bool {
	if flag, ok := f.Bool(ggufPrefix + key); ok {
		return flag
	}
	return otherwise
}
