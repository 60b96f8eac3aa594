package completion

import (
	"github.com/quire/quire/data/promptset/record"
)

// The metadata of a job that answers also have.
const (
	MetaModel       = "quire.model"
	MetaFingerprint = "quire.model_fingerprint"
	MetaParameters  = "quire.parameters"
	// MetaScale is what the integers of vectors are multiplied with: see [VectorType.Scale].
	MetaScale = "quire.embedding_scale"
	// MetaLabels are the labels of scores, as a JSON list.
	MetaLabels = "quire.labels"
)

// TokenText returns the bytes that a token adds to a text, or its name if it is a special token.
type TokenText func(id int32) []byte

// EncoderOptions are what a part's encoder needs in addition to its columns; see [promptset.WriterOptions].
type EncoderOptions struct {
	Meta      map[string]string
	TokenText TokenText
}

// Encoder writes one part.
type Encoder interface {
	// Add writes the output rows of a finished input row and returns their number and size.
	Add(row *record.Row, results []Result) (rows, bytes int64, err error)
	// Finish writes the rest of the part; nothing may be added after it.
	Finish() error
}
