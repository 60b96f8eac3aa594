// Package chattemplates finds the chat templates that a Hugging Face folder has.
package chattemplates

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The places of a folder's templates, and the names of templates that are used by default: for all conversations, and
// for conversations with tools.
const (
	File   = "chat_template.jinja"
	Folder = "additional_chat_templates"

	Default = "default"
	Tools   = "tool_use"
)

// maxBytes bounds a template; the largest in use have some 30 KB.
const maxBytes = 64 << 20

// OfFolder reads the chat templates of a folder by name: chat_template.jinja and the templates in
// additional_chat_templates, if there are any; else the templates of [OfConfig], given chat_template of its
// tokenizer_config.json.
func OfFolder(dir string, raw json.RawMessage) (map[string]string, error) {
	named := map[string]string{}
	files := []string{filepath.Join(dir, File)}
	if entries, err := os.ReadDir(filepath.Join(dir, Folder)); err == nil {
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) == ".jinja" {
				files = append(files, filepath.Join(dir, Folder, entry.Name()))
			}
		}
	}
	for i, path := range files {
		if info, err := os.Stat(path); err == nil && info.Size() > maxBytes {
			return nil, fmt.Errorf("%s has %d bytes, more than a chat template has", path, info.Size())
		}
		data, err := os.ReadFile(path)
		switch name := strings.TrimSuffix(filepath.Base(path), ".jinja"); {
		case errors.Is(err, os.ErrNotExist):
		case err != nil:
			return nil, err
		case i == 0:
			named[Default] = string(data)
		case i > 0 && (name != Default || named[Default] == ""):
			named[name] = string(data)
		}
	}
	if len(named) > 0 {
		return named, nil
	}
	return OfConfig(raw)
}

// OfConfig parses chat_template of a tokenizer_config.json: a string, an object of named templates, or a list of
// them.
func OfConfig(raw json.RawMessage) (map[string]string, error) {
	named := map[string]string{}
	if len(raw) == 0 || string(raw) == "null" {
		return named, nil
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return map[string]string{Default: text}, nil
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
