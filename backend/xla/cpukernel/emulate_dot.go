//go:build emulate_dot

package cpukernel

// #cgo CFLAGS: -DQ_EMULATE=3
import "C"
