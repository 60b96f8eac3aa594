package stopping_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/ops/stopping"
	"github.com/quire/quire/text/tokenizer"
)

// tokenizers are those of the package tokenizer's tests, whose text is that of their pieces.
func tokenizers(t testing.TB) map[string]*tokenizer.Tokenizer {
	t.Helper()
	all := map[string]*tokenizer.Tokenizer{}
	for _, name := range []string{"smollm", "llama3", "tekken", "gpt2", "llama2", "mistral", "gemma2", "spm.gguf"} {
		all[name] = open(t, testenv.Path("text", "tokenizer", "testdata", name))
	}
	return all
}

func open(t testing.TB, path string) *tokenizer.Tokenizer {
	t.Helper()
	tok, err := tokenizer.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// odd makes tokenizers with decoders that no common model has.
func odd(t testing.TB, decoder string) *tokenizer.Tokenizer {
	t.Helper()
	text := `{"model":{"type":"BPE","byte_fallback":true,"vocab":{"<unk>":0,"a":1,"b":2,"▁":3,"▁a":4,"ab":5,"é":6,
		"<0xC3>":7,"<0xA9>":8,"<0xEF>":9,"<0xBF>":10,"<0xBD>":11,"<0x61>":12,"x":13,"▁▁":14,"Ã":15,"©":16},"merges":[]},
		"decoder":` + decoder + `}`
	path := filepath.Join(t.TempDir(), "tokenizer.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return open(t, path)
}

// text returns the text that a stream makes of tokens, and its length after each.
func text(tok *tokenizer.Tokenizer, tokens []int32) (string, []int) {
	all, lens := "", []int{}
	s := tok.NewStream()
	for _, token := range tokens {
		all += s.Push(token)
		lens = append(lens, len(all))
	}
	return all, lens
}

// found returns after which tokens there is a stop that ends in what they added.
func found(all string, lens []int, stops []string) []bool {
	list, old := make([]bool, len(lens)), 0
	for i, n := range lens {
		for _, stop := range stops {
			if n > old && strings.Contains(all[max(0, old-len(stop)+1):n], stop) {
				list[i] = true
			}
		}
		old = n
	}
	return list
}

// walked is what the automaton finds.
func walked(p *tokenizer.Pieces, a *stopping.Automaton, tokens []int32) []bool {
	list, state := make([]bool, len(tokens)), int32(0)
	for i, token := range tokens {
		if token >= 0 && int(token) < len(p.Starts)-1 {
			state, list[i] = a.Walk(state, p.Bytes[p.Starts[token]:p.Starts[token+1]])
		}
	}
	return list
}

// drawStops generates strings, some of which are in a text.
func drawStops(t *rapid.T, all string) []string {
	var stops []string
	for range rapid.IntRange(1, 4).Draw(t, "stops") {
		stop := rapid.SampledFrom([]string{"a", " ", "\uFFFD", "\uFFFD\uFFFD", "é", "ab", "\n\n", "aa"}).Draw(t, "stop")
		if runes := []rune(all); len(runes) > 0 && rapid.IntRange(0, 3).Draw(t, "of the text") > 0 {
			at := rapid.IntRange(0, len(runes)-1).Draw(t, "from")
			stop = string(runes[at:min(len(runes), at+rapid.IntRange(1, 12).Draw(t, "length"))])
		}
		stops = append(stops, stop)
	}
	return stops
}

// The automaton finds stops after the same tokens as a host that decodes token by token: byte tokens, characters in
// several tokens, invalid ones, special tokens, ids beyond the vocabulary.
func TestFindsWhatTheTextHas(t *testing.T) {
	all := tokenizers(t)
	fuse := `{"type":"Fuse"}`
	replace := `{"type":"Replace","pattern":{"String":"▁"},"content":" "}`
	for name, decoder := range map[string]string{
		"strips three": `[` + replace + `,{"type":"ByteFallback"},` + fuse +
			`,{"type":"Strip","content":" ","start":3,"stop":0}]`,
		"strips a letter": `[{"type":"ByteFallback"},` + fuse + `,{"type":"Strip","content":"a","start":2,"stop":0}]`,
		"no byte tokens":  `[` + replace + `,` + fuse + `]`,
		"empty tokens":    `[{"type":"Replace","pattern":{"String":"x"},"content":""},{"type":"ByteFallback"}]`,
		"strips tokens":   `[{"type":"Strip","content":"a","start":1,"stop":1},{"type":"ByteFallback"}]`,
		"byte level":      `[{"type":"ByteLevel"},{"type":"Strip","content":"b","start":1,"stop":0}]`,
		"never prepends":  `[{"type":"Metaspace","replacement":"▁","prepend_scheme":"never"}]`,
	} {
		all[name] = odd(t, `{"type":"Sequence","decoders":`+decoder+`}`)
	}
	for name, tok := range all {
		p, err := tok.Pieces()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		hits := 0
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			id := rapid.OneOf(rapid.Int32Range(0, min(300, int32(tok.VocabSize())-1)),
				rapid.Int32Range(0, int32(tok.VocabSize())+2))
			tokens := rapid.SliceOfN(id, 0, 40).Draw(t, "tokens")
			if rapid.Bool().Draw(t, "of a text") {
				var err error
				if tokens, err = tok.Encode(rapid.StringMatching(`( |a|b|é|\x{FFFD}|🫨|日本|\n){0,30}`).Draw(t, "text"),
					false); err != nil {
					t.Fatal(err)
				}
			}
			text, lens := text(tok, tokens)
			stops := drawStops(t, text)
			a, err := stopping.Compile(p, stops, 1<<12)
			if err != nil {
				t.Fatal(err)
			}
			want, got := found(text, lens, stops), walked(p, a, tokens)
			if !slices.Equal(got, want) {
				t.Fatalf("tokens %v are %q; stops %q are found at %v, want %v", tokens, text, stops, got, want)
			}
			if slices.Contains(want, true) {
				hits++
			}
		}))
		if hits == 0 {
			t.Errorf("%s: no stop was ever found", name)
		}
	}
}

