package tokenizer

import (
	"compress/gzip"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// tokenizerWith opens a tokenizer of testdata with another post-processor, or its own for null.
func tokenizerWith(t *testing.T, folder string, post json.RawMessage) *Tokenizer {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", folder, "tokenizer.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file map[string]json.RawMessage
	if err := json.Unmarshal(data, &file); err != nil {
		t.Fatal(err)
	}
	if string(post) != "null" {
		file["post_processor"] = post
	}
	if data, err = json.Marshal(file); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "tokenizer.json"), data, 0o644); err != nil {
		t.Fatal(err)
	}
	tok, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// Pairs have the tokens of Hugging Face's tokenizers and their kinds, whole and truncated.
func TestPairs(t *testing.T) {
	f, err := os.Open(filepath.Join("testdata", "pairs.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	var all []struct {
		Folder string
		Post   json.RawMessage
		Cases  []struct {
			A, B       string
			Most       int
			IDs, Kinds []int32
			Truncated  bool
		}
	}
	if err := json.NewDecoder(z).Decode(&all); err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		tok := tokenizerWith(t, one.Folder, one.Post)
		for _, c := range one.Cases {
			ids, second, truncated, err := tok.EncodePair(c.A, c.B, c.Most)
			if err != nil {
				t.Fatal(err)
			}
			kinds := make([]int32, len(ids))
			for i := range kinds {
				if second > 0 && i >= second {
					kinds[i] = 1
				}
			}
			if !slices.Equal(ids, c.IDs) || truncated != c.Truncated || !slices.Equal(kinds, c.Kinds) &&
				len(c.A) > 0 {
				t.Errorf("%s %.20s: %q and %q, at most %d: %v of kinds %v, truncated: %t; want %v, %v, %t", one.Folder,
					one.Post, c.A, c.B, c.Most, ids, kinds, truncated, c.IDs, c.Kinds, c.Truncated)
			}
		}
	}
}

// What a template does with pairs that is not done here is refused when a pair comes, and single texts are encoded.
func TestRefusedPairs(t *testing.T) {
	item := func(kind, id, typeID string) string {
		return `{"` + kind + `":{"id":"` + id + `","type_id":` + typeID + `}}`
	}
	a, b, sep := item("Sequence", "A", "0"), item("Sequence", "B", "1"), item("SpecialToken", "[SEP]", "1")
	for want, pair := range map[string]string{
		"leaves a text out":                            a,
		"has the texts in another order than A, B":     item("Sequence", "B", "0") + "," + a,
		"has kinds of tokens other than 0 and then 1":  item("Sequence", "A", "2") + "," + b,
		"has a first text of the second kind":          item("Sequence", "A", "1") + "," + b,
		"does not begin before the second text":        a + "," + item("Sequence", "B", "0") + "," + sep,
		`has the special token "[X]" without ids`:      a + "," + item("SpecialToken", "[X]", "0") + "," + b,
		"an item that is neither Sequence nor Special": a + "," + `{"X":{}}` + "," + b,
	} {
		tok := tokenizerWith(t, "bert", json.RawMessage(`{"type":"TemplateProcessing","single":[`+a+`],"pair":[`+pair+
			`],"special_tokens":{"[SEP]":{"ids":[3]}}}`))
		if _, _, _, err := tok.EncodePair("a", "b", 0); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if ids, err := tok.Encode("hello", true); err != nil || len(ids) == 0 {
			t.Errorf("a single text: %v %v", ids, err)
		}
	}
	if _, _, _, err := tokenizerWith(t, "bert", json.RawMessage("null")).EncodePair("a", "b", 2); err == nil ||
		!strings.Contains(err.Error(), "a pair has 3 special tokens") {
		t.Errorf("no room: %v", err)
	}
}
