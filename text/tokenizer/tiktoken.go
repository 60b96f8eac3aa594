package tokenizer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"

	"golang.org/x/text/unicode/norm"

	"github.com/quire/quire/text/tokenizer/model"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

// tiktokenKind is what a file of ranks does not contain: how text is split, and the special tokens after the ranks.
type tiktokenKind struct {
	pattern   string
	normalize pretoken.Normalizer
	specials  map[string]int32
	bare      bool // no BOS is added
}

// tiktokenKinds are the kinds by the name of the file or the tokenizer_class of tokenizer_config.json.
var tiktokenKinds = map[string]tiktokenKind{
	"cl100k_base.tiktoken": {pattern: patternCL100K, specials: map[string]int32{"<|endoftext|>": 100257,
		"<|fim_prefix|>": 100258, "<|fim_middle|>": 100259, "<|fim_suffix|>": 100260, "<|endofprompt|>": 100276}},
	"o200k_base.tiktoken": {pattern: patternGPT4o, specials: map[string]int32{"<|endoftext|>": 199999,
		"<|endofprompt|>": 200018}},
	"p50k_base.tiktoken": {pattern: pretoken.PatternGPT2, specials: map[string]int32{"<|endoftext|>": 50256}},
	"r50k_base.tiktoken": {pattern: pretoken.PatternGPT2, specials: map[string]int32{"<|endoftext|>": 50256}},
	"qwen.tiktoken":      {pattern: pretoken.PatternQwen2, normalize: norm.NFC.String, specials: qwenSpecials()},
	"QWenTokenizer":      {pattern: pretoken.PatternQwen2, normalize: norm.NFC.String, specials: qwenSpecials()},
	"tokenizer.model":    {pattern: pretoken.PatternLlama3, specials: llama3Specials()}, // the first files of Llama 3
	"tiktoken.model":     {pattern: patternKimi, bare: true},                            // Kimi K2's and Moonlight's
}

func qwenSpecials() map[string]int32 {
	specials := map[string]int32{"<|endoftext|>": 151643, "<|im_start|>": 151644, "<|im_end|>": 151645}
	for i := range int32(205) {
		specials[fmt.Sprintf("<|extra_%d|>", i)] = 151646 + i
	}
	return specials
}

func llama3Specials() map[string]int32 {
	const first, reserved = 128000, 256
	names := []string{"<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>",
		"<|reserved_special_token_1|>", "<|finetune_right_pad_id|>", "<|step_id|>", "<|start_header_id|>",
		"<|end_header_id|>", "<|eom_id|>", "<|eot_id|>", "<|python_tag|>"}
	for i := 2; len(names) < reserved; i++ {
		names = append(names, fmt.Sprintf("<|reserved_special_token_%d|>", i))
	}
	specials := make(map[string]int32, len(names))
	for i, name := range names {
		specials[name] = first + int32(i)
	}
	return specials
}

// isTiktoken reports whether data begins like a file of tiktoken, with a token in base64 and its rank.
func isTiktoken(data []byte) bool {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	_, _, err := tiktokenLine(line)
	return err == nil
}

func tiktokenLine(line []byte) (token []byte, rank int32, err error) {
	encoded, number, found := bytes.Cut(bytes.TrimRight(line, "\r"), []byte(" "))
	if !found || len(encoded) == 0 {
		return nil, 0, errors.New("it is not a token and its rank")
	}
	token, err = base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		return nil, 0, err
	}
	n, err := strconv.ParseUint(string(number), 10, 31)
	return token, int32(n), err
}

// parseTiktoken reads a file of ranks. name is the name of the file.
func parseTiktoken(data []byte, name string, config configJSON) (*parts, error) {
	kind, ok := tiktokenKinds[config.Class]
	if !ok {
		kind, ok = tiktokenKinds[name]
	}
	if !ok {
		return nil, fmt.Errorf("%s: how it splits text is not known: files of tiktoken do not say it, and their "+
			"names do: cl100k_base.tiktoken, o200k_base.tiktoken, p50k_base.tiktoken, r50k_base.tiktoken, "+
			"qwen.tiktoken, tokenizer.model for Llama 3, and tiktoken.model for Kimi K2", name)
	}
	p := &parts{vocab: make(map[string]int32), normalize: kind.normalize, byteLevel: true, specials: noSpecials,
		addBOSAndEOS: !kind.bare}
	highest := int32(-1)
	for i, line := range bytes.Split(data, []byte("\n")) {
		if len(bytes.TrimSpace(line)) == 0 {
			continue
		}
		token, rank, err := tiktokenLine(line)
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", name, i+1, err)
		}
		p.vocab[model.ToByteLevel(string(token))] = rank
		highest = max(highest, rank)
	}
	if limit := 4*len(p.vocab) + 1<<16; int(highest) > limit {
		return nil, fmt.Errorf("%s: rank %d is far beyond the %d tokens", name, highest, len(p.vocab))
	}
	p.tiktokenSpecials(kind.specials, highest, config)
	tokens, scores := make([]string, highest+1), make([]float32, highest+1)
	kinds := make([]model.PieceKind, highest+1)
	for token, rank := range p.vocab {
		if kinds[rank] == model.NormalPiece {
			return nil, fmt.Errorf("%s: the rank %d is there twice", name, rank)
		}
		tokens[rank], scores[rank], kinds[rank] = token, -float32(rank), model.NormalPiece
	}
	p.model = func() (model.Model, error) {
		return model.NewScored(tokens, scores, kinds, model.ScoredOptions{Unknown: -1, IgnoreMerges: true}), nil
	}
	pre, err := splitBy(kind.pattern)()
	p.pre = pre
	p.stages = func() []stage { return []stage{&byteLevelStage{}} }
	return p, err
}

// tiktokenSpecials adds the special tokens of the kind, unless the configuration names the model's own.
func (p *parts) tiktokenSpecials(specials map[string]int32, highest int32, config configJSON) {
	const near = 1024 // ids far beyond the ranks belong to another file
	for name, id := range specials {
		if id > highest && id <= highest+near && len(config.Added) == 0 {
			p.added = append(p.added, addedToken{ID: id, Content: name, Special: true})
		}
	}
	for _, a := range p.added {
		switch {
		case a.Content == "<|begin_of_text|>":
			p.specials.BOS = a.ID
		case a.Content == "<|end_of_text|>", a.Content == "<|endoftext|>":
			p.specials.EOS = a.ID
		}
	}
}
