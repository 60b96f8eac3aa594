package xla

import (
	"os"
	"syscall"
	"unsafe"
)

// hugePages asks for large pages, which take less of the processor's address translation. It is advice: what fails is
// left as it is.
func hugePages(b []byte) {
	page := uintptr(os.Getpagesize())
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % page
	if n := uintptr(len(b)); n > skip+page {
		_ = syscall.Madvise(b[skip:n-(n-skip)%page], syscall.MADV_HUGEPAGE)
	}
}
