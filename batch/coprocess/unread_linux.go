package coprocess

import "golang.org/x/sys/unix"

// inPipe returns how many bytes a pipe holds.
func inPipe(fd uintptr) int {
	n, err := unix.IoctlGetInt(int(fd), unix.TIOCINQ)
	if err != nil {
		return 0
	}
	return n
}
