package cpukernel

/*
#include "exchange.h"
*/
import "C"

import (
	"errors"
	"fmt"
	"sync/atomic"
	"unsafe"
)

// Exchange returns what the same device of each process passes on the same occasion, by process. channel is the
// number of the occasion's place in the program. data is valid until it returns.
type Exchange func(device int, channel uint64, data []byte) ([][]byte, error)

var exchange atomic.Pointer[Exchange]

// SetExchange sets how numbers are sent to the other processes. A process has one such function at a time: another
// one is rejected until nil removes the first.
func SetExchange(f Exchange) error {
	if f == nil {
		exchange.Store(nil)
		return nil
	}
	if !exchange.CompareAndSwap(nil, &f) {
		return errors.New("cpukernel: this process exchanges numbers with others already")
	}
	return nil
}

// ExchangeHandler returns the kernel that calls the function of [SetExchange]: see exchange.h.
func ExchangeHandler() (target string, handler unsafe.Pointer) {
	return "quire_exchange", unsafe.Pointer(C.quire_exchange)
}

// quireExchange returns the text of an error for C to free, or nil.
//
//export quireExchange
func quireExchange(device C.int, channel C.int64_t, data unsafe.Pointer, size C.size_t, into unsafe.Pointer,
	processes C.int64_t) *C.char {
	f := exchange.Load()
	if f == nil {
		return C.CString("nothing connects this process to others")
	}
	all, err := (*f)(int(device), uint64(channel), unsafe.Slice((*byte)(data), int(size)))
	if err == nil && len(all) != int(processes) {
		err = fmt.Errorf("%d processes exchange numbers, not %d", len(all), int(processes))
	}
	for i, part := range all {
		if err == nil && len(part) != int(size) {
			err = fmt.Errorf("process %d gives %d bytes, not %d", i, len(part), int(size))
		}
		if err == nil {
			copy(unsafe.Slice((*byte)(unsafe.Add(into, i*int(size))), int(size)), part)
		}
	}
	if err != nil {
		return C.CString(err.Error())
	}
	return nil
}
