package masking_test

import (
	"slices"
	"testing"

	"github.com/quire/quire/ops/masking"
	"github.com/quire/quire/text/grammar"
	"github.com/quire/quire/text/tokenizer"
)

// With a vocabulary as SentencePiece makes it, the text loses a space at its start, and a character may come as bytes.
func TestSentencePieces(t *testing.T) {
	texts := []string{"", " yes", "yes", "ye", "s", " ", " no", "  yes", "é", "\xff\xc3", "\xff\xa9", " é"}
	p := &tokenizer.Pieces{Form: tokenizer.FallbackPieces, Starts: []int32{0}, Drop: ' ', Drops: 1}
	for _, text := range texts {
		p.Bytes = append(p.Bytes, text...)
		p.Starts = append(p.Starts, int32(len(p.Bytes)))
	}
	v := masking.NewVocabulary(p, len(texts), []int32{0})
	a, err := grammar.Choices([]string{"yes", " no", "éé"})
	if err != nil {
		t.Fatal(err)
	}
	text := masking.NewText(a, v)
	for _, c := range []struct{ drawn, may []int32 }{
		{nil, []int32{1, 2, 3, 5, 8, 9, 11}},
		{[]int32{5}, []int32{2, 3, 6, 5, 8, 9}}, // the space is lost, the next one is not
		{[]int32{5, 5}, nil},                    // no token goes on with "no"
		{[]int32{5, 6}, []int32{0}},
		{[]int32{3}, []int32{4}},
		{[]int32{1}, []int32{0}},
		{[]int32{9}, []int32{10}},
		{[]int32{9, 10}, []int32{8, 9}},
		{[]int32{11, 9, 10}, []int32{0}},
	} {
		state := text.Start()
		for _, token := range c.drawn {
			for _, b := range v.Of(token) {
				state = text.Next(state, b)
			}
		}
		mask := []uint32{0}
		text.Mask(state, mask)
		var may []int32
		for token := range int32(len(texts)) {
			if masking.Has(mask, token) {
				may = append(may, token)
			}
		}
		slices.Sort(c.may)
		if !slices.Equal(may, c.may) {
			t.Errorf("behind %v may come %v, want %v", c.drawn, may, c.may)
		}
	}
}
