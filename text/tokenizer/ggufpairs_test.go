package tokenizer

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/quire/quire/models/gguf"
)

// A GGUF file of BERT encodes pairs as its tokenizer.json does.
func TestPairsOfGGUF(t *testing.T) {
	item := func(kind, id, typeID string) string {
		return `{"` + kind + `":{"id":"` + id + `","type_id":` + typeID + `}}`
	}
	first, end := item("SpecialToken", "[CLS]", "0")+","+item("Sequence", "A", "0"), item("SpecialToken", "[SEP]", "0")
	file, err := Open("testdata/bert.gguf")
	if err != nil {
		t.Fatal(err)
	}
	var frame struct{ CLS, SEP int32 }
	frame.CLS, _ = file.ID("[CLS]")
	frame.SEP, _ = file.ID("[SEP]")
	ids, err := json.Marshal(map[string]map[string]any{"[CLS]": {"ids": []int32{frame.CLS}},
		"[SEP]": {"ids": []int32{frame.SEP}}})
	if err != nil {
		t.Fatal(err)
	}
	folder := tokenizerWith(t, "bert", json.RawMessage(`{"type":"TemplateProcessing","single":[`+first+","+end+
		`],"pair":[`+first+","+end+","+item("Sequence", "B", "1")+","+item("SpecialToken", "[SEP]", "1")+
		`],"special_tokens":`+string(ids)+`}`))
	for _, most := range []int{0, 7} {
		for _, pair := range [][2]string{{"what is it", "an answer of some length"}, {"", "b"}, {"a", ""}} {
			want, second, truncated, err := folder.EncodePair(pair[0], pair[1], most)
			if err != nil {
				t.Fatal(err)
			}
			got, from, cut, err := file.EncodePair(pair[0], pair[1], most)
			if err != nil || !slices.Equal(got, want) || from != second || cut != truncated {
				t.Errorf("%q, at most %d: %v, the second kind from %d, truncated: %t, %v; want %v, %d, %t", pair, most,
					got, from, cut, err, want, second, truncated)
			}
		}
	}
}

// flags are metadata of flags alone.
type flags map[string]bool

func (f flags) String(string) (string, bool)    { return "", false }
func (f flags) Strings(string) ([]string, bool) { return nil, false }
func (f flags) Int(string) (int64, bool)        { return 0, false }
func (f flags) Ints(string) ([]int64, bool)     { return nil, false }
func (f flags) Floats(string) ([]float64, bool) { return nil, false }
func (f flags) Bool(key string) (set, ok bool)  { set, ok = f[key]; return }
func (f flags) Has(key string) bool             { _, ok := f[key]; return ok }

var _ gguf.Metadata = flags{}

// RoBERTa and XLM-R have another separator between the texts, unless the file says otherwise.
func TestSeparatorsOfGGUF(t *testing.T) {
	p := &parts{specials: Specials{BOS: 0, EOS: 2}, names: map[string]string{},
		vocab: map[string]int32{"</s>": 2, "|": 9},
		frame: frame{before: []int32{0}, after: []int32{2}}}
	if f := p.ggufPair(flags{}, false); !slices.Equal(f.between, []int32{2, 2}) || f.kept != oneKind {
		t.Errorf("%+v", f)
	}
	if f := p.ggufPair(flags{"tokenizer.ggml.add_sep_token": false}, false); !slices.Equal(f.between, []int32{2}) {
		t.Errorf("%+v", f)
	}
	p.names["sep_token"] = "|"
	if f := p.ggufPair(flags{}, false); !slices.Equal(f.between, []int32{2, 9}) {
		t.Errorf("%+v", f)
	}
	delete(p.names, "sep_token")
	p.specials.EOS = -1
	if f := p.ggufPair(flags{}, false); f.wrong == nil || !strings.Contains(f.wrong.Error(), "does not name it") {
		t.Errorf("%+v", f)
	}
}
