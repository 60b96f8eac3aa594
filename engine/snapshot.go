package engine

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"reflect"
	"strings"

	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/schedule"
	"github.com/quire/quire/prefix"
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
const computedVersion = 2

// snapshotHeader says what the contents depend on. A file is refused where any of it differs.
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

// Errors of snapshots, to be told apart by errors.Is.
var (
	// ErrSnapshotMismatch: the file is of another model, dtype, page size, platform, kernels or version; the text names
	// what differs.
	ErrSnapshotMismatch = errors.New("the snapshot does not fit")
	// ErrSnapshotCorrupt: the file is no snapshot, is cut short, or its checksum is wrong.
	ErrSnapshotCorrupt = errors.New("the snapshot is damaged")
	// ErrNoHostMemory: Config.HostKVMemory is 0, or too small for the prefix.
	ErrNoHostMemory = errors.New("there is no host memory for keys and values")
)

// maxSnapshotHeader bounds what is read on a file's word.
const maxSnapshotHeader = 1 << 16

func (e *Engine) snapshotHeader(tokens int) snapshotHeader {
	cfg := e.settled.Model
	h := snapshotHeader{Model: e.cfg.Model.FingerPrint(), DType: e.plan.DType, Weights: e.plan.Weights,
		KVDType: e.plan.KVDType, PageSize: e.plan.PageSize,
		Layers: cfg.NumLayers, KVHeads: cfg.NumKVHeads, HeadDim: cfg.HeadDim, Tokens: tokens,
		ByHead: e.settled.CachesByHead(), LongRope: cfg.LongRope(), Computed: e.cfg.Backend.Name(),
		Version: computedVersion}
	if e.plan.Devices > 1 {
		h.Devices = e.plan.Devices
	}
	if b, ok := e.cfg.Backend.(interface {
		Platform() string
		Kernels() string
	}); ok {
		h.Computed = b.Platform() + " " + b.Kernels()
	}
	return h
}

// difference names the first field in which two headers differ, but for the number of tokens.
func (h snapshotHeader) difference(file snapshotHeader) string {
	want, got := reflect.ValueOf(h), reflect.ValueOf(file)
	for i := range want.NumField() {
		name, _, _ := strings.Cut(want.Type().Field(i).Tag.Get("json"), ",")
		if name != "tokens" && !want.Field(i).Equal(got.Field(i)) {
			return fmt.Sprintf("%s is %v in the file and %v here", name, got.Field(i), want.Field(i))
		}
	}
	return ""
}

// SavePrefix runs the tokens, if they are not there already, and writes the keys and values of their full pages to w.
// It returns how many tokens these are. It needs Config.HostKVMemory. While Run is under way it returns [ErrRunning].
func (e *Engine) SavePrefix(ctx context.Context, tokens []int32, w io.Writer) (saved int, err error) {
	if e.inStep != nil {
		return 0, fmt.Errorf("%w: each has a part of a prefix, and a file has all", ErrSeveralHosts)
	}
	err = e.alone(func() error { saved, err = e.savePrefix(ctx, tokens, w); return err })
	return saved, err
}

func (e *Engine) savePrefix(ctx context.Context, tokens []int32, w io.Writer) (saved int, err error) {
	blocks, chain, err := e.keepPrefix(ctx, tokens, false)
	if err != nil {
		return 0, err
	}
	n := len(chain) * e.plan.PageSize
	text, err := json.Marshal(e.snapshotHeader(n))
	if err != nil {
		return 0, err
	}
	sum := sha256.New()
	buffered := bufio.NewWriterSize(w, 1<<20)
	out := io.MultiWriter(buffered, sum)
	if _, err := io.WriteString(out, snapshotMagic); err != nil {
		return 0, err
	}
	parts := []any{uint32(len(text)), text, tokens[:n]}
	write := func(parts []any) error {
		for _, part := range parts {
			if err := binary.Write(out, binary.LittleEndian, part); err != nil {
				return err
			}
		}
		return nil
	}
	if err := write(parts); err != nil {
		return 0, err
	}
	for _, k := range blocks {
		layers, err := k.Block.(*block).wait() // the blocks behind it come while this one is written
		if err != nil {
			e.hostCache.Remove(k)
			return 0, err
		}
		if err := write(layers); err != nil {
			return 0, err
		}
	}
	if _, err := buffered.Write(sum.Sum(nil)); err != nil {
		return 0, err
	}
	return n, buffered.Flush()
}

