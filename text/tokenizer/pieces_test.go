package tokenizer

import (
	"bytes"
	"slices"
	"testing"
	"unicode/utf8"
)

// The texts of tokens, one behind the other, are that of the sequence, but for what stands at its beginning.
func TestTokenText(t *testing.T) {
	texts := corpus(t)
	for _, family := range families {
		tok := open(t, "testdata/"+family)
		p, err := tok.Pieces()
		if err != nil { // its decoder makes no text token by token
			continue
		}
		compared := 0
		for i := 0; i < len(texts); i += 20 {
			ids, err := tok.Encode(texts[i], false)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(ids, tok.IsSpecial) {
				continue
			}
			var all []byte
			for _, id := range ids {
				all = append(all, tok.TokenText(id)...)
			}
			for n := 0; n < p.Drops && len(all) > 0 && all[0] == p.Drop; n++ {
				all = all[1:]
			}
			if want := tok.Decode(ids, true); !bytes.Equal(all, []byte(want)) && utf8.Valid(all) {
				t.Fatalf("%s: the tokens %v are %q, decoded %q", family, ids, all, want)
			}
			compared++
		}
		if compared < len(texts)/100 {
			t.Errorf("%s: only %d texts were compared", family, compared)
		}
		for id := range int32(tok.VocabSize()) {
			if got := tok.TokenText(id); tok.IsSpecial(id) && string(got) != tok.Token(id) {
				t.Errorf("%s: the special token %s has the text %q", family, tok.Token(id), got)
			}
		}
		if got := tok.TokenText(int32(tok.VocabSize())); got != nil {
			t.Errorf("%s: a token that is none has the text %q", family, got)
		}
	}
}
