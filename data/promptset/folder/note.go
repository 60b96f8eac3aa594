package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/quire/quire/data/tally"
)

// PartSummary is the note on a part: its figures. Notes of older versions have no size and no digests.
type PartSummary struct {
	Part int `json:"part"`
	tally.Counts

	SHA256 string `json:"sha256,omitempty"` // SHA-256 of the file, in hex
	Seal

	Changes int `json:"changes,omitempty"` // number of the job's changes when the part was written
}

// Seal identifies a part by its end, which also reveals truncation. The end of a Parquet file has the sizes and
// places of its columns and the bounds of its ids; the end of JSONL has the last rows.
type Seal struct {
	Bytes int64  `json:"bytes,omitempty"` // size of the file
	Tail  string `json:"tail,omitempty"`  // the first half of the SHA-256 of its last SealBytes, in hex
}

// SealBytes is how much of the end of a part its seal covers. Existing notes depend on it.
const SealBytes = 16 << 10

// Sealed reports whether the note has size and digests.
func (s *PartSummary) Sealed() bool { return s.SHA256 != "" }

// ErrNote reports that bytes are not the note on a part.
var ErrNote = errors.New("not the note of a part")

// ParsePartSummary parses the JSON of a [PartSummary]. The error is [ErrNote].
func ParsePartSummary(b []byte) (s PartSummary, err error) {
	if err := json.Unmarshal(b, &s); err != nil {
		return PartSummary{}, fmt.Errorf("%w: %v", ErrNote, err)
	}
	r := s.FinishReasons
	if min(int64(s.Part), int64(s.Changes), s.Rows, s.RowsWithErrors, s.Completions, s.PromptTokens,
		s.CompletionTokens, s.Bytes, r.Stop, r.Length, r.ToolCalls, r.Error, r.Unknown) < 0 {
		return PartSummary{}, fmt.Errorf("%w: it has a negative number", ErrNote)
	}
	if isDigest(s.SHA256, sha256.Size) != isDigest(s.Tail, sha256.Size/2) || s.SHA256 != "" && !isDigest(s.SHA256,
		sha256.Size) {
		return PartSummary{}, fmt.Errorf("%w: its digests are not well formed", ErrNote)
	}
	return s, nil
}

func isDigest(text string, size int) bool {
	b, err := hex.DecodeString(text)
	return err == nil && len(b) == size
}

// SealOf reads the size and the last bytes of a file.
func SealOf(f File) (Seal, error) {
	size := f.Size()
	tail := make([]byte, min(size, SealBytes))
	read := func() error {
		n, err := f.ReadAt(tail, size-int64(len(tail)))
		if n == len(tail) {
			return nil
		}
		return err
	}
	// Ask an object for these bytes only, without read-ahead or the bytes before them.
	if object, ok := f.(interface{ ReadRange([]byte, int64) error }); ok {
		read = func() error { return object.ReadRange(tail, size-int64(len(tail))) }
	}
	if len(tail) > 0 {
		if err := read(); err != nil {
			return Seal{}, err
		}
	}
	return sealed(size, tail), nil
}

func sealed(size int64, tail []byte) Seal {
	sum := sha256.Sum256(tail)
	return Seal{size, hex.EncodeToString(sum[:sha256.Size/2])}
}

// Measured counts and hashes what is written through it.
type Measured struct {
	w     io.Writer
	bytes int64
	hash  hash.Hash
	tail  []byte // the last SealBytes, or more
}

func NewMeasured(w io.Writer) *Measured { return &Measured{w: w, hash: sha256.New()} }

func (m *Measured) Write(b []byte) (int, error) {
	n, err := m.w.Write(b)
	m.add(b[:n])
	return n, err
}

func (m *Measured) add(b []byte) {
	m.bytes += int64(len(b))
	m.hash.Write(b)
	if len(b) > SealBytes {
		b = b[len(b)-SealBytes:]
	}
	if len(m.tail)+len(b) > 4*SealBytes {
		m.tail = append(m.tail[:0], m.tail[len(m.tail)-SealBytes:]...)
	}
	m.tail = append(m.tail, b...)
}

// Sums returns the digest and the seal of everything written.
func (m *Measured) Sums() (digest string, seal Seal) {
	return hex.EncodeToString(m.hash.Sum(nil)), sealed(m.bytes, m.tail[max(0, len(m.tail)-SealBytes):])
}

// File is a published file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // size in bytes
	// Version changes when the file is written again in place, as in object stores: it is an object's ETag.
	Version() string
}
