package tokenizer

import (
	"os"
	"path/filepath"
	"testing"
)

// tryAll uses a tokenizer that came of an untrusted file.
func tryAll(t *testing.T, tok *Tokenizer) {
	ids, err := tok.Encode("Hello wörld 123 <s> \xff\n\n  日本", true)
	if err != nil {
		return
	}
	if got, want := streamed(t, tok.NewStream(), ids), tok.Decode(ids, true); got != want {
		t.Fatalf("%v streams as %q, decodes to %q", ids, got, want)
	}
	tok.Decode([]int32{-1, 0, 1, 2, 3, 1 << 30}, false)
}

// FuzzFolder opens mutated tokenizer.json files: an error or a tokenizer that works, never a panic.
func FuzzFolder(f *testing.F) {
	for _, family := range families {
		data, err := os.ReadFile(filepath.Join("testdata", family, "tokenizer.json"))
		if os.IsNotExist(err) {
			continue
		} else if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(`{"model":{"vocab":{"a":0,"b":1,"ab":2},"merges":["a b"]},"added_tokens":[{"id":3,"content":""}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, err := parseTokenizerJSON(data)
		if err != nil {
			return
		}
		tok, err := build(p)
		if err != nil {
			return
		}
		tryAll(t, tok)
	})
}

// FuzzTokenizerModel does the same with files of SentencePiece and of tiktoken.
func FuzzTokenizerModel(f *testing.F) {
	for _, name := range []string{"spm-unigram/tokenizer.model", "spm-bpe/tokenizer.model",
		"spm-suffix/tokenizer.model", "o200k/o200k_base.tiktoken"} {
		data, err := os.ReadFile(filepath.Join("testdata", filepath.FromSlash(name)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		parse := parseSentencePiece
		if isTiktoken(data) {
			parse = func(data []byte) (*parts, error) {
				return parseTiktoken(data, "o200k_base.tiktoken", configJSON{})
			}
		}
		p, err := parse(data)
		if err != nil {
			return
		}
		tok, err := build(p)
		if err != nil {
			return
		}
		tryAll(t, tok)
	})
}

// FuzzGGUF does the same with GGUF files.
func FuzzGGUF(f *testing.F) {
	for _, name := range []string{"llama3", "qwen2", "spm"} {
		data, err := os.ReadFile(filepath.Join("testdata", name+".gguf"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(dir, "x.gguf")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		tok, err := Open(path)
		if err != nil {
			return
		}
		tryAll(t, tok)
	})
}

// FuzzText encodes and decodes any text with every family.
func FuzzText(f *testing.F) {
	var toks []*Tokenizer
	for _, family := range families {
		toks = append(toks, open(f, "testdata/"+family))
	}
	for _, text := range corpus(f)[30:60] {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		for i, tok := range toks {
			ids := encode(t, tok, text)
			out := tok.Decode(ids, false)
			if got := streamed(t, tok.NewStream(), ids); got != tok.Decode(ids, true) {
				t.Fatalf("%s: the stream differs", families[i])
			}
			// Byte-level BPE without a normalizer loses nothing.
			if families[i] == "smollm" && out != validUTF8(text) {
				t.Fatalf("smollm: %q comes back as %q", text, out)
			}
		}
	})
}
