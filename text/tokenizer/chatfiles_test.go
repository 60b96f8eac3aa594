package tokenizer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/quire/quire/internal/chattemplates"
)

// folderOf makes a folder of a small tokenizer with further files.
func folderOf(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	data, err := os.ReadFile("testdata/llama3/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	files["tokenizer.json"] = string(data)
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestChatTemplates(t *testing.T) {
	const additional = "additional_chat_templates/"
	for name, c := range map[string]struct {
		files       map[string]string
		plain, tool string
	}{
		"text": {map[string]string{configName: `{"chat_template": "T"}`}, "T", "T"},
		"list": {map[string]string{configName: `{"chat_template": [{"name": "tool_use", "template": "U"},
			{"name": "default", "template": "D"}]}`}, "D", "U"},
		"object": {map[string]string{configName: `{"chat_template": {"default": "D", "rag": "R"}}`}, "D",
			"D"},
		"list, no " +
			"default": {map[string]string{configName: `{"chat_template": [{"name": "tool_use", "template": "U"}]}`}, "",
			"U"},
		"null": {map[string]string{configName: `{"chat_template": null}`}, "", ""},
		"file wins": {map[string]string{configName: `{"chat_template": "T"}`, chattemplates.File: "F"}, "F",
			"F"},
		"file alone": {map[string]string{chattemplates.File: "F"}, "F", "F"},
		"default of several": {map[string]string{additional + "default.jinja": "D", additional + "notes.txt": "x"}, "D",
			"D"},
		"several": {map[string]string{chattemplates.File: "F", additional + "tool_use.jinja": "U",
			configName: `{"chat_template": "T"}`}, "F", "U"},
		"byte order mark and NaN": {map[string]string{configName: "\xef\xbb\xbf" + `{"x": NaN, "chat_template": "T"}`},
			"T",
			"T"},
		"none": {map[string]string{}, "", ""},
	} {
		tok := open(t, folderOf(t, c.files))
		if tok.ChatTemplate() != c.plain || tok.ToolTemplate() != c.tool {
			t.Errorf("%s: %q, with tools %q", name, tok.ChatTemplate(), tok.ToolTemplate())
		}
	}
	if _, err := Open(folderOf(t, map[string]string{configName: `{"chat_template": 3}`})); err == nil ||
		!strings.Contains(err.Error(), "chat_template is neither a string nor an object") {
		t.Errorf("error %v", err)
	}
}

func TestSpecialTexts(t *testing.T) {
	tok := open(t, folderOf(t, map[string]string{
		configName: `{"pad_token": "<pad>", "unk_token": {"content": "<u>", "lstrip": false}, "cls_token": null, "image_token": "<i>",
			"add_bos_token": true, "extra_special_tokens": {"audio_token": "<a>", "boi": "<boi>"}}`,
		specialsName: `{"pad_token": "other", "sep_token": "<sep>", "additional_special_tokens": ["<x>"]}`}))
	want := map[string]string{"pad_token": "<pad>", "unk_token": "<u>", "image_token": "<i>", "audio_token": "<a>",
		"boi": "<boi>", "sep_token": "<sep>"}
	if got := tok.SpecialTexts(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", got, want)
	}
	file := open(t, "testdata/spm.gguf")
	if got := fmt.Sprint(file.SpecialTexts()); got != "map[bos_token:<s> eos_token:</s> unk_token:<unk>]" {
		t.Error(got)
	}
}

// patched opens a GGUF file with a change.
func patched(t *testing.T, change func(data []byte)) (*Tokenizer, error) {
	t.Helper()
	data, err := os.ReadFile("testdata/spm.gguf")
	if err != nil {
		t.Fatal(err)
	}
	change(data)
	path := filepath.Join(t.TempDir(), "x.gguf")
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	return Open(path)
}

// setID changes the type and the value of an id.
func setID(data []byte, key string, typ, id uint32) {
	at := bytes.Index(data, []byte("tokenizer.ggml."+key)) + len("tokenizer.ggml."+key)
	binary.LittleEndian.PutUint32(data[at:], typ)
	binary.LittleEndian.PutUint32(data[at+4:], id)
}

func TestGGUFWithoutSpecialTokens(t *testing.T) {
	const unsigned, signed = 4, 5
	for _, typ := range []uint32{unsigned, signed} {
		for _, key := range []string{"unknown_token_id", "bos_token_id", "eos_token_id"} {
			tok, err := patched(t, func(data []byte) { setID(data, key, typ, math.MaxUint32) })
			if err != nil {
				t.Errorf("%s: %v", key, err)
				continue
			}
			none := map[string]int32{"unknown_token_id": tok.SpecialIDs().Unknown, "bos_token_id": tok.SpecialIDs().BOS,
				"eos_token_id": tok.SpecialIDs().EOS}
			if none[key] != -1 || len(tok.SpecialTexts()) != 2 {
				t.Errorf("%s of type %d: %v %v", key, typ, tok.SpecialIDs(), tok.SpecialTexts())
			}
			if ids, err := tok.Encode("a b", true); err != nil || len(ids) == 0 {
				t.Errorf("%s: %v, %v", key, ids, err)
			}
		}
	}
	_, err := patched(t, func(data []byte) { setID(data, "eos_token_id", signed, math.MaxUint32-1) })
	if err == nil || !strings.Contains(err.Error(), "eos_token_id -2 is not one of its") {
		t.Errorf("error %v", err)
	}
}

func TestGGUFWithoutMerges(t *testing.T) {
	data, err := os.ReadFile("testdata/qwen2.gguf")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "m.gguf")
	data = bytes.Replace(data, []byte("tokenizer.ggml.merges"), []byte("tokenizer.ggml.absent"), 1)
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "no tokenizer.ggml.merges") {
		t.Errorf("error %v", err)
	}
}

