//go:build unix

package hugemem

import "golang.org/x/sys/unix"

// Supported reports whether Take works on this system.
const Supported = true

func mapZeros(n int) ([]byte, error) {
	return unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
}

func unmap(b []byte) { _ = unix.Munmap(b) }
