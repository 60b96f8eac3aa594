//go:build !linux

package batch

// lockMemory has nothing to do: TPUs are on Linux.
func lockMemory() {}
