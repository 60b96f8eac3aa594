//go:build emulate_amx

package cpukernel

// With the build tag emulate_amx, for tests, linear layers run the code for AMX and AVX-512 on any processor with
// AVX2: tiles are in memory, and registers are pairs of AVX2's. Attention runs the code for AMX. With emulate_dot
// both run the code for AVX-512's dot products.

// #cgo CFLAGS: -DQ_EMULATE=4
import "C"
