package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/internal/pyjson"
	"github.com/quire/quire/models/gguf"
)

// Files of a folder beside that of the tokenizer.
const (
	configName   = "tokenizer_config.json"
	specialsName = "special_tokens_map.json"
)

// ggufTemplate is the key of the chat template of a GGUF file.
const ggufTemplate = "tokenizer.chat_template"

// readJSON reads a file of a folder into each of into; one that is not there has nothing.
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
	_ = json.Unmarshal(raw, &token) // what is no object has no content
	return token.Content
}

// nameSpecials notes what files call special tokens, as transformers' special_tokens_map: names that end in "_token",
// and those of the objects that have the model's own. The first file that has a name counts.
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

// HasChatTemplate reports whether the tokenizer at path, as for [Open], has a chat template, without reading the
// tokenizer itself. It is false if the files cannot be read, which Open then says.
func HasChatTemplate(path string) bool {
	info, err := os.Stat(path)
	if err != nil {
		return false
	}
	dir := path
	if !info.IsDir() {
		var template string
		err := gguf.ReadMetadata(path, func(f gguf.Metadata) error {
			template, _ = f.String(ggufTemplate)
			return nil
		})
		if err == nil {
			return template != ""
		}
		dir = filepath.Dir(path)
	}
	var config configJSON
	if err := readJSON(dir, configName, &config); err != nil {
		return false
	}
	named, err := chattemplates.OfFolder(dir, config.ChatTemplate)
	return err == nil && len(named) > 0
}
