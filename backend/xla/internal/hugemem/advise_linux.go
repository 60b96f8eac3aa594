package hugemem

import "golang.org/x/sys/unix"

// advise asks for large pages; if there are none, small ones serve.
func advise(b []byte) { _ = unix.Madvise(b, unix.MADV_HUGEPAGE) }
