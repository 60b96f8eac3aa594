package mapped

import (
	"errors"
	"os"
	"runtime/debug"
	"sync/atomic"
)

// ErrFault reports that mapped bytes cannot be read.
var ErrFault = errors.New(
	"a model file was shortened, or its disk failed, while it was open; leave model files alone during a run")

// Guard calls f, which reads mapped bytes in its own goroutine, and returns ErrFault if they cannot be read. By
// default the signal for that ends the process.
func Guard(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			if _, fault := p.(interface{ Addr() uintptr }); !fault {
				panic(p)
			}
			err = ErrFault
		}
	}()
	return f()
}

var sink atomic.Uint32 // keeps the compiler from removing the reads

// Touch reads a byte of each page of part. The next reader, C code without a Guard, then hardly finds a page that
// cannot be read.
func Touch(part []byte) error {
	return Guard(func() error {
		var sum byte
		for i := 0; i < len(part); i += os.Getpagesize() {
			sum += part[i]
		}
		if len(part) > 0 {
			sum += part[len(part)-1]
		}
		sink.Store(uint32(sum))
		return nil
	})
}
