package cpukernel

/*
#include "gemm_blocks.h"
*/
import "C"

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"github.com/quire/quire/backend/blocks"
)

func blocksOf(f blocks.Format) C.q_blocks {
	return C.q_blocks{bits: C.int(f.Bits), size: C.int(f.Size), offset: C.int(f.Offset), super: flag(f.Super),
		min: flag(f.Min), exponent: flag(f.Exponent), table: C.int(f.Table), group: C.int(f.Group),
		zero: flag(f.Zero), e4m3: flag(f.E4M3)}
}

// BlocksShape returns the shape of the bytes of a packed matrix [out, in] in blocks: panels, units, bytes of a unit.
func BlocksShape(f blocks.Format, out, in int, gateUp bool) []int {
	l := LinearLayout(U8)
	c := C.q_layout{panel: C.int64_t(l.Panel), group: 1, multiple: 4}
	return []int{int(C.q_panels(C.int64_t(out), flag(gateUp), c)), in / f.Unit(),
		int(C.q_unit_bytes(blocksOf(f), C.int64_t(l.Panel)))}
}

// PackBlocks packs rows of a matrix [out, in] in blocks, starting with row from, into packed, bytes of [BlocksShape]
// that initially are zeros, on all processors.
func PackBlocks(packed []byte, rows *blocks.Rows, out int, gateUp bool, from int) error {
	shape := BlocksShape(rows.Format, out, rows.In, gateUp)
	if rows.In%rows.Unit() != 0 || from < 0 || from+rows.N > out || len(packed) != shape[0]*shape[1]*shape[2] {
		return fmt.Errorf("cpukernel: packing %d rows of %d in %s from row %d on of %d into %d bytes: the shape is %v",
			rows.N, rows.In, rows.Format, from, out, len(packed), shape)
	}
	if rows.N == 0 {
		return nil
	}
	panel := C.int64_t(LinearLayout(U8).Panel)
	workers := min(runtime.GOMAXPROCS(0), shape[0])
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			var pin runtime.Pinner // the struct below has Go pointers
			defer pin.Unpin()
			at := func(x []uint16) *C.uint16_t {
				if len(x) == 0 {
					return nil
				}
				pin.Pin(&x[0])
				return (*C.uint16_t)(unsafe.Pointer(&x[0]))
			}
			pin.Pin(&rows.Quants[0])
			var scales *C.float
			if len(rows.GroupScales) > 0 {
				pin.Pin(&rows.GroupScales[0])
				scales = (*C.float)(unsafe.Pointer(&rows.GroupScales[0]))
			}
			var zeros *C.uint8_t
			if len(rows.Zeros) > 0 {
				pin.Pin(&rows.Zeros[0])
				zeros = (*C.uint8_t)(unsafe.Pointer(&rows.Zeros[0]))
			}
			C.q_pack_blocks(unsafe.Pointer(&packed[0]), blocksOf(rows.Format),
				C.q_blocks_rows{quants: (*C.uint8_t)(unsafe.Pointer(&rows.Quants[0])), scales: at(rows.Scales),
					minima: at(rows.Minima), scale_factors: at(rows.ScaleFactors),
					minimum_factors: at(rows.MinimumFactors), group_scales: scales, zeros: zeros},
				C.int64_t(out), C.int64_t(rows.In), flag(gateUp), panel, C.int64_t(from), C.int64_t(rows.N),
				C.int64_t(shape[0]*i/workers), C.int64_t(shape[0]*(i+1)/workers))
		})
	}
	wg.Wait()
	return nil
}