// TestGGUFWithEqualTokens: text becomes the later of two tokens, and both are decoded.
func TestGGUFWithEqualTokens(t *testing.T) {
	plain := open(t, "testdata/spm.gguf")
	var first, second int32
	for id := range int32(plain.VocabSize()) { // two tokens of one length, of letters alone
		text := plain.Token(id)
		switch {
		case plain.IsSpecial(id) || len(text) != 2 || strings.Trim(text, "abcdefghijklmnopqrstuvwxyz") != "":
		case first == 0:
			first = id
		case second == 0:
			second = id
		}
	}
	if second == 0 {
		t.Fatal("the file has no such tokens")
	}
	from, to := plain.Token(second), plain.Token(first)
	tok, err := patched(t, func(data []byte) {
		written := func(s string) []byte { return append(binary.LittleEndian.AppendUint64(nil, uint64(len(s))), s...) }
		at := bytes.Index(data, written(from))
		copy(data[at:], written(to))
	})
	if err != nil {
		t.Fatal(err)
	}
	if id, ok := tok.ID(to); !ok || id != second {
		t.Errorf("%q is token %d, want %d", to, id, second)
	}
	if tok.Decode([]int32{first}, true) != tok.Decode([]int32{second}, true) || tok.Token(first) != to {
		t.Errorf("%q and %q", tok.Token(first), tok.Token(second))
	}
}

// TestAddedTokensOfSpace: a token that took the space of another one leaves it no text, as in tokenizers.
func TestAddedTokensOfSpace(t *testing.T) {
	m := newAddedMatcher([]addedToken{{ID: 1, Content: "<mask>", LStrip: true, RStrip: true},
		{ID: 2, Content: "  ", LStrip: true}}, func(s string) string { return s })
	for text, want := range map[string]string{
		"  <mask>  ": "2 1 ", "<mask>  ": "1 ", " <mask>  x": "1 x", "<mask>    x": "1 x", "  x": "2 x",
	} {
		got := ""
		for _, s := range m.split(nil, text, true) {
			if s.token >= 0 {
				got += fmt.Sprint(s.token, " ")
			} else {
				got += s.text
			}
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