// Decoders whose text is not the text of pieces report it.
func TestDecodersWithoutPieces(t *testing.T) {
	for _, decoder := range []string{`null`, `{"type":"Metaspace","replacement":"▁","prepend_scheme":"always"}`,
		`{"type":"Sequence","decoders":[{"type":"ByteFallback"},{"type":"Replace","pattern":{"String":"a"},"content":"b"}]}`,
		`{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"Strip","content":"a","start":0,"stop":1}]}`} {
		if p, err := odd(t, decoder).Pieces(); err == nil {
			t.Errorf("decoder %s: %+v", decoder, p)
		}
	}
}

// Sequences of tokens are found wherever they end, also within each other.
func TestSequencesOfTokens(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		token := rapid.SampledFrom([]int32{1, 2, 3, 257, 258, 65537, 131072 + 257})
		sequences := rapid.SliceOfN(rapid.SliceOfN(token, 1, 4), 1, 5).Draw(t, "sequences")
		tokens := rapid.SliceOfN(token, 0, 40).Draw(t, "tokens")
		a, err := stopping.CompileTokens(sequences, 1<<12)
		if err != nil {
			t.Fatal(err)
		}
		state := int32(0)
		for i, token := range tokens {
			want := slices.ContainsFunc(sequences, func(s []int32) bool {
				return len(s) <= i+1 && slices.Equal(s, tokens[i+1-len(s):i+1])
			})
			var got bool
			if state, got = a.Walk(state, stopping.TokenSymbols(token)); got != want {
				t.Fatalf("%v at %d of %v: %v, want %v", sequences, i, tokens, got, want)
			}
		}
	})
	var every [][]int32
	for token := range int32(128000) {
		every = append(every, []int32{token})
	}
	a, err := stopping.CompileTokens(every, 1000)
	if err != nil || a.States() > 510 {
		t.Errorf("all tokens of a vocabulary: %v, %v", a.States(), err)
	}
}

// Stops that need more states than there may be are refused.
func TestTooLarge(t *testing.T) {
	p := &tokenizer.Pieces{Form: tokenizer.ByteLevelPieces}
	for _, stops := range [][]string{{strings.Repeat("a", 100)}, {strings.Repeat("\uFFFDa", 20)}} {
		if _, err := stopping.Compile(p, stops, 100); !errors.Is(err, stopping.ErrTooLarge) {
			t.Errorf("%q: %v", stops, err)
		}
	}
	if a, err := stopping.Compile(p, []string{strings.Repeat("a", 80)}, 100); err != nil {
		t.Error(a.States(), err)
	}
	if _, err := stopping.Compile(&tokenizer.Pieces{Drops: 1 << 30}, []string{"a"}, 100); !errors.Is(err,
		stopping.ErrTooLarge) {
		t.Error(err)
	}
	if _, err := stopping.CompileTokens([][]int32{make([]int32, 100)}, 100); !errors.Is(err, stopping.ErrTooLarge) {
		t.Error(err)
	}
}

// FuzzCompile reads any bytes as tokens of one byte, and compares with what a decoder of the standard library and a
// search find.
func FuzzCompile(f *testing.F) {
	f.Add("a", "ab", []byte("xxab"))
	f.Add("\uFFFD", "é\uFFFD", []byte("a\xc3\xa9\xc3\xff\xe0\x80"))
	f.Add("日本", "本", []byte("\xe6\x97\xa5\xe6\x9c\xac\xf0\x90"))
	f.Fuzz(func(t *testing.T, one, two string, data []byte) {
		var stops []string
		for _, s := range []string{one, two} {
			if s != "" && utf8.ValidString(s) && len(s) < 200 {
				stops = append(stops, s)
			}
		}
		if len(stops) == 0 || len(data) > 1000 {
			return
		}
		a, err := stopping.Compile(&tokenizer.Pieces{Form: tokenizer.ByteLevelPieces}, stops, 1<<14)
		if err != nil {
			t.Skip(err)
		}
		for i, next := range a.Next {
			if next = max(next, ^next); int(next) >= a.States() {
				t.Fatalf("entry %d leads to %d of %d states", i, next, a.States())
			}
		}
		state, any := int32(0), false
		for i := range data {
			var got bool
			state, got = a.Walk(state, data[i:i+1])
			any = any || got
		}
		// What may be the beginning of a character is not text yet.
		whole := len(data)
		for cut := 1; cut < utf8.UTFMax && cut <= len(data); cut++ {
			if tail := data[len(data)-cut:]; !utf8.FullRune(tail) && utf8.RuneStart(tail[0]) {
				whole = len(data) - cut
			}
		}
		text := strings.ToValidUTF8(string(data[:whole]), "\uFFFD") // joins what are several: compare without
		want := false
		for _, s := range stops {
			want = want || !strings.Contains(s, "\uFFFD") && strings.Contains(text, s)
		}
		if lossy := strings.Contains(fmt.Sprint(stops), "\uFFFD"); any != want && !(lossy && any) {
			t.Fatalf("stops %q in %q: %v, want %v", stops, data, any, want)
		}
	})
}
