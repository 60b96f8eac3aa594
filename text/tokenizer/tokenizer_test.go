package tokenizer

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestSpecials(t *testing.T) {
	smol := open(t, smollm2(t))
	if got, want := smol.SpecialIDs(), (Specials{BOS: 1, EOS: 2, Unknown: 0, Pad: 2}); got != want {
		t.Errorf("SmolLM2 has %+v, want %+v", got, want)
	}
	if smol.VocabSize() != 49152 || !strings.Contains(smol.ChatTemplate(), "SmolLM") || smol.Token(2) != "<|im_end|>" ||
		!smol.IsSpecial(2) || smol.IsSpecial(100) {
		t.Errorf("SmolLM2: size %d, token 2 %q, template %.40q", smol.VocabSize(), smol.Token(2), smol.ChatTemplate())
	}
	folder, file := open(t, "testdata/llama3"), open(t, "testdata/llama3.gguf")
	if folder.SpecialIDs() != file.SpecialIDs() || folder.SpecialIDs().BOS < 0 || folder.SpecialIDs().EOS < 0 {
		t.Errorf("llama3: %+v in the folder, %+v in the GGUF", folder.SpecialIDs(), file.SpecialIDs())
	}
	if want := "{{ messages[0].content }}"; folder.ChatTemplate() != want || file.ChatTemplate() != want {
		t.Errorf("llama3: templates %q and %q", folder.ChatTemplate(), file.ChatTemplate())
	}
	qwen := open(t, "testdata/qwen2")
	if s := qwen.SpecialIDs(); s.BOS != -1 || qwen.Token(s.EOS) != "<|im_end|>" {
		t.Errorf("qwen2: %+v", s)
	}
	if id, ok := qwen.ID("<think>"); !ok || qwen.IsSpecial(id) || qwen.Decode([]int32{id}, true) != "<think>" {
		t.Errorf("<think> is token %d, %v", id, ok)
	}
	if _, ok := qwen.ID("no such token"); ok || qwen.Token(-1) != "" || qwen.Token(1<<30) != "" {
		t.Error("tokens that do not exist")
	}
}

func TestAddSpecial(t *testing.T) {
	tok := open(t, "testdata/llama3")
	with, _ := tok.Encode("hi", true)
	without, _ := tok.Encode("hi", false)
	if len(with) != len(without)+1 || with[0] != tok.SpecialIDs().BOS {
		t.Errorf("%v with special tokens, %v without", with, without)
	}
}

func TestInvalidUTF8(t *testing.T) {
	for in, want := range map[string]string{
		"a\xffb": "a\uFFFDb", "\xf0\x9f\x98": "\uFFFD", "\xf0\x9f\x98x": "\uFFFDx",
		"\xed\xa0\x80": "\uFFFD\uFFFD\uFFFD",
		"\xc0\xaf":     "\uFFFD\uFFFD", "\xe2\x82\xac\xe2\x82": "€\uFFFD",
		"\xf4\x90\x80\x80": "\uFFFD\uFFFD\uFFFD\uFFFD", "fine €": "fine €",
	} {
		if got := validUTF8(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
}

func TestConcurrentUse(t *testing.T) {
	tok := open(t, "testdata/llama3")
	texts := corpus(t)[30:500]
	var want []int32
	for _, text := range texts {
		want = append(want, encode(t, tok, text)...)
	}
	fresh := open(t, "testdata/llama3")
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			var got []int32
			for _, text := range texts {
				ids, _ := fresh.Encode(text, true)
				got = append(got, ids...)
			}
			if checksum(tok, got) != checksum(tok, want) {
				t.Error("concurrent Encode differs")
			}
		})
	}
	wg.Wait()
}

// Texts made to be slow are not: at a cost that grows with the square of the length, these would take longer than the
// tests may.
func TestHostileTexts(t *testing.T) {
	const hostile = 100_000 // bytes
	for _, family := range families {
		tok := open(t, "testdata/"+family)
		for _, unit := range []string{"a", " ", "\n", "ab", "'", "日", "<", "<|im_start|>", "A", "1", "!"} {
			if _, err := tok.Encode(strings.Repeat(unit, hostile/len(unit)), true); err != nil {
				t.Errorf("%s, %q: %v", family, unit, err)
			}
		}
	}
}

func TestRefused(t *testing.T) {
	good, err := os.ReadFile("testdata/llama2/tokenizer.json")
	if err != nil {
		t.Fatal(err)
	}
	change := func(old, with string) string {
		s := strings.Replace(string(good), old, with, 1)
		if s == string(good) {
			t.Fatalf("%q is not in the file", old)
		}
		return s
	}
	for _, c := range []struct{ file, want string }{
		{change(`"type":"BPE"`, `"type":"WordLevel"`), `model "WordLevel" is not supported`},
		{change(`"dropout":null`, `"dropout":0.1`), "dropout"},
		{change(`"type":"Prepend"`, `"type":"Nmt"`), `normalizer "Nmt" is not supported`},
		{change(`"pre_tokenizer":null`, `"pre_tokenizer":{"type":"UnicodeScripts"}`),
			`pre_tokenizer "UnicodeScripts" is not supported`},
		{
			change(`"pre_tokenizer":null`,
				`"pre_tokenizer":{"type":"Split","pattern":{"Regex":"[[:alpha:]]+"},"behavior":"Isolated","invert":false}`), `"[[:"`},
		{
			change(`"pre_tokenizer":null`,
				`"pre_tokenizer":{"type":"Split","pattern":{"Regex":"("},"behavior":"Isolated","invert":false}`),
			"pattern"},
		{change(`"type":"Fuse"`, `"type":"CTC"`), `decoder "CTC" is not supported`},
		{change(`"type":"TemplateProcessing"`, `"type":"Unheard"`),
			`post_processor "Unheard" is not supported`},
		{change(`"id":1,"content":"<s>"`, `"id":7,"content":"<s>"`),
			`added token "<s>" has id 7, but 1 in the vocabulary`},
		{change(`"<s>":1`, `"<s>":1000000000`), "1000000000"},
		{change(`"<s>":1`, `"<s>":-1`), "negative"},
		{`{"model":{"type":"BPE","vocab":{"a":0},"merges":[["a","b"]]}}`, "not in the vocabulary"},
		{`{"model":{"type":"BPE","vocab":{},"merges":[]}}`, "empty"},
		{change(`"pre_tokenizer":null`, `"pre_tokenizer":`+strings.Repeat(`{"type":"Sequence","pretokenizers":[`, 500)+
			`{"type":"ByteLevel"}`+strings.Repeat("]}", 500)), "nested"},
		{`{`, "tokenizer.json"},
	} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(c.file), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("error %v, want one with %q", err, c.want)
		}
	}
	for path, want := range map[string]string{t.TempDir(): "no tokenizer.json", "testdata/nowhere": "no such file",
		"testdata/corpus.bin.gz": "neither"} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want one with %q", path, err, want)
		}
	}
}

func BenchmarkEncode(b *testing.B) {
	text := strings.Join(corpus(b)[30:3000], "\n")
	for name, path := range map[string]string{"smollm2": smollm2(b), "llama3": "testdata/llama3",
		"llama2": "testdata/llama2", "tekken": "testdata/tekken"} {
		tok := open(b, path)
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				if _, err := tok.Encode(text, true); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
