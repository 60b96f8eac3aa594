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
	// maxRun is the longest run of blocks asked for at once, 4 MiB; tailRun is what is asked for at a file's end, where
	// the footers of Parquet files are.
	maxRun  = 64
	tailRun = 8
)

// blocks serves small reads at any place of an object. The columns of a Parquet file are read in turns, each from its
// own place onwards: a read that follows a block which is there doubles what is asked for at once. When blocks go
// unread, because there are more places than room, less is asked for.
type blocks struct {
	o *objectVersion

	mu     sync.Mutex
	byPos  map[int64]*list.Element // of *block
	recent *list.List              // the last used first
	limit  int                     // longest run
}

type block struct {
	pos   int64 // number of the block in the object
	run   int   // blocks that were asked for together
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

// get returns a block when it is there, or its error. want is how many are needed from it on.
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
	asked := run[pos-first]
	asked.used = true
	b.recent.MoveToFront(b.byPos[pos])
	b.evict()
	b.mu.Unlock()
	b.load(ctx, run)
	return asked
}

// plan says what to ask for when the block at pos is missing.
func (b *blocks) plan(pos int64, want int) (first int64, n int) {
	end := (b.o.version.size + blockBytes - 1) / blockBytes // one past the last block
	first, n = pos, want
	if before := b.byPos[pos-1]; before != nil {
		n = max(n, 2*before.Value.(*block).run)
	}
	n = min(n, b.limit)
	if pos >= end-tailRun && b.recent.Len() <= 1 { // the first read, but for that of the magic bytes
		for first > max(0, end-tailRun) && b.byPos[first-1] == nil {
			first--
		}
		n = tailRun
	}
	n = int(min(int64(n), end-first))
	for i := range n { // not what is there
		if b.byPos[first+int64(i)] != nil {
			return first, i
		}
	}
	return first, n
}

// evict drops what was not used for the longest time.
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

// load fills a run of blocks by one request.
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
				part = append([]byte(nil), part...) // a block kept does not keep its run
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
