package openai

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
)

// ListObject is the object of an answer with data.
const ListObject = "list"

// Datum is what an encoder gives for a text: a vector, the scores of classes, or the score of a pair.
type Datum struct {
	Object string `json:"object,omitempty"`
	Index  int    `json:"index"`
	// Vector is a list of numbers, or base64 of little-endian float32.
	Vector json.RawMessage `json:"embedding,omitempty"`
	Label  *string         `json:"label,omitempty"`
	Probs  []float32       `json:"probs,omitempty"`
	Count  int             `json:"num_classes,omitempty"`
	Score  *float32        `json:"score,omitempty"`
}

// Ranked is a document with its score.
type Ranked struct {
	Index    int       `json:"index"`
	Document *Document `json:"document,omitempty"`
	Score    float32   `json:"relevance_score"`
}

// Document is a text that was ranked.
type Document struct {
	Text string `json:"text"`
}

// NewEmbedding returns a vector of an answer, in base64 or as numbers.
func NewEmbedding(index int, vector []float32, inBase64 bool) Datum {
	e := Datum{Object: "embedding", Index: index}
	if !inBase64 {
		e.Vector, _ = json.Marshal(vector) // vectors have finite numbers
		return e
	}
	var raw []byte
	for _, v := range vector {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(v))
	}
	e.Vector, _ = json.Marshal(base64.StdEncoding.EncodeToString(raw))
	return e
}

// Numbers returns the numbers of a vector; false means that it is in neither form.
func (e *Datum) Numbers() (vector []float32, ok bool) {
	var text string
	if json.Unmarshal(e.Vector, &text) != nil {
		return vector, json.Unmarshal(e.Vector, &vector) == nil
	}
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(raw)%4 != 0 {
		return nil, false
	}
	for ; len(raw) > 0; raw = raw[4:] {
		vector = append(vector, math.Float32frombits(binary.LittleEndian.Uint32(raw)))
	}
	return vector, true
}