// LoadPrefix reads what SavePrefix wrote, and pins it: every prompt that begins with these tokens takes them over,
// until UnpinPrefix. It needs Config.HostKVMemory. While Run is under way it returns [ErrRunning].
func (e *Engine) LoadPrefix(r io.Reader) (tokens []int32, err error) {
	switch {
	case e.inStep != nil:
		return nil, fmt.Errorf("%w: each has a part of a prefix, and a file has all", ErrSeveralHosts)
	case e.hostCache == nil:
		return nil, fmt.Errorf("%w: give the engine some to load a prefix", ErrNoHostMemory)
	}
	err = e.alone(func() error { tokens, err = e.loadPrefix(r); return err })
	return tokens, err
}

func (e *Engine) loadPrefix(r io.Reader) (tokens []int32, err error) {
	in := &checked{r: bufio.NewReaderSize(r, 1<<20), sum: sha256.New()}
	header, err := in.header()
	if err != nil {
		return nil, err
	}
	if d := e.snapshotHeader(0).difference(header); d != "" {
		return nil, fmt.Errorf("%w: %s", ErrSnapshotMismatch, d)
	}
	n := header.Tokens
	switch {
	case n < 1 || n%e.plan.PageSize != 0 || n > e.plan.PagesPerSeq*e.plan.PageSize:
		return nil, fmt.Errorf("%w: %d tokens are not whole pages of a sequence of up to %d tokens: see MaxModelLen",
			ErrSnapshotMismatch, n, e.plan.MaxModelLen)
	case e.bytesOnHost(n) > e.hostCache.Limit():
		return nil, e.noHostMemory(n)
	}
	tokens = make([]int32, n)
	in.read(tokens)
	var contents []*block
	for range ceilDiv(n/e.plan.PageSize, device.BlockPages) {
		layers := make([]any, len(e.settled.Sizes.Layouts))
		for i, layout := range e.settled.Sizes.Layouts {
			dtype := layout.Shape().DType
			elements := e.plan.Devices * device.BlockPages * int(layout.PageBytes()) / dtype.Size()
			layers[i] = reflect.MakeSlice(reflect.SliceOf(dtype.GoType()), elements, elements).Interface()
			in.read(layers[i])
		}
		if in.err != nil {
			return nil, in.err
		}
		contents = append(contents, &block{layers: layers})
	}
	want256 := in.sum.Sum(nil)
	got256 := make([]byte, sha256.Size)
	in.read(got256)
	if in.err != nil {
		return nil, in.err
	}
	if !bytes.Equal(want256, got256) {
		return nil, fmt.Errorf("%w: the checksum is wrong", ErrSnapshotCorrupt)
	}
	return tokens, e.pinLoaded(tokens, contents)
}

// pinLoaded keeps what was read, and pins it.
func (e *Engine) pinLoaded(tokens []int32, contents []*block) error {
	c, chain := e.hostCache, prefix.Chain(e.prefixSeed, tokens, e.plan.PageSize)
	name := chain[len(chain)-1]
	kept, end := c.Blocks(chain, 0, device.BlockPages)
	if end < len(chain) {
		bytes := e.bytesOnHost(device.BlockPages * e.plan.PageSize)
		if bytes*int64(len(contents)) > c.Left() {
			return e.noHostMemory(len(tokens))
		}
		kept = nil
		for i, b := range contents {
			from := i * device.BlockPages
			k := &schedule.Kept{Chain: chain[from:min(len(chain), from+device.BlockPages)], From: from, Block: b,
				Bytes: bytes}
			c.Take(bytes)
			c.Add(k)
			c.Use(k)
			kept = append(kept, k)
		}
		defer func() {
			for _, k := range kept {
				c.Unuse(k)
			}
		}()
	}
	c.Pin(name, kept)
	return nil
}

// SnapshotInfo says what a file of a prefix is of.
type SnapshotInfo struct {
	Tokens         int
	Model          string // fingerprint of its files
	DType, KVDType string
	PageSize       int
	Computed       string // platform and kernels
}

// ReadSnapshotInfo reads what SavePrefix wrote, but for the keys and values, whose checksum it does not check.
func ReadSnapshotInfo(r io.Reader) (SnapshotInfo, error) {
	in := &checked{r: bufio.NewReader(r), sum: sha256.New()}
	h, err := in.header()
	return SnapshotInfo{Tokens: h.Tokens, Model: h.Model, DType: h.DType, KVDType: h.KVDType, PageSize: h.PageSize,
		Computed: h.Computed}, err
}

// header reads the begin of a file.
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
