package tokenizer

import (
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// streamed pushes ids one by one; every piece must be whole characters.
func streamed(t interface{ Fatalf(string, ...any) }, s *Stream, ids []int32) string {
	var all strings.Builder
	for _, id := range ids {
		piece := s.Push(id)
		if !utf8.ValidString(piece) {
			t.Fatalf("token %d of %v gave the invalid piece %q", id, ids, piece)
		}
		all.WriteString(piece)
	}
	last := s.Flush()
	if !utf8.ValidString(last) {
		t.Fatalf("%v: the last piece %q is invalid", ids, last)
	}
	all.WriteString(last)
	return all.String()
}

var families = []string{"smollm", "llama3", "qwen2", "tekken", "gpt2", "llama2", "mistral", "gemma2", "odd",
	"spm-unigram", "spm-bpe", "spm-gemma", "spm-suffix", "bert", "cased", "unigram", "t5", "gpt-oss", "o200k", "kimi"}

// TestStreamOfCorpusEqualsDecode streams the texts of TestGoldens, every fifth if -short.
func TestStreamOfCorpusEqualsDecode(t *testing.T) {
	texts, step := corpus(t), 1
	if testing.Short() {
		step = 5
	}
	for _, family := range families {
		tok := open(t, "testdata/"+family)
		s := tok.NewStream() // reused: Flush makes it ready again
		for i := 0; i < len(texts); i += step {
			ids := encode(t, tok, texts[i])
			for _, seq := range [][]int32{ids, backwards(ids), everyOther(ids)} {
				if got, want := streamed(t, s, seq), tok.Decode(seq, true); got != want {
					t.Fatalf("%s: %v streams as %q, decodes to %q", family, seq, got, want)
				}
			}
		}
	}
}

// TestStreamEqualsDecode tries sequences that no text encodes to.
func TestStreamEqualsDecode(t *testing.T) {
	for _, family := range families {
		tok := open(t, "testdata/"+family)
		t.Run(family, rapid.MakeCheck(func(t *rapid.T) {
			// Low ids are the bytes and specials, the interesting ones.
			id := rapid.OneOf(rapid.Int32Range(0, 300), rapid.Int32Range(-2, int32(tok.VocabSize())+2))
			ids := rapid.SliceOfN(id, 0, 40).Draw(t, "ids")
			if got, want := streamed(t, tok.NewStream(), ids), tok.Decode(ids, true); got != want {
				t.Fatalf("%v streams as %q, decodes to %q", ids, got, want)
			}
		}))
	}
}

// TestStreamHoldsBack says when text comes out, not only what.
func TestStreamHoldsBack(t *testing.T) {
	push := func(tok *Tokenizer, text string) (pieces []string) {
		s := tok.NewStream()
		ids, err := tok.Encode(text, false)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range ids {
			pieces = append(pieces, s.Push(id))
		}
		return append(pieces, s.Flush())
	}
	// U+1FAE8 is in no merge: four byte tokens.
	got := push(open(t, "testdata/qwen2"), "\U000E0041!")
	if want := []string{"", "", "", "\U000E0041", "!", ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("byte-level: pieces %q, want %q", got, want)
	}
	// With byte fallback the run ends at the first other token.
	got = push(open(t, "testdata/llama2"), "\U000E0041!")
	if want := []string{"", "", "", "", "", "\U000E0041!", ""}; strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("byte fallback: pieces %q, want %q", got, want)
	}
}

// Mark puts special tokens back where they stood, and leaves those out that are behind the end of the text.
func TestMark(t *testing.T) {
	for _, family := range families {
		tok := open(t, "testdata/"+family)
		var special []int32
		keep := map[int32]bool{}
		for id := range int32(tok.VocabSize()) {
			if tok.IsSpecial(id) && len(special) < 4 {
				special, keep[id] = append(special, id), true
			}
		}
		words := encode(t, tok, "one two, three")
		var ids []int32
		for i, id := range words {
			if ids = append(ids, id); len(special) > 0 {
				ids = append(ids, special[i%len(special)])
			}
		}
		text := tok.Decode(ids, true)
		count := map[int32]int{}
		for _, id := range ids {
			count[id]++
		}
		got, cut := tok.Mark(ids, text, keep), tok.Mark(ids, text[:3], keep)
		for _, id := range special {
			if n := strings.Count(got, tok.Token(id)); n != count[id] {
				t.Errorf("%s: %q has %q %d times, want %d", family, got, tok.Token(id), n, count[id])
			}
			got, cut = strings.ReplaceAll(got, tok.Token(id), ""), strings.ReplaceAll(cut, tok.Token(id), "")
		}
		if got != text || cut != text[:3] || tok.Mark(ids, text, nil) != text {
			t.Errorf("%s: %q is %q without special tokens, and its start %q", family, text, got, cut)
		}
	}
}
