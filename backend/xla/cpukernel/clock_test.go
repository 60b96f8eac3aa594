package cpukernel_test

import (
	"testing"
	"unsafe"

	"github.com/quire/quire/backend/xla/cpukernel"
)

func TestClocked(t *testing.T) {
	handlers := cpukernel.Handlers()
	if len(handlers) == 0 {
		t.Fatal("no kernels")
	}
	again := cpukernel.Handlers()
	seen := map[unsafe.Pointer]string{}
	for name, handler := range handlers {
		if again[name] != handler {
			t.Errorf("%s: another handler at the second call", name)
		}
		if other, taken := seen[handler]; taken {
			t.Errorf("%s and %s have one handler", name, other)
		}
		seen[handler] = name
		if _, ok := cpukernel.Times()[name]; !ok && name != cpukernel.Chain { // its kernels have
			t.Errorf("%s has no clock", name)
		}
	}
}
