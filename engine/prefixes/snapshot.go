package prefixes

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"reflect"

	"github.com/quire/quire/engine/core"
	"github.com/quire/quire/engine/device"
	"github.com/quire/quire/engine/prefix"
	"github.com/quire/quire/engine/schedule"
)

// header is what the keys and values of this engine depend on.
func (p *Prefixes) header(tokens int) snapshotHeader {
	settled := p.core.Settled
	plan, cfg, backend := settled.Plan(), settled.Model, settled.Config.Backend
	h := snapshotHeader{Model: p.core.Version(), DType: plan.DType, Weights: plan.Weights,
		KVDType: plan.KVDType, PageSize: plan.PageSize,
		Layers: cfg.NumLayers, KVHeads: cfg.NumKVHeads, HeadDim: cfg.HeadDim, Tokens: tokens,
		ByHead: settled.Traits.CachesByHead, LongRope: cfg.LongRope(), Computed: backend.Name(),
		Version: computedVersion}
	if plan.Devices > 1 {
		h.Devices = plan.Devices
	}
	if b, ok := backend.(interface{ Kernels() string }); ok {
		h.Computed = settled.Traits.Platform + " " + b.Kernels()
	}
	return h
}

// Save runs the tokens, if they are not there already, and writes the keys and values of their full pages to w. It
// returns how many tokens these are. It needs Config.HostKVMemory. While Run is under way it returns
// [turns.ErrRunning].
func (p *Prefixes) Save(ctx context.Context, tokens []int32, w io.Writer) (saved int, err error) {
	if p.core.Several() {
		return 0, fmt.Errorf("%w: each has a part of a prefix, and a file has all", core.ErrSeveralHosts)
	}
	err = p.lock.Alone(func() error { saved, err = p.save(ctx, tokens, w); return err })
	return saved, err
}

func (p *Prefixes) save(ctx context.Context, tokens []int32, w io.Writer) (saved int, err error) {
	blocks, chain, err := p.keep(ctx, tokens, false)
	if err != nil {
		return 0, err
	}
	n := len(chain) * p.sizes.PageSize
	text, err := json.Marshal(p.header(n))
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
		layers, err := k.Block.(*core.Block).Wait() // the blocks after it come while this one is written
		if err != nil {
			p.Host.Remove(k)
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

// Load reads what Save wrote, and pins it: every prompt that begins with these tokens takes them over,
// until Unpin. It needs Config.HostKVMemory. While Run is under way it returns [turns.ErrRunning].
func (p *Prefixes) Load(r io.Reader) (tokens []int32, err error) {
	switch {
	case p.core.Several():
		return nil, fmt.Errorf("%w: each has a part of a prefix, and a file has all", core.ErrSeveralHosts)
	case p.Host == nil:
		return nil, fmt.Errorf("%w: give the engine some to load a prefix", ErrNoHostMemory)
	}
	err = p.lock.Alone(func() error { tokens, err = p.load(r); return err })
	return tokens, err
}

func (p *Prefixes) load(r io.Reader) (tokens []int32, err error) {
	in := &checked{r: bufio.NewReaderSize(r, 1<<20), sum: sha256.New()}
	header, err := in.header()
	if err != nil {
		return nil, err
	}
	if d := p.header(0).difference(header); d != "" {
		return nil, fmt.Errorf("%w: %s", ErrSnapshotMismatch, d)
	}
	n := header.Tokens
	switch {
	case n < 1 || n%p.sizes.PageSize != 0 || n > p.sizes.PagesPerSeq*p.sizes.PageSize:
		return nil, fmt.Errorf("%w: %d tokens are not whole pages of a sequence of up to %d tokens: see MaxModelLen",
			ErrSnapshotMismatch, n, p.core.Settled.MaxModelLen)
	case p.core.BytesOnHost(n) > p.Host.Limit():
		return nil, p.noHostMemory(n)
	}
	tokens = make([]int32, n)
	in.read(tokens)
	var contents []*core.Block
	for range ceilDiv(n/p.sizes.PageSize, device.BlockPages) {
		layers := make([]any, len(p.sizes.Layouts))
		for i, layout := range p.sizes.Layouts {
			dtype := layout.Shape().DType
			elements := p.core.Settled.Devices * device.BlockPages * int(layout.PageBytes()) / dtype.Size()
			layers[i] = reflect.MakeSlice(reflect.SliceOf(dtype.GoType()), elements, elements).Interface()
			in.read(layers[i])
		}
		if in.err != nil {
			return nil, in.err
		}
		contents = append(contents, core.Loaded(layers))
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
	return tokens, p.pinLoaded(tokens, contents)
}

// pinLoaded keeps what was read, and pins it.
func (p *Prefixes) pinLoaded(tokens []int32, contents []*core.Block) error {
	c, chain := p.Host, prefix.Chain(p.Seed, tokens, p.sizes.PageSize)
	name := chain[len(chain)-1]
	kept, end := c.Blocks(chain, 0, device.BlockPages)
	if end < len(chain) {
		bytes := p.core.BytesOnHost(device.BlockPages * p.sizes.PageSize)
		if bytes*int64(len(contents)) > c.Left() {
			return p.noHostMemory(len(tokens))
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

func ceilDiv(a, b int) int { return (a + b - 1) / b }
