package cpukernel

/*
#include "cpu.h"
#include "gemm.h"
#include "gemm_check.h"
*/
import "C"

import (
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"unsafe"
)

// gemmHandlers returns the kernels of gemm.h.
func gemmHandlers() map[string]unsafe.Pointer {
	return map[string]unsafe.Pointer{
		"quire_linear":         unsafe.Pointer(C.quire_linear),
		"quire_linear_adapted": unsafe.Pointer(C.quire_linear_adapted),
		"quire_linear_rows":    unsafe.Pointer(C.quire_linear_rows),
	}
}

// DType is the type of a packed matrix's elements, numbered as XLA does.
type DType int

// The element types that matrices are packed in.
const (
	F32  DType = C.Q_F32
	BF16 DType = C.Q_BF16
	F16  DType = C.Q_F16
	S8   DType = C.Q_S8
	U8   DType = C.Q_U8 // a matrix in blocks
)

// Layout is the form in which the kernels of this machine need a matrix [out, in]: [panels][in/Group][Panel][Group].
// A panel is Panel rows of the matrix, which are columns of a product, and in is padded with zeros to a multiple of
// Multiple. See gemm.h.
type Layout struct {
	Panel, Group, Multiple int
}

// chooseLinear chooses the level of linear layers. Code for this machine's instructions may have run on few machines
// so far, so it is compared with plain code's results first.
var chooseLinear = sync.OnceFunc(func() {
	if _, err := Features(); err != nil {
		return // the code that registers the kernels reports it
	}
	if wanted, got := SettleLinear(); got < wanted {
		slog.Warn("linear layers are wrong with what this processor has, and run with less", "has", Levels[wanted],
			"runs", Levels[got])
	}
})

// SettleLinear chooses the level of linear layers. It returns the level that this machine has, and the one they run
// with.
func SettleLinear() (has, runs int) { return int(C.q_level()), int(C.q_linear_choose()) }

// LinearLayout returns the layout of matrices of a dtype.
func LinearLayout(d DType) Layout {
	chooseLinear()
	l := C.q_linear_layout(C.int(d))
	return Layout{Panel: int(l.panel), Group: int(l.group), Multiple: int(l.multiple)}
}

// Shape returns the packed shape of a matrix [out, in]; of a matrix of gates and ups if gateUp.
func (l Layout) Shape(out, in int, gateUp bool) []int {
	c := C.q_layout{panel: C.int64_t(l.Panel), group: C.int64_t(l.Group), multiple: C.int64_t(l.Multiple)}
	return []int{int(C.q_panels(C.int64_t(out), flag(gateUp), c)), int(C.q_padded_in(C.int64_t(in), c)) / l.Group,
		l.Panel, l.Group}
}

// Pack packs rows of a matrix [out, in], starting with row from, into packed, an array of [Layout.Shape] that
// initially is zeros, on all processors. Both are slices of the dtype's bytes, row-major.
func Pack(packed, rows []byte, d DType, out, in int, gateUp bool, from int) error {
	l := LinearLayout(d)
	size := int(C.q_size(C.int(d)))
	shape := l.Shape(out, in, gateUp)
	n := len(rows) / max(1, in*size)
	if n*in*size != len(rows) || from < 0 || from+n > out || len(packed) != shape[0]*shape[1]*shape[2]*shape[3]*size {
		return fmt.Errorf(
			"cpukernel: packing %d bytes as rows from %d on of a matrix [%d, %d] into %d bytes, the packed shape is %v",
			len(rows), from, out, in, len(packed), shape)
	}
	if n == 0 {
		return nil
	}
	layout := C.q_layout{panel: C.int64_t(l.Panel), group: C.int64_t(l.Group), multiple: C.int64_t(l.Multiple)}
	workers := min(runtime.GOMAXPROCS(0), shape[0])
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			C.q_pack(unsafe.Pointer(&packed[0]), unsafe.Pointer(&rows[0]), C.int(d), C.int64_t(out), C.int64_t(in),
				flag(gateUp), layout,
				C.int64_t(from), C.int64_t(n), C.int64_t(shape[0]*i/workers), C.int64_t(shape[0]*(i+1)/workers))
		})
	}
	wg.Wait()
	return nil
}

func flag(b bool) C.int {
	if b {
		return 1
	}
	return 0
}
