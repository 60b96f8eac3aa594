//go:build !linux

package coprocess

// inPipe returns how many bytes a pipe holds; it is not known here.
func inPipe(uintptr) int { return 0 }
