package storage

import (
	"container/list"
	"context"
	"io"
	"sync"
)

const (
	blockBytes = 64 << 10
	// maxBlocks bounds the memory of a file: 64 MiB.
	maxBlocks = 1024
	// maxRun is the longest run of blocks in one request, 4 MiB. tailRun is the run at a file's end, where Parquet
	// files have their footers.
	maxRun  = 64
	tailRun = 8
)

// blocks serves small reads at any place of an object. The columns of a Parquet file are read in turns, each
// sequentially from its own place: a read that follows an existing block doubles the size of the next request. If
// blocks are evicted unread, because there are more places than room, requests become smaller.
type blocks struct {
	o *objectVersion

	mu     sync.Mutex
	byPos  map[int64]*list.Element // elements are *block
	recent *list.List              // most recently used first
	limit  int                     // longest allowed run
}

type block struct {
	pos   int64 // number of the block in the object
	run   int   // number of blocks in the request that fetched it
	used  bool
	data  []byte
	err   error
	ready chan struct{}
}

func newBlocks(o *objectVersion) *blocks {
	return &blocks{o: o, byPos: map[int64]*list.Element{}, recent: list.New(), limit: maxRun}
}

func (b *blocks) readAt(ctx context.Context, p []byte, offset int64) (n int, err error) {
	size := b.o.version.size
	for len(p) > 0 {
		if offset >= size {
			return n, io.EOF
		}
		pos := offset / blockBytes
		last := (min(offset+int64(len(p)), size) - 1) / blockBytes
		blk := b.get(ctx, pos, int(last-pos)+1)
		if blk.err != nil {
			return n, blk.err
		}
		k := copy(p, blk.data[offset-pos*blockBytes:])
		p, offset, n = p[k:], offset+int64(k), n+k
	}
	return n, nil
}

// get returns the block at pos, or its error, after fetching it if needed. want is how many blocks the caller needs
// from it on.
func (b *blocks) get(ctx context.Context, pos int64, want int) *block {
	b.mu.Lock()
	if e := b.byPos[pos]; e != nil {
		blk := e.Value.(*block)
		blk.used = true
		b.recent.MoveToFront(e)
		b.mu.Unlock()
		<-blk.ready
		return blk
	}
	first, n := b.plan(pos, want)
	run := make([]*block, n)
	for i := range run {
		run[i] = &block{pos: first + int64(i), run: n, ready: make(chan struct{})}
		b.byPos[run[i].pos] = b.recent.PushFront(run[i])
	}
	wanted := run[pos-first]
	wanted.used = true
	b.recent.MoveToFront(b.byPos[pos])
	b.evict()
	b.mu.Unlock()
	b.load(ctx, run)
	return wanted
}

// plan returns which blocks to request if the block at pos is missing.
func (b *blocks) plan(pos int64, want int) (first int64, n int) {
	end := (b.o.version.size + blockBytes - 1) / blockBytes // one past the last block
	first, n = pos, want
	if before := b.byPos[pos-1]; before != nil {
		n = max(n, 2*before.Value.(*block).run)
	}
	n = min(n, b.limit)
	if pos >= end-tailRun && b.recent.Len() <= 1 { // the first read after the magic bytes
		for first > max(0, end-tailRun) && b.byPos[first-1] == nil {
			first--
		}
		n = tailRun
	}
	n = int(min(int64(n), end-first))
	for i := range n { // stop before blocks that exist
		if b.byPos[first+int64(i)] != nil {
			return first, i
		}
	}
	return first, n
}

// evict drops the least recently used block.
func (b *blocks) evict() {
	for b.recent.Len() > maxBlocks {
		e := b.recent.Back()
		blk := e.Value.(*block)
		b.recent.Remove(e)
		delete(b.byPos, blk.pos)
		if !blk.used {
			b.limit = max(1, b.limit/2)
		}
	}
}

// load fills a run of blocks with one request.
func (b *blocks) load(ctx context.Context, run []*block) {
	start := run[0].pos * blockBytes
	data := make([]byte, min(int64(len(run))*blockBytes, b.o.version.size-start))
	err := b.o.fill(ctx, data, start)
	if err != nil {
		b.mu.Lock()
		for _, blk := range run {
			if e := b.byPos[blk.pos]; e != nil && e.Value == blk {
				b.recent.Remove(e)
				delete(b.byPos, blk.pos)
			}
		}
		b.mu.Unlock()
	}
	for i, blk := range run {
		blk.err = err
		if err == nil {
			part := data[i*blockBytes : min((i+1)*blockBytes, len(data))]
			if len(run) > 1 {
				part = append([]byte(nil), part...) // copied, so that a kept block does not keep its run
			}
			blk.data = part
		}
		close(blk.ready)
	}
}

func (b *blocks) drop() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.byPos = map[int64]*list.Element{}
	b.recent.Init()
}
