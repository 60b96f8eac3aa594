package plan

import (
	"testing"

	"github.com/quire/quire/backend/xla"
)

// A plan warns where attention has no kernel, with what makes one.
func TestKernelWarnings(t *testing.T) {
	has := xla.KernelUse{Composite: "ragged_paged_attention", For: "32 heads", Kernel: "ragged of jax"}
	none := xla.KernelUse{Composite: "ragged_paged_attention", For: "18 heads",
		Reason: "no payload was captured for it: `sample kernels capture --heads 18` makes one"}
	want := "ragged paged attention runs without a kernel, in ordinary operations, for 18 heads: " + none.Reason
	if got := kernelWarnings([]xla.KernelUse{has, none}); len(got) != 1 || got[0].String() != want {
		t.Errorf("the warnings are %q", got)
	}
	if got := kernelWarnings([]xla.KernelUse{has}); got != nil {
		t.Errorf("there is a kernel, and the warnings are %q", got)
	}
}
