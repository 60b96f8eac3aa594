package tokenizer

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/gomlx/go-huggingface/models/gguf"
	"golang.org/x/text/unicode/norm"
)

// Token types of tokenizer.ggml.token_type.
const (
	ggufNormal  = 1
	ggufUnknown = 2
	ggufControl = 3
	ggufUser    = 4
)

// ggufSplit is what a value of tokenizer.ggml.pre stands for: the components of
// the model family's own tokenizer.json.
type ggufSplit struct {
	pre          func() ([]preTokenizer, error)
	normalize    normalizer
	ignoreMerges bool
	addBOS       bool // where the file has no add_bos_token
}

const patternTekken = `[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+` +
	`|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*` +
	`|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+`

func splitBy(pattern string) func() ([]preTokenizer, error) {
	return func() ([]preTokenizer, error) {
		step, err := newSplit(preTokenizerJSON{Behavior: "Isolated", Pattern: patternJSON{Regex: &pattern}})
		return []preTokenizer{step}, err
	}
}

var (
	splitGPT2   = ggufSplit{pre: splitBy(patternGPT2)}
	splitLlama3 = ggufSplit{pre: splitBy(patternLlama3), ignoreMerges: true, addBOS: true}
)

var ggufSplits = map[string]ggufSplit{
	"":          splitGPT2, // files from before the key; llama.cpp's own fallback
	"default":   splitGPT2,
	"gpt-2":     splitGPT2,
	"llama3":    splitLlama3,
	"llama-v3":  splitLlama3,
	"llama-bpe": splitLlama3,
	"qwen2":     {pre: splitBy(patternQwen2), normalize: norm.NFC.String},
	"tekken":    {pre: splitBy(patternTekken), ignoreMerges: true, addBOS: true},
	"smollm": {pre: func() ([]preTokenizer, error) {
		return []preTokenizer{digits(true), scanAll(scanGPT2)}, nil
	}},
}

func openGGUF(path string) (*parts, error) {
	f, err := gguf.Open(path)
	if err != nil {
		return nil, err
	}
	return partsOfGGUF(f)
}

// metadata is the part of gguf.File that the tokenizer reads.
type metadata interface {
	GetKeyValue(key string) (gguf.KeyValue, bool)
	Architecture() string
}

func partsOfGGUF(f metadata) (*parts, error) {
	get := func(key string) gguf.KeyValue {
		kv, _ := f.GetKeyValue("tokenizer." + key)
		return kv
	}
	kind := get("ggml.model").String()
	if kind == "" {
		return nil, errors.New("the GGUF file has no tokenizer (no tokenizer.ggml.model)")
	}
	tokens := get("ggml.tokens").Strings()
	types := get("ggml.token_type").Int64s()
	p := &parts{chatTemplate: get("chat_template").String()}
	if err := p.ggufVocabulary(tokens, types); err != nil {
		return nil, err
	}
	var err error
	if p.merges, err = splitMerges(get("ggml.merges").Strings()); err != nil {
		return nil, fmt.Errorf("the GGUF file: %w", err)
	}
	if err := p.ggufSpecials(f, len(tokens)); err != nil {
		return nil, err
	}
	addBOS := false
	switch kind {
	case "gpt2":
		addBOS, err = p.ggufByteLevel(get("ggml.pre").String())
	case "llama":
		if strings.HasPrefix(f.Architecture(), "gemma") {
			return nil, fmt.Errorf("the GGUF tokenizer of %q models is not supported", f.Architecture())
		}
		addBOS = true
		err = p.sentencePiece(get, tokens, types)
	default:
		err = fmt.Errorf("the GGUF tokenizer model %q is not supported (gpt2 and llama are)", kind)
	}
	if err != nil {
		return nil, err
	}
	p.ggufFrame(f, addBOS)
	return p, nil
}

// ggufVocabulary sets the ids of tokens, and which are added tokens. types may be empty.
func (p *parts) ggufVocabulary(tokens []string, types []int64) error {
	if len(tokens) == 0 {
		return errors.New("the GGUF file has no tokenizer.ggml.tokens")
	}
	if len(types) != 0 && len(types) != len(tokens) {
		return fmt.Errorf("the GGUF file has %d tokens but %d token types", len(tokens), len(types))
	}
	p.vocab = make(map[string]int32, len(tokens))
	for i, token := range tokens {
		if _, twice := p.vocab[token]; twice {
			return fmt.Errorf("the GGUF file has the token %q twice", token)
		}
		p.vocab[token] = int32(i)
	}
	for i, kind := range types {
		if kind == ggufControl || kind == ggufUnknown || kind == ggufUser {
			p.added = append(p.added, addedToken{ID: int32(i), Content: tokens[i], Special: kind != ggufUser})
		}
	}
	return nil
}

