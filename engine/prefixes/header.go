package prefixes

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"reflect"
	"strings"
)

// A snapshot is the keys and values of a prefix in a file, so that another process need not run it. All numbers are
// little-endian:
//
//	"QUIREKV2"; uint32 length and JSON of snapshotHeader; int32 token ids; the pages, 16 at a time,
//	layer by layer, as on the device;
//	SHA-256 of all before it.
const snapshotMagic = "QUIREKV2"

// computedVersion grows with every change after which the same tokens get other keys and values. Then the output
// version of package batch grows too.
const computedVersion = 3

// snapshotHeader is what the contents depend on. A file is rejected if any of it differs.
type snapshotHeader struct {
	Model    string `json:"model"` // its fingerprint
	DType    string `json:"dtype"`
	Weights  string `json:"weights,omitempty"`
	KVDType  string `json:"kv_dtype"`
	PageSize int    `json:"page_size"`
	Layers   int    `json:"layers"`
	KVHeads  int    `json:"kv_heads"`
	HeadDim  int    `json:"head_dim"`
	ByHead   bool   `json:"by_head,omitempty"` // the order in a page: see [attention.Layout]
	// that run the model together, if there are several: each has its own part of a page
	Devices  int    `json:"devices,omitempty"`
	LongRope bool   `json:"long_rope,omitempty"`
	Computed string `json:"computed"` // platform and kernels: others round otherwise
	Version  int    `json:"version"`  // computedVersion; 0 in files that were written before there was one
	Tokens   int    `json:"tokens"`
}

// Errors of snapshots, to be distinguished by errors.Is.
var (
	// ErrSnapshotMismatch reports that the file is for another model, dtype, page size, platform, kernels or version;
	// the text names what differs.
	ErrSnapshotMismatch = errors.New("the snapshot does not fit")
	// ErrSnapshotCorrupt: the file is no snapshot, is cut short, or its checksum is wrong.
	ErrSnapshotCorrupt = errors.New("the snapshot is damaged")
	// ErrNoHostMemory: Config.HostKVMemory is 0, or too small for the prefix.
	ErrNoHostMemory = errors.New("there is no host memory for keys and values")
)

// maxSnapshotHeader bounds what is read on a file's word.
const maxSnapshotHeader = 1 << 16

// difference names the first field in which two headers differ, but for the number of tokens.
func (h snapshotHeader) difference(file snapshotHeader) string {
	want, actual := reflect.ValueOf(h), reflect.ValueOf(file)
	for i := range want.NumField() {
		name, _, _ := strings.Cut(want.Type().Field(i).Tag.Get("json"), ",")
		if name != "tokens" && !want.Field(i).Equal(actual.Field(i)) {
			return fmt.Sprintf("%s is %v in the file and %v here", name, actual.Field(i), want.Field(i))
		}
	}
	return ""
}

// SnapshotInfo describes the file of a prefix.
type SnapshotInfo struct {
	Tokens         int
	Model          string // fingerprint of its files
	DType, KVDType string
	PageSize       int
	Computed       string // platform and kernels
}

// ReadSnapshotInfo reads what Save wrote, but for the keys and values, whose checksum it does not check.
func ReadSnapshotInfo(r io.Reader) (SnapshotInfo, error) {
	in := &checked{r: bufio.NewReader(r), sum: sha256.New()}
	h, err := in.header()
	return SnapshotInfo{Tokens: h.Tokens, Model: h.Model, DType: h.DType, KVDType: h.KVDType, PageSize: h.PageSize,
		Computed: h.Computed}, err
}

// header reads the start of a file.
func (in *checked) header() (header snapshotHeader, err error) {
	magic := make([]byte, len(snapshotMagic))
	var size uint32
	in.read(magic)
	if in.err == nil && string(magic) != snapshotMagic {
		return header, fmt.Errorf("%w: it does not begin with %s", ErrSnapshotCorrupt, snapshotMagic)
	}
	in.read(&size)
	if size > maxSnapshotHeader {
		return header, fmt.Errorf("%w: a header of %d bytes", ErrSnapshotCorrupt, size)
	}
	text := make([]byte, size)
	in.read(text)
	if in.err != nil {
		return header, in.err
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&header); err != nil {
		return header, fmt.Errorf("%w: %w", ErrSnapshotCorrupt, err)
	}
	return header, nil
}

// checked reads and adds up a checksum; after an error it does nothing.
type checked struct {
	r   io.Reader
	sum hash.Hash
	err error
}

func (c *checked) read(into any) {
	if c.err != nil {
		return
	}
	if err := binary.Read(io.TeeReader(c.r, c.sum), binary.LittleEndian, into); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = fmt.Errorf("%w: it is cut short", ErrSnapshotCorrupt)
		}
		c.err = err
	}
}
