package encode_test

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"slices"
	"testing"

	"github.com/quire/quire/backend/setup"
	"github.com/quire/quire/engine/encode"
	"github.com/quire/quire/internal/testenv"
	"github.com/quire/quire/models"
	"github.com/quire/quire/models/sentence"
	"github.com/quire/quire/text/tokenizer"
)

// all-MiniLM-L6-v2 has the tokens and the vectors of sentence-transformers: for texts of several scripts, an empty one,
// and such as are longer than its window.
func TestMiniLMEqualsSentenceTransformers(t *testing.T) {
	path, err := setup.FindModel("minilm")
	if err != nil {
		t.Skip(err)
	}
	var golden struct {
		Cases []struct {
			Text, Vector string
			IDs          []int32
		}
	}
	testenv.ReadGolden(t, "minilm", &golden)
	tok, err := tokenizer.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	model, err := models.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer model.Close()
	if s := model.Sentence; s.Pooling != sentence.Mean || !s.Normalize || s.MaxTokens != 256 || !s.Stated {
		t.Errorf("its settings are read as %+v", s)
	}
	var rows [][]int32
	for _, c := range golden.Cases {
		ids, err := tok.Encode(c.Text, true)
		if err != nil {
			t.Fatal(err)
		}
		if limit := model.Sentence.MaxTokens; len(ids) > limit {
			ids = append(ids[:limit-1:limit-1], ids[len(ids)-1])
		}
		if !slices.Equal(ids, c.IDs) {
			t.Errorf("%.60q: tokens %v, want %v", c.Text, ids, c.IDs)
		}
		rows = append(rows, c.IDs)
	}
	most, least := 0.0, 1.0
	for i, v := range vectors(t, newEncoder(t, encode.Config{Model: model}), rows) {
		data, err := base64.StdEncoding.DecodeString(golden.Cases[i].Vector)
		if err != nil {
			t.Fatal(err)
		}
		want, cosine := make([]float32, len(data)/4), 0.0
		for k := range want {
			want[k] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*k:]))
		}
		sentence.Normalize(v)
		for k := range want {
			cosine += float64(v[k]) * float64(want[k])
		}
		most, least = max(most, apart(v, want)), min(least, cosine)
	}
	t.Logf("%d texts: at most %g apart, cosines at least %.8f", len(rows), most, least)
	if !(most < 2e-5 && least > 0.99999) {
		t.Errorf("vectors are up to %g apart from sentence-transformers, and cosines down to %.8f", most, least)
	}
}
