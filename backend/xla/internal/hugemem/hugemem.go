// Package hugemem allocates host memory on large pages, 2 MiB on x86-64. They need less address translation, and the
// processor's prefetcher does not stop at the end of each small page.
//
// A matrix of a small model is shorter than a large page. So pieces share regions, and a region is given back to the
// system with its last piece.
package hugemem

import (
	"fmt"
	"sync"
	"unsafe"
)

const (
	pageSize   = 2 << 20
	regionSize = 64 << 20 // a longer piece has a region of its own
	align      = 64       // what PJRT asks for on a CPU
)

// Piece is memory that was taken.
type Piece struct {
	Bytes []byte // as many as were asked for, zeros at first, at an address that is a multiple of 64

	region *region
	free   sync.Once
}

// region is one mapping. left is what no piece has yet.
type region struct {
	mapped, left []byte
	pieces       int
}

var (
	mu   sync.Mutex // of all regions
	open *region    // the last one that pieces share; nil if there is none
)

// Take maps n bytes. They stay until they are freed, even if nothing points to them.
func Take(n int) (*Piece, error) {
	mu.Lock()
	defer mu.Unlock()
	need := (max(n, 1) + align - 1) / align * align
	r := open
	if need > regionSize || r == nil || len(r.left) < need {
		var err error
		if r, err = newRegion(max(need, regionSize)); err != nil {
			return nil, fmt.Errorf("mapping %d bytes: %w", max(need, regionSize), err)
		}
		if need <= regionSize {
			open = r
		}
	}
	p := &Piece{Bytes: r.left[:n:n], region: r}
	r.left = r.left[need:]
	r.pieces++
	return p, nil
}

// Free gives the piece back. Freeing it again does nothing.
func (p *Piece) Free() {
	p.free.Do(func() {
		mu.Lock()
		defer mu.Unlock()
		if p.region.pieces--; p.region.pieces > 0 {
			return
		}
		if open == p.region {
			open = nil
		}
		unmap(p.region.mapped)
	})
}

func newRegion(size int) (*region, error) {
	mapped, err := mapZeros(size + pageSize)
	if err != nil {
		return nil, err
	}
	skip := int(-uintptr(unsafe.Pointer(unsafe.SliceData(mapped))) % pageSize)
	r := &region{mapped: mapped, left: mapped[skip : skip+size]}
	advise(r.left)
	return r, nil
}
