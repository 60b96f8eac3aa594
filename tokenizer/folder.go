package tokenizer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
)

// maxFileBytes bounds the files read whole. The largest tokenizer.json in use
// have some 35 MB.
const maxFileBytes = 256 << 20

type tokenizerJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelHeadJSON   `json:"model"`
}

// modelHeadJSON puts off the vocabulary until the type is known to be BPE:
// other models spell it differently.
type modelHeadJSON struct {
	Type         string          `json:"type"`
	Dropout      *float64        `json:"dropout"`
	Unk          *string         `json:"unk_token"`
	Prefix       *string         `json:"continuing_subword_prefix"`
	Suffix       *string         `json:"end_of_word_suffix"`
	FuseUnk      bool            `json:"fuse_unk"`
	ByteFallback bool            `json:"byte_fallback"`
	IgnoreMerges bool            `json:"ignore_merges"`
	Vocab        json.RawMessage `json:"vocab"`
	Merges       json.RawMessage `json:"merges"`
}

type configJSON struct {
	BOS          json.RawMessage       `json:"bos_token"`
	EOS          json.RawMessage       `json:"eos_token"`
	Unk          json.RawMessage       `json:"unk_token"`
	Pad          json.RawMessage       `json:"pad_token"`
	ChatTemplate json.RawMessage       `json:"chat_template"`
	Added        map[string]addedToken `json:"added_tokens_decoder"`
}

func openFolder(dir, tokenizerFile string) (*parts, error) {
	data, err := readFile(tokenizerFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil,
			fmt.Errorf(
				"there is no tokenizer.json (to make one from tokenizer.model or vocab.json, run transformers' " +
					"AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))")
	} else if err != nil {
		return nil, err
	}
	p, err := parseTokenizerJSON(data)
	if err != nil {
		return nil, err
	}
	var config, specials configJSON
	for name, into := range map[string]*configJSON{"tokenizer_config.json": &config,
		"special_tokens_map.json": &specials} {
		data, err := readFile(filepath.Join(dir, name))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return nil, err
		}
		if err := json.Unmarshal(data, into); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	if err := p.addMissing(config.Added); err != nil {
		return nil, err
	}
	p.specials = Specials{
		BOS: p.role(config.BOS, specials.BOS), EOS: p.role(config.EOS, specials.EOS),
		Unknown: p.role(config.Unk, specials.Unk), Pad: p.role(config.Pad, specials.Pad),
	}
	if p.specials.Unknown < 0 && p.unk != "" {
		if id, ok := p.vocab[p.unk]; ok {
			p.specials.Unknown = id
		}
	}
	p.chatTemplate, err = chatTemplate(dir, config.ChatTemplate)
	return p, err
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxFileBytes {
		return nil, fmt.Errorf("%s has %d bytes, more than the %d allowed", filepath.Base(path), info.Size(),
			maxFileBytes)
	}
	return os.ReadFile(path)
}

func parseTokenizerJSON(data []byte) (*parts, error) {
	var j tokenizerJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	m := &j.Model
	switch {
	case m.Type != "" && m.Type != "BPE" || m.Type == "" && isNull(m.Merges):
		return nil, fmt.Errorf("model %q is not supported (BPE is)", m.Type)
	case m.Dropout != nil && *m.Dropout != 0:
		return nil, errors.New("model BPE with dropout is not supported")
	case m.Prefix != nil && *m.Prefix != "":
		return nil, errors.New("model BPE with continuing_subword_prefix is not supported")
	case m.Suffix != nil && *m.Suffix != "":
		return nil, errors.New("model BPE with end_of_word_suffix is not supported")
	}
	p := &parts{fuseUnk: m.FuseUnk, byteFallback: m.ByteFallback, ignoreMerges: m.IgnoreMerges, added: j.AddedTokens}
	if m.Unk != nil {
		p.unk = *m.Unk
	}
	if err := json.Unmarshal(m.Vocab, &p.vocab); err != nil {
		return nil, fmt.Errorf("tokenizer.json: vocab: %w", err)
	}
	var err error
	if p.merges, err = parseMerges(m.Merges); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	if p.normalize, err = parseNormalizer(j.Normalizer, 0); err != nil {
		return nil, err
	}
	if p.pre, p.byteLevel, err = parsePreTokenizer(j.PreTokenizer, 0); err != nil {
		return nil, err
	}
	if p.frame, err = parsePostProcessor(j.PostProcessor, 0); err != nil {
		return nil, err
	}
	p.stages, err = parseDecoder(j.Decoder)
	return p, err
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

// addMissing adds the tokens that only tokenizer_config.json names, as
// transformers does.
func (p *parts) addMissing(more map[string]addedToken) error {
	known := make(map[string]bool, len(p.added))
	for _, a := range p.added {
		known[a.Content] = true
	}
	var missing []addedToken
	for key, a := range more {
		id, err := strconv.ParseInt(key, 10, 32)
		if err != nil {
			return fmt.Errorf("tokenizer_config.json: added_tokens_decoder: %q is not a token id", key)
		}
		if !known[a.Content] {
			a.ID = int32(id)
			missing = append(missing, a)
		}
	}
	sort.Slice(missing, func(i, j int) bool { return missing[i].ID < missing[j].ID })
	p.added = append(p.added, missing...)
	return nil
}

// role returns the id of the first of values that names a token, as a string or
// as an object with a content.
func (p *parts) role(values ...json.RawMessage) int32 {
	for _, raw := range values {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			var token struct {
				Content string `json:"content"`
			}
			if json.Unmarshal(raw, &token) != nil {
				continue
			}
			text = token.Content
		}
		if text == "" {
			continue
		}
		for _, a := range p.added {
			if a.Content == text {
				return a.ID
			}
		}
		if id, ok := p.vocab[text]; ok {
			return id
		}
	}
	return -1
}

// chatTemplate returns chat_template.jinja where it exists, else the
// chat_template of tokenizer_config.json: a string, or a list of named ones of
// which "default" counts.
func chatTemplate(dir string, raw json.RawMessage) (string, error) {
	data, err := readFile(filepath.Join(dir, "chat_template.jinja"))
	if err == nil {
		return string(data), nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	if isNull(raw) {
		return "", nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text, nil
	}
	var named []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &named); err != nil {
		return "", fmt.Errorf("tokenizer_config.json: chat_template is neither a string nor a list of named templates")
	}
	for _, n := range named {
		if n.Name == "default" {
			return n.Template, nil
		}
	}
	return "", nil
}
