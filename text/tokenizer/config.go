package tokenizer

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire/quire/internal/pyjson"
)

// Further files in the folder of the tokenizer.
const (
	configName   = "tokenizer_config.json"
	specialsName = "special_tokens_map.json"
)

// ggufTemplate is the key of the chat template of a GGUF file.
const ggufTemplate = "tokenizer.chat_template"

// readJSON reads a file of a folder into each of into. A missing file sets nothing.
func readJSON(dir, name string, into ...any) error {
	data, err := readFile(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	for _, to := range into {
		if err := json.Unmarshal(pyjson.Standard(data), to); err != nil {
			return errors.New(name + ": " + err.Error())
		}
	}
	return nil
}

// tokenText returns the text of a token that is a string or an object with a content, "" if it is neither.
func tokenText(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var token struct {
		Content string `json:"content"`
	}
	_ = json.Unmarshal(raw, &token) // other values have no content
	return token.Content
}

// nameSpecials records the names of special tokens, as transformers' special_tokens_map: names that end in "_token",
// and the names in the objects for the model's own tokens. The first file with a name counts.
func (p *parts) nameSpecials(files ...map[string]json.RawMessage) {
	p.names = map[string]string{}
	note := func(name string, raw json.RawMessage) {
		if text := tokenText(raw); text != "" && p.names[name] == "" {
			p.names[name] = text
		}
	}
	for _, file := range files {
		for name, raw := range file {
			switch name {
			case "extra_special_tokens", "model_specific_special_tokens":
				var own map[string]json.RawMessage
				_ = json.Unmarshal(raw, &own) // a list has no names
				for name, raw := range own {
					note(name, raw)
				}
			default:
				if strings.HasSuffix(name, "_token") {
					note(name, raw)
				}
			}
		}
	}
}

type configJSON struct {
	BOS          json.RawMessage       `json:"bos_token"`
	EOS          json.RawMessage       `json:"eos_token"`
	Unk          json.RawMessage       `json:"unk_token"`
	Pad          json.RawMessage       `json:"pad_token"`
	ChatTemplate json.RawMessage       `json:"chat_template"`
	Added        map[string]addedToken `json:"added_tokens_decoder"`
	Class        string                `json:"tokenizer_class"`
	AddBOS       *bool                 `json:"add_bos_token"`
	AddEOS       *bool                 `json:"add_eos_token"`
}

// maxFileBytes bounds the files that are read whole. The largest tokenizer.json in use have about 35 MB.
const maxFileBytes = 256 << 20

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
