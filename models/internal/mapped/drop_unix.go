//go:build unix

package mapped

import "golang.org/x/sys/unix"

// dropPages ignores the error: it is a hint, and its failure costs memory, not correctness.
func dropPages(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
