package folder

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"github.com/quire/quire/tally"
)

// PartSummary is what a part came to: the note that is kept of it. Those of older versions have no size and no digests.
type PartSummary struct {
	Part int `json:"part"`
	tally.Counts

	SHA256 string `json:"sha256,omitempty"` // of the file, in hex
	Seal

	Changes int `json:"changes,omitempty"` // that the job had when the part was written
}

// Seal tells a part from others, and from itself cut off, by a look at its end: in a Parquet file, the sizes and
// places of its columns and the bounds of its ids; in JSONL, the last rows.
type Seal struct {
	Bytes int64  `json:"bytes,omitempty"` // of the file
	Tail  string `json:"tail,omitempty"`  // the first half of the SHA-256 of its last sealBytes, in hex
}

// SealBytes is how much of the end of a part its seal covers. Notes that are on disk depend on it.
const SealBytes = 16 << 10

// Sealed says whether the note has size and digests.
func (s *PartSummary) Sealed() bool { return s.SHA256 != "" }

// ErrNote says that bytes are not the note of a part.
var ErrNote = errors.New("not the note of a part")

// ParsePartSummary reads the JSON of a [PartSummary]. The error is [ErrNote].
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

// SealOf looks at the size and the last bytes of a file.
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
	// An object is asked for these bytes alone, and not for what is before them.
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
	tail  []byte // the last sealBytes, or more
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

// Sums are the digest and the seal of all that was written.
func (m *Measured) Sums() (digest string, seal Seal) {
	return hex.EncodeToString(m.hash.Sum(nil)), sealed(m.bytes, m.tail[max(0, len(m.tail)-SealBytes):])
}

// File is a published file.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64 // bytes
	// Version is another one when the file was written again, where files are: an object's ETag.
	Version() string
}
