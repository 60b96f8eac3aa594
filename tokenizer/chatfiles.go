package tokenizer

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/gomlx/go-huggingface/models/gguf"

	"github.com/quire/quire/internal/pyjson"
)

// Files of a folder that chat templates need.
const (
	configName      = "tokenizer_config.json"
	specialsName    = "special_tokens_map.json"
	templateName    = "chat_template.jinja"
	templatesFolder = "additional_chat_templates"
	defaultTemplate = "default"
	toolTemplate    = "tool_use"
)

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

// chatTemplates reads the chat templates of a folder by name: chat_template.jinja and those of
// additional_chat_templates, where there are any; else the chat_template of tokenizer_config.json, which is a string,
// an object of named ones, or a list of them.
func chatTemplates(dir string, raw json.RawMessage) (map[string]string, error) {
	named := map[string]string{}
	files, err := filepath.Glob(filepath.Join(globEscape(dir), templatesFolder, "*.jinja"))
	if err != nil {
		return nil, err
	}
	for _, path := range append(files, filepath.Join(dir, templateName)) {
		data, err := readFile(path)
		switch name := strings.TrimSuffix(filepath.Base(path), ".jinja"); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		case filepath.Base(path) == templateName:
			named[defaultTemplate] = string(data)
		default:
			named[name] = string(data)
		}
	}
	if len(named) > 0 || isNull(raw) {
		return named, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return map[string]string{defaultTemplate: text}, nil
	}
	if json.Unmarshal(raw, &named) == nil {
		return named, nil
	}
	var list []struct{ Name, Template string }
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, errors.New("tokenizer_config.json: chat_template is neither a string nor an object or a list of " +
			"named templates")
	}
	named = map[string]string{}
	for _, t := range list {
		named[t.Name] = t.Template
	}
	return named, nil
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
		if f, err := gguf.Open(path); err == nil {
			kv, _ := f.GetKeyValue("tokenizer.chat_template")
			return kv.String() != ""
		}
		dir = filepath.Dir(path)
	}
	var config configJSON
	if err := readJSON(dir, configName, &config); err != nil {
		return false
	}
	named, err := chatTemplates(dir, config.ChatTemplate)
	return err == nil && len(named) > 0
}
