package hugemem

import (
	"testing"
	"unsafe"

	"pgregory.net/rapid"
)

// TestPieces takes and frees pieces of any lengths: each begins as zeros, at a multiple of 64, and keeps what was
// written to it until it is freed. In the end nothing is mapped.
func TestPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type taken struct {
			piece *Piece
			mark  byte
		}
		var all []taken
		// All bytes of a short piece are looked at, some of a long one.
		each := func(b []byte, do func(at *byte)) {
			for i := 0; i < len(b); i += 1 + len(b)>>16 {
				do(&b[i])
			}
		}
		free := func(i int) {
			each(all[i].piece.Bytes, func(at *byte) {
				if *at != all[i].mark {
					t.Fatalf("a byte is %d, not %d as written", *at, all[i].mark)
				}
			})
			all[i].piece.Free()
			all[i].piece.Free()
			all = append(all[:i], all[i+1:]...)
		}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			if len(all) > 0 && rapid.Bool().Draw(t, "free") {
				free(rapid.IntRange(0, len(all)-1).Draw(t, "which"))
				continue
			}
			n := rapid.SampledFrom([]int{0, 1, 64, 65, 4096, 1 << 20, regionSize / 2, regionSize, regionSize + 1}).
				Draw(t, "bytes")
			p, err := Take(n)
			if err != nil {
				t.Fatal(err)
			}
			if len(p.Bytes) != n || uintptr(unsafe.Pointer(unsafe.SliceData(p.Bytes)))%align != 0 {
				t.Fatalf("%d bytes at %p, want %d at a multiple of %d", len(p.Bytes), p.Bytes, n, align)
			}
			each(p.Bytes, func(at *byte) {
				if *at != 0 {
					t.Fatalf("a byte of a new piece is %d", *at)
				}
				*at = byte(step + 1)
			})
			all = append(all, taken{p, byte(step + 1)})
		}
		for len(all) > 0 {
			free(0)
		}
		if open != nil {
			t.Fatal("a region without pieces is left")
		}
	})
}
