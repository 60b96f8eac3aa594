package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/internal/pyjson"
	"github.com/quire/quire/text/tokenizer/pretoken"
)

type tokenizerJSON struct {
	AddedTokens   []addedToken    `json:"added_tokens"`
	Normalizer    json.RawMessage `json:"normalizer"`
	PreTokenizer  json.RawMessage `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Decoder       json.RawMessage `json:"decoder"`
	Model         modelJSON       `json:"model"`
}

// tokenizerFile returns the path of the preferred tokenizer in a folder.
func tokenizerFile(dir string) (string, error) {
	for _, name := range []string{"tokenizer.json", "tokenizer.model", "tiktoken.model"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return path, err
		}
	}
	found, err := filepath.Glob(filepath.Join(globEscape(dir), "*.tiktoken"))
	if err == nil && len(found) == 1 {
		return found[0], nil
	}
	return "", errors.New("there is no tokenizer.json, no tokenizer.model and no .tiktoken (to make a tokenizer.json " +
		"from vocab.json or vocab.txt, run transformers' AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR))")
}

// globEscape returns a pattern that matches only path.
func globEscape(path string) string {
	return strings.NewReplacer(`\`, `\\`, "[", `\[`, "*", `\*`, "?", `\?`).Replace(path)
}

// openFolder reads the tokenizer in file, and the configuration in the folder.
func openFolder(dir, file string) (*parts, error) {
	data, err := readFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s", filepath.Base(file))
	} else if err != nil {
		return nil, err
	}
	var config, specials configJSON
	var fields, further map[string]json.RawMessage
	if err := errors.Join(readJSON(dir, configName, &config, &fields), readJSON(dir, specialsName, &specials,
		&further)); err != nil {
		return nil, err
	}
	var p *parts
	switch {
	case strings.EqualFold(filepath.Ext(file), ".json"):
		p, err = parseTokenizerJSON(data)
	case isTiktoken(data):
		p, err = parseTiktoken(data, filepath.Base(file), config)
	default:
		p, err = parseSentencePiece(data)
	}
	if err != nil {
		return nil, err
	}
	if err := p.addMissing(config.Added); err != nil {
		return nil, err
	}
	previous := p.specials
	p.specials = Specials{
		BOS: p.role(previous.BOS, config.BOS, specials.BOS), EOS: p.role(previous.EOS, config.EOS, specials.EOS),
		Unknown: p.role(previous.Unknown, config.Unk, specials.Unk),
		Pad:     p.role(previous.Pad, config.Pad, specials.Pad),
	}
	if p.addBOSAndEOS {
		p.framed(config)
	}
	if p.specials.Unknown < 0 && p.unk != "" {
		if id, ok := p.vocab[p.unk]; ok {
			p.specials.Unknown = id
		}
	}
	p.nameSpecials(fields, further)
	p.templates, err = chattemplates.OfFolder(dir, config.ChatTemplate)
	return p, err
}

func parseTokenizerJSON(data []byte) (*parts, error) {
	var j tokenizerJSON
	if err := json.Unmarshal(pyjson.Standard(data), &j); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	p := &parts{added: j.AddedTokens, specials: noSpecials}
	err := p.parseModel(&j.Model)
	if err != nil {
		return nil, err
	}
	if p.normalize, err = pretoken.ParseNormalizer(j.Normalizer, 0); err != nil {
		return nil, err
	}
	if p.pre, p.byteLevel, err = pretoken.ParseSplitters(j.PreTokenizer, 0); err != nil {
		return nil, err
	}
	if p.frame, err = parsePostProcessor(j.PostProcessor, 0); err != nil {
		return nil, err
	}
	p.stages, err = parseDecoder(j.Decoder)
	return p, err
}

// addMissing adds the tokens that only tokenizer_config.json names, as transformers does.
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

// framed sets the tokens around a text if the tokenizer's file does not define them: a BOS if there is one, and no EOS,
// unless the configuration differs.
func (p *parts) framed(config configJSON) {
	if (config.AddBOS == nil || *config.AddBOS) && p.specials.BOS >= 0 {
		p.frame.before = []int32{p.specials.BOS}
	}
	if config.AddEOS != nil && *config.AddEOS && p.specials.EOS >= 0 {
		p.frame.after = []int32{p.specials.EOS}
	}
	p.frame.pair = framedTwice(p.frame)
}

// role returns the id of the first of values that names a token, as a string or as an object with a content. It returns
// otherwise if none does.
func (p *parts) role(otherwise int32, values ...json.RawMessage) int32 {
	for _, raw := range values {
		text := tokenText(raw)
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
	return otherwise
}
