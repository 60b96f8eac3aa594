package tokenizer

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/quire/quire/internal/chattemplates"
	"github.com/quire/quire/models/gguf"
)

// Open reads the tokenizer of a Hugging Face folder, of one file of it by its own path, or of a GGUF file. In a folder
// it looks for tokenizer.json, tokenizer.model and a file of tiktoken, in this order, and reads tokenizer_config.json,
// special_tokens_map.json and chat_template.jinja if they exist.
//
// Like Hugging Face tokenizers, it finds special tokens in the text itself: in untrusted text "<|im_end|>" becomes that
// token. It ignores truncation and padding settings in tokenizer.json.
func Open(path string) (*Tokenizer, error) {
	p, err := openParts(path)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	t, err := build(p)
	if err != nil {
		return nil, fmt.Errorf("tokenizer %s: %w", path, err)
	}
	return t, nil
}

func openParts(path string) (*parts, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	if info.IsDir() {
		file, err := tokenizerFile(path)
		if err != nil {
			return nil, err
		}
		return openFolder(path, file)
	}
	switch strings.ToLower(filepath.Ext(path)) {
	case ".json", ".model", ".tiktoken":
		return openFolder(filepath.Dir(path), path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, errors.Unwrap(err)
	}
	defer f.Close()
	var magic [4]byte
	if _, err := io.ReadFull(f, magic[:]); err != nil || string(magic[:]) != "GGUF" {
		return nil, errors.New("this is neither a folder, a tokenizer.json, a tokenizer.model, a .tiktoken nor a " +
			"GGUF file")
	}
	return openGGUF(path)
}

// HasChatTemplate reports whether the tokenizer at path, as for [Open], has a chat template. It does not read the
// tokenizer itself. It is false if the files cannot be read; Open then returns the error.
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
