package native

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"github.com/quire/quire/backend/xla/internal/memoryerror"
	"github.com/quire/quire/backend/xla/internal/pjrtc"
	"github.com/quire/quire/backend/xla/mosaic"
)

// The compiler shows the operands of a call that lacks memory, which identify the kernel.
func TestCallIsNamedByItsOperands(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "memoryerror", "testdata", "memory", "vmem-attention.txt"))
	if err != nil {
		t.Fatal(err)
	}
	err = memoryerror.Compiling("run", &pjrtc.Error{Code: pjrtc.CodeResourceExhausted, Message: string(text)})
	var lack *memoryerror.Kernel
	if !errors.As(err, &lack) {
		t.Fatalf("the text is read as %v", err)
	}
	call := func(dims ...int) *mosaic.Call {
		c := &mosaic.Call{}
		for _, d := range dims {
			c.Operands = append(c.Operands, mosaic.Tensor{Shape: shapes.Make(dtypes.Int32, d)})
		}
		return c
	}
	if !isNamed(call(96, 97, 1), lack.Operation) || isNamed(call(64), lack.Operation) {
		t.Errorf("the operation is %s", lack.Operation)
	}
}
