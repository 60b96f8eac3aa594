package program

import (
	"strconv"
	"strings"
	"testing"
)

// The functions of modules that stand in for kernels get names of their own; a text without a main function is refused.
func TestStandIns(t *testing.T) {
	const module = `module @jit_kernel attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<i32>) -> (tensor<i32> {jax.result_info = "result"}) {
    %0 = call @clip(%arg0) : (tensor<i32>) -> tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @clip(%arg0: tensor<i32>) -> tensor<i32> {
    return %arg0 : tensor<i32>
  }
}
`
	s := &modules{}
	for i, want := range []string{"kernel0_main", "kernel1_main"} {
		key := strconv.Itoa(i)
		if err := s.add(key, module); err != nil || s.names[key] != want {
			t.Fatalf("module %d is called as %q (%v), want %q", i, s.names[key], err, want)
		}
	}
	text := s.text.String()
	for _, want := range []string{"func.func private @kernel0_main(", "call @kernel0_clip(",
		"func.func private @kernel0_clip(", "func.func private @kernel1_main(", "call @kernel1_clip("} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q is in the text %d times:\n%s", want, strings.Count(text, want), text)
		}
	}
	if strings.Contains(text, "module") || strings.Contains(text, "public") {
		t.Errorf("the text is still a module:\n%s", text)
	}
	for _, bad := range []string{"", "module @x {\n}\n", strings.ReplaceAll(module, "@main", "@other")} {
		if err := s.add("bad", bad); err == nil {
			t.Errorf("%q is taken for a module with a main function", bad)
		}
	}
}
