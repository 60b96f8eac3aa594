package completion

import (
	"github.com/quire/quire/promptset/record"
)

// Names of metadata of a job that answers have, too.
const (
	MetaModel       = "quire.model"
	MetaFingerprint = "quire.model_fingerprint"
	MetaParameters  = "quire.parameters"
)

// TokenText returns the bytes that a token adds to a text, or its name where it is a special one.
type TokenText func(id int32) []byte

// EncoderOptions are what the encoder of a part has to know beside its columns; see [promptset.WriterOptions].
type EncoderOptions struct {
	Meta      map[string]string
	TokenText TokenText
}

// Encoder writes one part.
type Encoder interface {
	// Add writes the rows of a finished input row and returns their number and size.
	Add(row *record.Row, results []Result) (rows, bytes int64, err error)
	// Finish writes what is left of the part; nothing may be added after it.
	Finish() error
}
