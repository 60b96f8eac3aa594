//go:build !linux

package load

// lockMemory has nothing to do: TPUs are on Linux.
func lockMemory() {}
