package tokenizer

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"slices"
	"testing"
	"unicode/utf8"
)

// The tokens of XLM-R stand for the characters that Hugging Face's tokenizers say. Texts with control characters have
// an error, and so have a few others, whose normalizer joins characters in ways that are not followed.
func TestSpansOfUnigram(t *testing.T) {
	sums, all := unzip(t, "testdata/spans.bin.gz"), corpus(t)
	for _, folder := range []string{"xlm-r"} {
		tok, controls, refused, wrong := open(t, "testdata/"+folder), 0, 0, 0
		for i := 0; i < len(all); i += 4 {
			text, want := all[i], binary.LittleEndian.Uint32(sums)
			sums = sums[4:]
			if !utf8.ValidString(text) {
				continue
			}
			ids, spans, err := tok.EncodeSpans(text)
			if errors.Is(err, errControls) {
				controls++
				continue
			}
			if err != nil {
				refused++
				t.Logf("%s: %.60q is refused", folder, text)
				continue
			}
			if whole := encode(t, tok, text); !slices.Equal(ids, whole) {
				t.Fatalf("%s: %.60q: tokens %v, and %v without spans", folder, text, ids, whole)
			}
			var flat []byte
			for _, s := range spans {
				flat = binary.LittleEndian.AppendUint32(flat, uint32(s.Start))
				flat = binary.LittleEndian.AppendUint32(flat, uint32(s.End))
			}
			if crc32.ChecksumIEEE(flat) != want {
				if wrong++; wrong < 10 {
					t.Errorf("%s: %.60q: the spans are %v", folder, text, spans)
				}
			}
		}
		t.Logf("%s: %d texts have control characters", folder, controls)
		if refused > 25 || wrong > 0 {
			t.Errorf("%s: of %d texts %d are refused and %d have other spans", folder, len(all)/4, refused, wrong)
		}
	}
}