// ggufSpecials sets the ids of special tokens, -1 for those that the file does not name.
func (p *parts) ggufSpecials(f metadata, tokens int) error {
	for key, into := range map[string]*int32{"bos_token_id": &p.specials.BOS, "eos_token_id": &p.specials.EOS,
		"unknown_token_id": &p.specials.Unknown, "padding_token_id": &p.specials.Pad} {
		*into = -1
		kv, ok := f.GetKeyValue("tokenizer.ggml." + key)
		if !ok {
			continue
		}
		id := kv.Uint64()
		if id >= uint64(tokens) {
			return fmt.Errorf("the GGUF file: %s %d is not one of its %d tokens", key, id, tokens)
		}
		*into = int32(id)
	}
	return nil
}

// ggufByteLevel sets the stages of a tokenizer of the kind gpt2, whose pre-tokenizer is pre.
func (p *parts) ggufByteLevel(pre string) (addBOS bool, err error) {
	split, ok := ggufSplits[pre]
	if !ok {
		return false, fmt.Errorf("the GGUF pre-tokenizer %q is not supported (tokenizer.ggml.pre may be default, "+
			"gpt-2, llama-bpe, qwen2, smollm, tekken); the model's folder with its tokenizer.json may be", pre)
	}
	p.normalize, p.ignoreMerges = split.normalize, split.ignoreMerges
	if p.pre, err = split.pre(); err != nil {
		return false, err
	}
	p.byteLevel = true
	p.stages = func() []stage { return []stage{&byteLevelStage{}} }
	return split.addBOS, nil
}

// ggufFrame sets the tokens before and after each text. addBOS is what the kind of tokenizer does unless the file says
// otherwise.
func (p *parts) ggufFrame(f metadata, addBOS bool) {
	flag := func(key string, otherwise bool) bool {
		if kv, ok := f.GetKeyValue("tokenizer.ggml." + key); ok {
			return kv.Bool()
		}
		return otherwise
	}
	if flag("add_bos_token", addBOS) && p.specials.BOS >= 0 {
		p.frame.before = []int32{p.specials.BOS}
	}
	if flag("add_eos_token", false) && p.specials.EOS >= 0 {
		p.frame.after = []int32{p.specials.EOS}
	}
}

// sentencePiece sets the pipeline of Llama 2's tokenizer.json.
func (p *parts) sentencePiece(get func(string) gguf.KeyValue, tokens []string, types []int64) error {
	const mark = "\u2581"
	p.byteFallback, p.fuseUnk = true, true
	if id := p.specials.Unknown; id >= 0 {
		p.unk = tokens[id]
	}
	spaces := replace(" ", mark)
	p.normalize = spaces
	prefix := true
	if kv := get("ggml.add_space_prefix"); kv.Raw() != nil {
		prefix = kv.Bool()
	}
	strip := 0
	if prefix {
		first := prepend(mark)
		p.normalize = func(s string) string { return spaces(first(s)) }
		strip = 1
	}
	p.stages = func() []stage {
		return []stage{replaceStage{mark, " "}, &byteFallbackStage{},
			&stripStage{content: " ", start: strip, fused: true}}
	}
	if len(p.merges) > 0 {
		return nil
	}
	scores := get("ggml.scores").Float64s()
	if len(scores) != len(tokens) {
		return fmt.Errorf("the GGUF file has %d tokens but %d scores, and no merges", len(tokens), len(scores))
	}
	var err error
	p.merges, err = mergesOfScores(p.vocab, tokens, types, scores)
	return err
}

// mergesOfScores derives the merges of a SentencePiece BPE vocabulary: every way
// to put a token together from two others, best score of the result first. The
// order among equals is that of transformers' generate_merges.
func mergesOfScores(vocab map[string]int32, tokens []string, types []int64, scores []float64) ([][2]string, error) {
	const maxToken = 512 // bytes; the search is quadratic in the length
	type scored struct {
		pair          [2]string
		score         float64
		lenA, lenB    int
		left, right   int32
		result, order int
	}
	usable := func(id int32) bool {
		return len(types) == 0 || types[id] == ggufNormal || types[id] == ggufUser
	}
	var all []scored
	for i, token := range tokens {
		if !usable(int32(i)) {
			continue
		}
		if len(token) > maxToken {
			return nil,
				fmt.Errorf(
					"the GGUF file's token %d has %d bytes, more than the %d allowed where merges are derived from "+
						"scores", i, len(token), maxToken)
		}
		chars := utf8.RuneCountInString(token)
		at := 0
		for cut := range token {
			if cut == 0 {
				continue
			}
			at++
			a, okA := vocab[token[:cut]]
			b, okB := vocab[token[cut:]]
			if okA && okB && usable(a) && usable(b) {
				all = append(all, scored{[2]string{token[:cut], token[cut:]}, scores[i], at, chars - at, a, b, i, 0})
			}
		}
	}
	slices.SortStableFunc(all, func(x, y scored) int {
		return cmp.Or(cmp.Compare(y.score, x.score), cmp.Compare(y.lenA, x.lenA), cmp.Compare(y.lenB, x.lenB),
			cmp.Compare(x.result, y.result), cmp.Compare(x.left, y.left), cmp.Compare(x.right, y.right))
	})
	merges := make([][2]string, len(all))
	for i, s := range all {
		merges[i] = s.pair
	}
	return merges, nil
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
